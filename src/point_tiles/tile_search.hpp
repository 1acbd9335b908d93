// The search inside one tile, for whatever is asked.
#pragma once

#include <cstdint>
#include <vector>

#include "core/aligned_buffer.hpp"
#include "kith/execution.hpp"
#include "kith/neighbors.hpp"
#include "point_tiles/lists.hpp"
#include "point_tiles/question.hpp"
#include "point_tiles/resident.hpp"

namespace kith::point_tiles {

/// Keeps its memory from block to block. T: the type of distances.
template <class T>
class TileSearch {
 public:
  /// @param block_rows queries that are answered together, at the most
  /// @param bytes that lists of unknown length may take together
  TileSearch(const Question& question, std::int64_t block_rows, std::int64_t bytes);

  /// The lists of queries from `first` on, of as many as are answered together; rows are places in the tile.
  /// Valid until the next call. @param own whether the queries are the tile's rows, all of them
  Lists<T> find(const Resident& where, const DatasetView& queries, std::int64_t first, bool own,
                const Execution& execution);

  /// The same of some of the tile's own rows, no more than are answered together, for the nearest.
  /// @param places of them in the tile
  Lists<T> find_some(const Resident& where, const DatasetView& queries, const std::int64_t* places,
                     const Execution& execution);

 private:
  Lists<T> nearest(const Resident& where, const DatasetView& queries, std::int64_t first, bool own,
                   const Execution& execution);
  void search(const Resident& where, const DatasetView& queries, std::int64_t k, const Execution& execution);
  void make_room();
  Lists<T> within(const Resident& where, const DatasetView& queries, std::int64_t first, bool own,
                  const Execution& execution);
  Lists<T> count(const Resident& where, const DatasetView& queries, std::int64_t first,
                 const Execution& execution);
  template <class Self>
  void take_out_self(std::int64_t count, const Self& self);
  void cut_at_radius(std::int64_t count, const Execution& execution);

  Question question_;
  std::int64_t block_rows_;
  std::int64_t bytes_;
  std::int64_t together_;  // queries of the next block, where lists have no known length
  // Gigabytes where k is large, so nothing is written before it is known.
  AlignedBuffer<std::int64_t> rows_;
  AlignedBuffer<T> distances_;
  RadiusNeighbors found_;
  std::vector<std::int64_t> counts_;
};

}  // namespace kith::point_tiles
