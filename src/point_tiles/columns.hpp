// Answers of fixed size, a row each, in files: columns at known places, tile after tile and each tile's rows
// ascending, so that a row has its place before its answer is known; and the pass that brings them into the
// order of the input.
//
// Of a search that is soon over they wait in memory, not in files: a disk would take them, give them back and
// forget them again, each at its own rate.
//
// Answers come to their places in any order, and some of them twice, so what the journal notes of a column is
// a sum over rows, of the XXH3-64 of a row's bytes seeded by its place: of all rows of tiles that are done,
// but for those of queries that wait.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "kith/execution.hpp"
#include "kith/point_tiles.hpp"
#include "point_tiles/row_files.hpp"
#include "point_tiles/running_hash.hpp"
#include "point_tiles/tuning.hpp"
#include "point_tiles/work_folder.hpp"

namespace kith::point_tiles {

/// Answers of fewer bytes are kept in files, whatever there is; tests have less wait in memory.
inline std::atomic<std::int64_t> least_in_memory{tuning::least_direct};
/// Those of a search that takes longer go to files: so much work at the most is done again.
inline std::atomic<std::chrono::seconds> longest_in_memory{tuning::longest_in_memory};

/// An array with a row for each query.
struct Column {
  std::string name;          ///< of its file in the work folder: "indices"
  std::string descr;         ///< of its elements, as npy names them
  std::int64_t per_row = 1;  ///< elements
  std::int64_t bytes = 0;    ///< of a row
  bool matrix = true;        ///< [rows, per_row]; false: [rows]

  std::string header(std::int64_t rows) const;
};

/// Three threads may be at work at once: one in put_rows(), one in put_doubles() with expect_again(), one in
/// put_doubles_at() at places that the others do not put.
class Columns {
 public:
  /// Opens what a run before has left of them, or makes them; the rows that it has noted are to be checked.
  /// @throws DamagedWork where less is left than was noted
  /// @param order that they are to have in the end. Of tiles: each is an array already, which needs only its
  /// name; of the input: they are dealt out to files that many threads write at once
  /// @param width bytes of a row number in an answer; those that no answer has take four where that suffices
  /// @param threads that sum rows up and write them
  /// @param kept in files; false: in memory, in the order of the input alone. @throws std::bad_alloc
  Columns(WorkFolder& work, std::vector<Column> columns, std::span<const std::int64_t> tile_rows,
          AnswerOrder order, std::int64_t width, int threads, bool kept = true);

  /// Bytes of all columns and of the rows' numbers.
  static std::int64_t bytes(std::span<const Column> columns, std::int64_t rows, std::int64_t width);

  /// Whether they are in files, so that the journal may note how far they are.
  bool kept() const noexcept { return kept_; }
  /// From memory into files; places from `end` on have nothing yet. Nobody else is at work. @throws IoError,
  /// Cancelled
  void keep(std::int64_t end, const Execution& execution);
  /// Bytes of memory that they take.
  std::int64_t in_memory() const noexcept { return kept_ ? 0 : bytes(columns_, rows(), own_width_); }

  std::int64_t rows() const { return places_.back(); }
  std::int64_t tiles() const { return static_cast<std::int64_t>(places_.size()) - 1; }
  /// The place of a tile's first row.
  std::int64_t place(std::int64_t tile) const { return places_[static_cast<std::size_t>(tile)]; }

  /// Which rows a tile has.
  void put_rows(std::int64_t tile, std::span<const std::int64_t> rows);
  /// What is put next has rows at these places that will be put again. Ascending; none: all is as it stays.
  void expect_again(std::span<const std::int64_t> places) { again_.assign(places.begin(), places.end()); }
  /// Rows of a column at places [first, first + count).
  void put(std::size_t column, std::int64_t first, std::int64_t count, const void* from);
  void read(std::size_t column, std::int64_t first, std::int64_t count, void* to) const;
  /// The same of row numbers; a column of row numbers has the width of all of them.
  void put_numbers(std::size_t column, std::int64_t first, std::int64_t count, const std::int64_t* from);
  /// The same of doubles, rounded to nearest where the column is of floats.
  void put_doubles(std::size_t column, std::int64_t first, std::int64_t count, const double* from);
  /// The same of rows at any places, none of which will be put again.
  void put_doubles_at(std::size_t column, std::span<const std::int64_t> places, const double* from);

  /// Bytes of the files of each and its sum, which the journal takes as "columns" when sync() has returned.
  nlohmann::json noted();
  /// All of it is on the disk. Others may put more meanwhile.
  void sync();
  /// What was put since the journal noted it last.
  std::int64_t bytes_to_note() const noexcept { return to_note_.load(std::memory_order_relaxed); }
  /// From now on the disk begins to take what is put at once, so that sync() has little left to wait for. In
  /// the order of tiles it always does: those files are the answer.
  void write_early() noexcept { early_.store(true, std::memory_order_relaxed); }

  /// What a run before has left gets its full size: the last rows that it has noted may wait, and nothing of
  /// them was put.
  void extend();
  /// What a run before has noted is without the answer of this place: its query waits.
  void leave_out(std::int64_t place);
  /// That the rest of the places before `end` is what the run before has noted. @throws DamagedWork,
  /// Cancelled
  void check(std::int64_t end, const Execution& execution) const;

  /// What the files of a column in the order of tiles are called.
  const std::string& file(std::size_t column) const { return open_[column].rows.name(); }
  /// The rows' numbers in the order of tiles.
  static constexpr const char* rows_file = "rows";

  /// For each tile the run of places whose rows are [first, last): those of a tile ascend. Buckets follow
  /// each other. @throws DamagedWork where the runs are not as many rows
  struct Run {
    std::int64_t begin = 0, end = 0;
  };
  void find_runs(std::int64_t first, std::int64_t last, std::vector<Run>& runs) const;
  /// Row numbers of places. @throws DamagedWork, from the second, where one is not in [low, high)
  void read_rows(std::int64_t first, std::int64_t count, std::int64_t* to) const;
  void read_rows(std::int64_t first, std::int64_t count, std::int64_t low, std::int64_t high,
                 std::int64_t* to) const;

  /// Writes the columns again, in the order of the input, to files named "<column>.input"; goes on where a
  /// run before was. @param memory that a bucket of rows may take
  void write_in_order_of_input(std::int64_t memory, const Execution& execution);
  static std::string ordered(const std::string& column) { return column + ".input"; }

 private:
  // An array on disk, and the sum of its rows.
  struct Open {
    std::string name;
    RowFiles rows;
    std::uint64_t sum = 0;
    std::uint64_t left_out = 0;
  };
  Open open(const std::string& name, const std::string& header, std::int64_t bytes, AnswerOrder order) const;
  void count(Open& to, std::uint64_t sum, std::int64_t bytes);
  template <class Rows>
  void write(Open& to, std::int64_t first, std::int64_t count, bool again, const Rows& rows);
  void write(Open& to, std::int64_t first, std::int64_t count, const void* from, bool again);
  template <class Narrow, class Wide, class Convert>
  void write_narrow(Open& to, std::int64_t first, std::int64_t count, const Wide* from, bool again,
                    const Convert& convert);
  void put_narrow(Open& to, std::int64_t width, std::int64_t first, std::int64_t count,
                  const std::int64_t* from, bool again);
  std::vector<RunningHash> resume_ordered(const nlohmann::json& before, std::int64_t rows,
                                          const Execution& execution) const;
  struct Bucket;
  struct Scratch;
  void gather(const Run& run, Bucket& bucket, Scratch& scratch) const;

  WorkFolder& work_;
  bool kept_;
  std::atomic<bool> early_;
  std::atomic<std::int64_t> to_note_{0};
  std::vector<Column> columns_;
  std::int64_t width_;                // of row numbers in columns
  std::vector<std::int64_t> places_;  // of each tile, and the end
  std::int64_t own_width_;            // of the rows' numbers
  std::vector<Open> open_;
  Open rows_;
  int threads_;
  std::vector<std::int64_t> again_;
};

}  // namespace kith::point_tiles
