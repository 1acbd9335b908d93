// An octree in arrays: cells halved along all three axes, the box of each cell's points kept beside it.
#pragma once

#include <cstdint>
#include <vector>

#include "cuda/host_device.hpp"
#include "ladder.hpp"

namespace kith::ladder {

/// A cell: its points' bounding box and where its children or, in a leaf, its points are.
struct Cell {
  float low[3], high[3];
  int first;     ///< of its children, or, in a leaf, of its points
  int children;  ///< 0 in a leaf
  int points;    ///< 0 in an inner cell
};

struct CellTree {
  std::vector<Cell> cell;    ///< the root first; children side by side
  std::vector<float> point;  ///< [points, 3], a leaf's side by side
  std::vector<int> row;      ///< which point of the problem it is
};

/// Most points a leaf, unless the cell is as small as cells get.
inline constexpr int leaf_points = 16;
/// Levels below the root; cells of 2^-20 of its side. What is still together then is a leaf.
inline constexpr int cell_levels = 20;

CellTree build_cell_tree(const Problem& problem, const Run& run);

/// Squared distance of a query and a box: 0 inside. It sums like squared_distance(), each difference no
/// larger than that of any point in the box, so rounding cannot lift it above a point's distance.
KITH_HOST_DEVICE inline float box_distance(const float* query, const Cell& cell) {
  float sum = 0;
  for (int c = 0; c < 3; ++c) {
    const float below = cell.low[c] - query[c];
    const float above = query[c] - cell.high[c];
    const float outside = below > 0 ? below : (above > 0 ? above : 0);
    sum += outside * outside;
  }
  return sum;
}

}  // namespace kith::ladder
