// All rows within a radius on the CPU: an answer whose size is known only when it is found.
#pragma once

#include "kith/execution.hpp"
#include "kith/neighbors.hpp"
#include "kith/point_tree.hpp"
#include "point_tree/tree.hpp"

namespace kith::point_tree {

/// Rows of host memory. Takes no more than the memory limit, or than the machine has.
/// @throws OutOfMemory with the number of neighbours found so far, as soon as the answer cannot fit;
/// Cancelled
RadiusNeighbors within_on_cpu(const Tree& tree, const DatasetView& queries, double radius, bool sorted,
                              const Execution& execution);

/// The same from k-lists, which end where the radius does; in their memory.
RadiusNeighbors nearest_within(Neighbors&& found);

}  // namespace kith::point_tree
