// How a tree lies in memory, on the host and on devices alike. Plain data: the kernel files of every
// instruction set include it (ARCHITECTURE.md).
#pragma once

#include <cstdint>

namespace kith::point_tree {

/// Children of a node: as many boxes as one AVX-512 register has floats.
constexpr std::int64_t node_width = 16;

/// What a child is when it is not a node.
constexpr std::int64_t leaf_child = -1;
constexpr std::int64_t identical_child = -2;  ///< all points equal, rows ascending: a leaf of any size

/// The part of a node behind its boxes.
struct NodeLinks {
  std::int64_t child[node_width];      ///< a node's number, or leaf_child, identical_child
  std::int64_t begin[node_width + 1];  ///< child c holds the points [begin[c], begin[c + 1])
  std::int64_t count;                  ///< children in use
};

/// Bytes of a node: T lower[dim][16], T upper[dim][16], NodeLinks; rounded up to whole cache lines.
template <class T>
constexpr std::int64_t node_bytes(std::int64_t dim) {
  const auto bytes = 2 * dim * node_width * static_cast<std::int64_t>(sizeof(T)) +
                     static_cast<std::int64_t>(sizeof(NodeLinks));
  return (bytes + 63) / 64 * 64;
}

/// A tree to read. Points are in tree order; a leaf [b, e) has its coordinate j of point i at
/// coordinates[b * dim + j * (e - b) + i - b], so that a kernel reads points side by side. The arrays may be
/// read 64 bytes past their end.
template <class T, class Id>
struct TreeView {
  std::int64_t points;
  std::int64_t dim;
  std::int64_t nodes;  ///< node 0 is the root; 0 when there are no points
  std::int64_t node_stride;
  const unsigned char* node_data;
  const T* coordinates;
  const Id* rows;  ///< the caller's row of each point
};

template <class T>
struct Entry {
  T distance;
  std::int64_t row;
};

}  // namespace kith::point_tree
