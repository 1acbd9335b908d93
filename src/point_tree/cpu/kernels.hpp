// What the tree kernels of every instruction set share: plain data and tables of functions. The kernel
// files must not pull in shared inline functions (ARCHITECTURE.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "cuda/host_device.hpp"
#include "kith/metric.hpp"
#include "point_tree/layout.hpp"

namespace kith::point_tree {

/// A child of a node.
struct Child {
  const NodeLinks* links;  ///< the node's
  std::int32_t slot;       ///< which of its children
};

/// A child that waits to be visited.
template <class T>
struct Pending {
  T low;
  Child at;
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
  /// Where groups of queries that are near each other end, the last one at count: they share the upper part
  /// of their walks, and bounds. Null: the queries come in no order.
  const std::int64_t* group_ends;
  Pending<T>* stack;  ///< room for node_width entries a level, and as many again
  T* boxes;           ///< room for 2 * dim * (node_width + 1) values

  void* owner;
  /// Throws when the caller wants to stop; called after every `pause_after` points, and after a long list.
  void (*pause)(Task<T>& task);
  std::int64_t pause_after;

  // nearest
  std::int64_t k;
  std::int64_t* out_rows;  ///< [count, k]: ascending, padded with -1
  T* out_distances;        ///< [count, k]: padded with +inf
  Entry<T>* entries;       ///< room for 2k + 64, where k is above largest_short_list
  /// Puts the k smallest of `count` entries first, the largest of these last; sorts them where asked.
  void (*select)(Task<T>& task, Entry<T>* entries, std::int64_t count, std::int64_t k, bool sort);

  // collect: entries grow, ends[i] is where query i's end
  std::int64_t capacity;
  std::int64_t* ends;
  void (*grow)(Task<T>& task);
  /// Takes the entries of the queries before `done` that are not taken yet, once there are `flush_after` of
  /// them; the next ones start at 0.
  void (*flush)(Task<T>& task, std::int64_t done);
  std::int64_t flush_after;

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
extern const TreeKernels tree_kernels_neon;

}  // namespace kith::point_tree
