// A k-d tree without pointers: a point a node, the children of node i at 2 i + 1 and 2 i + 2 (as in a binary
// heap).
#pragma once

#include <cstdint>
#include <vector>

#include "ladder.hpp"
#include "neighbor.hpp"

namespace kith::ladder {

struct HeapTree {
  int dim = 0;
  std::vector<float> point;  ///< [nodes, dim]: the points in heap order
  std::vector<int> row;      ///< [nodes]: which point of the problem it is
  std::vector<int> axis;     ///< [nodes]: coordinate that divides the node's points
  std::int64_t nodes() const { return static_cast<std::int64_t>(row.size()); }
};

/// Splits at the median of the coordinate with the largest variance. The tree is left-balanced (all levels
/// full but the last, that one filled from the left), so the heap has no holes. O(n log n dim).
HeapTree build_heap_tree(const Problem& problem, const Run& run);

/// Inserts into an ascending list of k what the subtree of `node` has: rung 15.
void visit(const HeapTree& tree, std::int64_t node, const float* query, Neighbor* list, int k);

}  // namespace kith::ladder
