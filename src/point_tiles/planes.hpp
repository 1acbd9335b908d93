// Planes of neighbourhoods whose points are as tiles have them: the operations of a tree in memory, on
// coordinates as doubles, which its own are or are narrower than.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kith/dtype.hpp"

namespace kith::point_tiles {

struct PlanesOf {
  Dtype dtype;
  std::int64_t dim;
  const std::byte* points;      ///< neighbours
  const std::byte* centers;     ///< what neighbourhoods are around
  const std::int64_t* numbers;  ///< of each one's center and plane; null: they follow each other
  std::int64_t count;           ///< neighbourhoods
  /// Neighbours by their place among the points, in the order they are summed: [count, k], -1 behind the last
  /// of a list; or, where there are offsets, list i is [offsets[i], offsets[i + 1]).
  const std::int64_t* rows;
  std::int64_t k;
  const std::int64_t* offsets;
  bool in_order;            ///< a neighbour's place is its number in `rows`, not what stands there
  const double* viewpoint;  ///< [dim], or null
  double*
      values;  ///< [.., dim + 1]: the normal, then the curvature; where there is no plane, NaN or not written
};

/// @tparam T the type of distances
template <class T>
void fit_planes(const PlanesOf& task);

}  // namespace kith::point_tiles
