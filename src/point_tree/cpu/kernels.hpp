// What the tree kernels of every instruction set share: plain data and tables of functions. The kernel
// files must not pull in shared inline functions (ARCHITECTURE.md).
#pragma once

#include <cstddef>
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

/// A child that waits to be visited.
struct Pending {
  double low;
  std::int64_t place;  ///< node * node_width + child
};

enum class Kind : std::uint8_t { nearest, collect, count };

/// Some queries and what becomes of them.
template <class T>
struct Task {
  const T* queries;  ///< [count, dim]
  std::int64_t count;
  const std::int64_t* exclude;  ///< a row not to return, a query; or null
  bool rooted;                  ///< distances are square roots
  T radius;                     ///< nothing farther is returned; +inf: no limit
  bool chained;                 ///< consecutive queries are near each other: bound each by the one before
  Pending* stack;               ///< room for node_width entries a level

  // nearest
  std::int64_t k;
  std::int64_t* out_rows;  ///< [count, k]: ascending, padded with -1
  T* out_distances;        ///< [count, k]: padded with +inf
  Entry<T>* entries;       ///< room for 2k + 64, where k is above largest_short_list
  /// Puts the k smallest of `count` entries first, the largest of these last; sorts them where asked.
  void (*select)(Entry<T>* entries, std::int64_t count, std::int64_t k, bool sort);

  // collect: entries grow, ends[i] is where query i's end
  std::int64_t capacity;
  std::int64_t* ends;
  void* owner;
  void (*grow)(Task<T>& task);

  // count
  std::int64_t* counts;

  // statistics
  std::int64_t tested;
  std::int64_t candidates;
};

/// Lists up to this long are kept sorted; longer ones are appended to and selected from.
constexpr std::int64_t largest_short_list = 64;

template <class T, class Id>
using TreeFunction = void (*)(const TreeView<T, Id>& tree, Task<T>& task);

template <class T, class Id>
using TreeFunctionFor = TreeFunction<T, Id> (*)(Kind kind, std::int64_t k, std::int64_t dim, bool manhattan);

/// The kernels of one instruction set.
struct TreeKernels {
  TreeFunctionFor<float, std::uint32_t> f32;
  TreeFunctionFor<double, std::uint32_t> f64;
  TreeFunctionFor<float, std::int64_t> f32_wide;
  TreeFunctionFor<double, std::int64_t> f64_wide;
};

extern const TreeKernels tree_kernels_portable;
extern const TreeKernels tree_kernels_avx2;
extern const TreeKernels tree_kernels_avx512;

}  // namespace kith::point_tree
