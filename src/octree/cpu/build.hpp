// Building an octree or quadtree on the CPU.
#pragma once

#include "kith/dataset.hpp"
#include "kith/execution.hpp"
#include "point_tree/tree.hpp"

namespace kith::octree {

/// Bytes a point beyond its copy in the tree: its code, twice.
std::uint64_t build_bytes_a_point(const DatasetView& rows);

/// @param rows of dimension 2 or 3
/// @throws Cancelled, OutOfMemory
point_tree::Tree build(const DatasetView& rows, std::int64_t leaf_size, const Execution& execution);

/// The same for coordinates T and row numbers Id; in files of their own, since they take long to compile.
template <class T, class Id>
point_tree::Tree build_as(const DatasetView& rows, std::int64_t leaf_size, const Execution& execution);

}  // namespace kith::octree
