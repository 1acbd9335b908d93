// Lists of any length: appended to a file as they are finished, with a column that says where each one is,
// and put into the order of the input at the end.
#pragma once

#include <cstdint>
#include <vector>

#include "core/positioned_file.hpp"
#include "kith/neighbors.hpp"
#include "point_tiles/columns.hpp"
#include "point_tiles/lists.hpp"
#include "point_tiles/running_hash.hpp"

namespace kith::point_tiles {

/// Where a list is: entries from `offset` bytes on, first their rows, then their distances.
struct ListPlace {
  std::int64_t offset = 0;
  std::int64_t count = 0;
};

/// What of their file is safe.
struct SavedLists {
  std::uint64_t bytes = 0;
  std::uint64_t hash = 0;
};

template <class T>
class RadiusLists final : public Answers<T> {
 public:
  /// @param saved what a run before has left of the file @throws DamagedWork where that is something else
  RadiusLists(WorkFolder& work, Columns& columns, std::int64_t width, const SavedLists& saved);
  static std::vector<Column> columns();

  bool finished_only() const override { return true; }
  void put(std::int64_t first, const Block<T>& block) override;
  /// Everything is in the file. @return what that is
  SavedLists flush();
  /// What has come since flush() was called last for a note.
  std::int64_t bytes_since(const SavedLists& noted) const {
    return static_cast<std::int64_t>(end_ - noted.bytes);
  }
  /// And on the disk. Others may put more meanwhile.
  void sync() { log_.sync(); }

  /// Writes offsets, rows and distances in the order of the input to the files of these names.
  static constexpr const char* files[] = {"offsets.input", "indices.input", "distances.input"};
  /// @param memory that lists may take together, but for a longer one
  /// @return how many neighbours there are
  std::int64_t write(std::int64_t memory, const Execution& execution);

 private:
  static constexpr auto entry = static_cast<std::int64_t>(sizeof(std::int64_t) + sizeof(T));
  void check(const ListPlace& list) const;  // one that was changed on the disk must not be taken
  std::int64_t total() const;
  class Output;
  void write_lists(const std::vector<ListPlace>& lists, std::int64_t memory, Output& out);

  WorkFolder& work_;
  Columns& columns_;
  std::int64_t width_;
  RunningHash hash_;
  OutputFile log_;
  std::uint64_t end_ = 0;  // of what is in the file and in the buffer
  std::vector<std::byte> buffer_;
  std::vector<ListPlace> places_;
};

/// The same in memory.
template <class T>
class RadiusInMemory final : public Answers<T> {
 public:
  /// @param budget bytes of all lists together @throws OutOfMemory from put()
  RadiusInMemory(std::int64_t queries, std::int64_t budget)
      : lists_(static_cast<std::size_t>(queries)), budget_(budget) {}
  bool finished_only() const override { return true; }
  void put(std::int64_t first, const Block<T>& block) override;
  RadiusNeighbors take();

 private:
  struct List {
    std::vector<std::int64_t> rows;
    std::vector<T> distances;
  };
  std::vector<List> lists_;
  std::int64_t budget_;
  std::int64_t held_ = 0;
};

}  // namespace kith::point_tiles
