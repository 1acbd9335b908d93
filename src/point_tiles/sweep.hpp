// The search: tiles one after the other, queries in the tiles that they need.
//
// A query is done when its k-th distance is smaller than the distance to every tile that it has not visited
// (box.hpp); until then its list is exact over the tiles that it has. When its own tile has been searched it
// visits those it needs that are in memory, and then waits in the mailbox of the next one that the sweep
// comes to. What needs a tile that was passed and dropped waits for a last sweep, in ascending order of
// tiles, over those that are needed. Lists only get better and sets of tiles smaller, so no width of a border
// has to be guessed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "core/aligned_buffer.hpp"
#include "core/parallel.hpp"
#include "kith/point_tiles.hpp"
#include "point_tiles/answers.hpp"
#include "point_tiles/box.hpp"
#include "point_tiles/folder.hpp"
#include "point_tiles/resident.hpp"
#include "point_tiles/waiting.hpp"

namespace kith::point_tiles {

/// How a limit on memory is shared out. What is held at once: the tile that was read, what its index takes
/// while it is built or, after that, the lists of a block of its queries; the tiles in memory; queries that
/// wait.
struct MemoryShares {
  std::int64_t block_rows = 0;  ///< queries that are answered together
  std::int64_t resident = 0;    ///< bytes of tiles in memory, the one that is searched included
  std::int64_t waiting = 0;     ///< bytes of queries that wait, in mailboxes and for the last sweep together

  /// @param held bytes of the limit that are the caller's: queries and their answers
  /// @throws OutOfMemory where two of the largest tiles do not fit beside them
  MemoryShares(const Manifest& manifest, const TileMemory& memory, std::int64_t k, std::int64_t limit,
               bool limited, std::int64_t held = 0);
};

/// T: the type of distances.
template <class T>
class Sweep {
 public:
  /// @param file beside which files may be made
  Sweep(const Folder& folder, const TileSearchOptions& options, std::int64_t k, const MemoryShares& shares,
        std::filesystem::path file, Answers<T>& answers, const Execution& execution);

  /// Has every row of a tile find its nearest others, and serves the tile's mailbox. Tiles ascend from call
  /// to call.
  void join(const TileData& tile, std::int64_t place);
  /// The same for queries from outside. @param places of their answers
  void search(std::int64_t tile, const DatasetView& queries, std::span<const std::int64_t> places);
  /// Serves the mailbox of a tile that has no queries of its own.
  void serve(std::int64_t tile);
  bool has_mail(std::int64_t tile) const { return !mail_[static_cast<std::size_t>(tile)].empty(); }

  /// What was postponed.
  void finish();

  /// Once a tile was read for join().
  void count_read(std::int64_t tile) { resident_.count_read(tile); }

  TileStatistics statistics() const;

 private:
  using Query = Waiting<T>;
  struct Far {
    T distance;
    std::int32_t tile;
  };

  const Tile& tile(std::int64_t number) const {
    return folder_.manifest().tiles[static_cast<std::size_t>(number)];
  }
  BoxView box(std::int64_t number) const { return {tile(number).lower.data(), tile(number).upper.data()}; }
  // Whether a list with this k-th distance needs a tile at that one.
  bool needs(T kth, T distance) const {
    return !(kth < distance) && !(static_cast<double>(distance) > options_.radius);
  }
  T kth(const std::int64_t* rows, const T* distances) const {
    return rows[k_ - 1] < 0 ? std::numeric_limits<T>::infinity() : distances[k_ - 1];
  }
  // The point as doubles. @return whether it is finite; `nan` whether it has a NaN
  bool load(const std::byte* from, double* to, bool& nan) const;
  T distance(const double* point, bool finite, std::int64_t number) const;

  void answer(const Resident& here, const DatasetView& queries, const std::int64_t* places,
              std::int64_t place, bool join);
  std::vector<Far> tiles_around(std::int64_t number, const DatasetView& queries, bool join) const;
  bool stands_apart(std::int64_t number) const;
  T distance_to_side(const double* point, const BoxView& around) const;
  void nearest(const Resident& where, const DatasetView& queries, std::int64_t k, std::int64_t* rows,
               T* distances) const;
  void visit(const Resident& where, std::vector<Query*>& queries);
  void visit_some(const Resident& where, std::span<Query*> queries);
  void merge(Query& query, const std::int64_t* rows, const T* distances) const;
  void forget_tiles(Query& query, std::int64_t visited) const;
  void visit_resident(std::vector<Query>& queries);
  void pass_on(Query query, std::int64_t current);
  void serve(std::int64_t tile, const Resident& here);

  const Folder& folder_;
  TileSearchOptions options_;
  std::int64_t k_;
  MemoryShares shares_;
  Answers<T>& answers_;
  Execution execution_;
  StopRequest stop_;
  WaitingLayout<T> layout_;
  ResidentTiles resident_;
  Postponed<T> postponed_;
  std::vector<std::vector<Query>> mail_;
  std::int64_t mail_bytes_ = 0;
  bool last_ = false;
  TileStatistics statistics_;
  // Kept from block to block.
  // Lists of a block: gigabytes where k is large, so nothing is written before it is known.
  AlignedBuffer<std::int64_t> rows_;
  AlignedBuffer<T> distances_;
};

}  // namespace kith::point_tiles
