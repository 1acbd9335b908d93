// What a tree and its searches take, before there is one: what they compare with a limit, and what decides
// whether to begin.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/int128.hpp"
#include "kith/dataset.hpp"
#include "kith/execution.hpp"

namespace kith::point_tree {

/// Bytes beyond the caller's rows, on the CPU.
struct TreeMemory {
  std::uint64_t building = 0;  ///< at the most, while it is built
  std::uint64_t tree = 0;      ///< about, when it is there
};

/// @param rows only their shape is looked at
/// @param bytes_a_point see TreeType
TreeMemory tree_memory(const DatasetView& rows, std::int64_t leaf_size, std::uint64_t bytes_a_point);

/// The k nearest of `queries` queries: the answer, and on the CPU the order in which they are asked, and
/// lists that are long.
/// @param rows of the tree; only their shape is looked at
/// @param queries -1: the tree's own rows
int128 nearest_bytes(const DatasetView& rows, std::int64_t queries, std::int64_t k,
                     const Execution& execution);

/// Bytes of the order in which the CPU asks that many queries, while it is found.
std::int64_t order_bytes(std::int64_t queries);

/// The normals of a tree's rows, curvature and the points by row.
std::size_t normals_bytes_a_row(Dtype dtype, std::int64_t dim);

/// The mean distances of a tree's rows, and which of them are outliers.
inline constexpr std::size_t outliers_bytes_a_row = 9;

}  // namespace kith::point_tree
