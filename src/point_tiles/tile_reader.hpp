// Tiles as they lie on disk, read while others are searched.
#pragma once

#include <cstdint>
#include <deque>
#include <future>
#include <memory>
#include <vector>

#include "core/aligned_buffer.hpp"
#include "core/piece_reader.hpp"
#include "kith/dataset.hpp"
#include "point_tiles/folder.hpp"

namespace kith::point_tiles {

/// A tile as it lies on disk.
struct TileData {
  std::int64_t tile = -1;
  Dataset coordinates;
  AlignedBuffer<std::int64_t> rows;  ///< ascending
};
TileData read_tile(const Folder& folder, std::int64_t tile);

/// Some that follow each other.
struct TileBatch {
  std::deque<TileData> tiles;
  std::uint64_t direct_bytes = 0;
  double seconds = 0;
};
/// Tiles [first, last), all their pieces at once: small ones keep the disk as busy as a large one.
TileBatch read_tiles(const Folder& folder, PieceReader& reader, std::int64_t first, std::int64_t last);

/// What reading took.
struct ReadStatistics {
  const char* reader = "pread";
  std::uint64_t direct_bytes = 0;  ///< past the page cache
  double seconds = 0;              ///< of reading
  double waited = 0;               ///< of them, those in which nobody searched
};

/// Tiles of a folder, some of them read by a thread of its own before they are asked for.
class TileReader {
 public:
  /// @param ahead bytes of tiles that may be read before they are asked for; one tile always may
  TileReader(const Folder& folder, std::int64_t ahead);

  /// @throws IoError
  TileData take(std::int64_t tile);
  /// This one will be asked for, and those that follow it: unless there is enough to do, reading them begins.
  void expect(std::int64_t tile);
  /// This one alone will be.
  void expect_one(std::int64_t tile) { begin(tile, tile + 1); }

  ReadStatistics statistics() const;

 private:
  void begin(std::int64_t first, std::int64_t last);
  std::int64_t bytes(std::int64_t tile) const;

  const Folder& folder_;
  std::int64_t ahead_;
  std::unique_ptr<PieceReader> reader_;        // of whoever asks
  std::unique_ptr<PieceReader> ahead_reader_;  // of the thread
  std::deque<TileData> ready_;
  std::int64_t pending_first_ = 0, pending_last_ = 0;  // tiles under way
  std::uint64_t direct_bytes_ = 0;
  double seconds_ = 0, waited_ = 0;
  std::future<TileBatch>
      pending_;  // waits for its thread when it goes; the last member, so that it goes first
};

}  // namespace kith::point_tiles
