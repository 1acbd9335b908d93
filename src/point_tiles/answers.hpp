// Where lists of neighbours go: into memory, or into files at fixed places, which a pass at the end may bring
// into the order of the input.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "core/positioned_file.hpp"
#include "kith/execution.hpp"
#include "kith/neighbors.hpp"
#include "kith/point_tiles.hpp"

namespace kith::point_tiles {

/// Takes lists of k rows by their place. T: the type of distances. Called by one thread at a time.
template <class T>
class Answers {
 public:
  Answers() = default;
  Answers(const Answers&) = delete;
  Answers& operator=(const Answers&) = delete;
  virtual ~Answers() = default;
  /// The lists of places [first, first + count), again where one has grown.
  virtual void put(std::int64_t first, std::int64_t count, const std::int64_t* rows, const T* distances) = 0;
};

/// The order of queries in memory.
template <class T>
class AnswersInMemory final : public Answers<T> {
 public:
  AnswersInMemory(std::int64_t k, std::vector<std::int64_t>& rows, std::vector<T>& distances)
      : k_(k), rows_(rows), distances_(distances) {}
  void put(std::int64_t first, std::int64_t count, const std::int64_t* rows, const T* distances) override;

 private:
  std::int64_t k_;
  std::vector<std::int64_t>& rows_;
  std::vector<T>& distances_;
};

/// The lists of all rows: tile after tile, each tile's rows ascending, so that a list has its place before it
/// is known.
template <class T>
class AnswersInFiles final : public Answers<T> {
 public:
  /// @param tile_rows rows of each tile
  /// @param bucket_rows rows whose lists finish() may hold
  AnswersInFiles(const std::filesystem::path& output, std::int64_t k, std::span<const std::int64_t> tile_rows,
                 const TileAnswerOptions& options, std::int64_t bucket_rows);

  /// The place of a tile's first row.
  std::int64_t place(std::int64_t tile) const { return places_[static_cast<std::size_t>(tile)]; }
  /// Which rows a tile has.
  void put_rows(std::int64_t tile, std::span<const std::int64_t> rows);
  void put(std::int64_t first, std::int64_t count, const std::int64_t* rows, const T* distances) override;

  /// Puts the files in place, all or none. @throws IoError, Cancelled
  std::vector<std::filesystem::path> finish(const Execution& execution);

  /// Bytes of a list in the files.
  static std::int64_t list_bytes(std::int64_t k, IndexWidth width) {
    return k * static_cast<std::int64_t>((width == IndexWidth::u32 ? 4 : 8) + sizeof(T));
  }

 private:
  void write_numbers(OutputFile& file, std::uint64_t header, std::int64_t at, const std::int64_t* from,
                     std::int64_t count);
  std::vector<std::filesystem::path> write_in_order_of_input(const Execution& execution);

  std::vector<std::filesystem::path> files_;  // indices, distances, rows
  std::int64_t k_;
  std::int64_t width_;  // bytes of a row number
  bool in_order_of_tiles_;
  std::int64_t bucket_rows_;
  std::vector<std::int64_t> places_;  // of each tile, and the end
  std::vector<std::int64_t>
      starts_;  // [tile][bucket]: the tile's first row that is not before the bucket, and its end
  std::int64_t buckets_ = 0;
  OutputFile indices_, distances_, rows_;
  std::uint64_t indices_header_ = 0, distances_header_ = 0, rows_header_ = 0;
  std::vector<std::uint32_t> narrow_;
};

}  // namespace kith::point_tiles
