// Building a k-d tree on the CPU.
#pragma once

#include "kith/dataset.hpp"
#include "kith/execution.hpp"
#include "point_tree/tree.hpp"

namespace kith::kd_tree {

/// Bytes a point beyond its copy in the tree: two records.
std::uint64_t build_bytes_a_point(const DatasetView& rows);

/// @throws Cancelled, OutOfMemory
point_tree::Tree build(const DatasetView& rows, std::int64_t leaf_size, const Execution& execution);

/// The same for coordinates T and row numbers Id; a file each, since they take long to compile.
template <class T, class Id>
point_tree::Tree build_as(const DatasetView& rows, std::int64_t leaf_size, const Execution& execution);

}  // namespace kith::kd_tree
