// The kernels that search trees on a device, as the host calls them.
#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

#include "cuda/runtime.hpp"
#include "kith/dtype.hpp"
#include "point_tree/cuda/tuning.hpp"
#include "point_tree/layout.hpp"

namespace kith::point_tree::cuda {

/// A child of a node as groups of queries read it: two 16-byte loads. Axes that the tree does not have are 0.
struct alignas(16) PackedChild {
  float lower[3];
  std::uint32_t begin;  ///< first point of a leaf, or number of a node
  float upper[3];
  std::uint32_t count;  ///< points; node_mark; with identical_mark: all equal, rows ascending
};
inline constexpr std::uint32_t node_mark = 0xffffffffU;
inline constexpr std::uint32_t identical_mark = 0x80000000U;

/// A float tree of at most three dimensions and 4-byte rows, for groups of queries: points as (x, y, z, row),
/// nodes as 16 children each.
struct PackedTree {
  const float4* points;
  const PackedChild* nodes;
  std::int64_t count;
};

inline constexpr std::int64_t most_packed_points = std::int64_t{1} << 31;
inline constexpr int largest_group_k = 32;
inline constexpr int count_slots = 64;  ///< counters are spread, lest all warps meet at one address

/// Queries that a kernel hands on: numbers, and how many.
struct HandedOn {
  std::int64_t* queries = nullptr;
  unsigned long long* count = nullptr;
};

/// Where answers go: those of query i of the caller's at [i * k, (i + 1) * k), or those of the query in place
/// p at [(p - first) * k, ...).
template <class T>
struct Answer {
  std::int64_t* indices;
  T* distances;
  std::int64_t k;
  bool by_place;
  std::int64_t first;
  HandedOn
      unfilled;  ///< with room: queries whose k-th distance is +inf, which rows with infinities may share
};

struct GroupSearch {
  PackedTree tree;
  const float4* queries;             ///< (x, y, z, number) along a curve; null: the tree's own points
  const unsigned long long* usable;  ///< how many of `queries` may be searched so; null: all
  std::int64_t first, count;         ///< which of them
  bool manhattan, rooted, include_self;
  float radius;
  float limit;                 ///< of the radius, see Limit
  int stack;                   ///< entries, of group_stack()
  std::int64_t groups_a_warp;  ///< set by search_groups()
  Answer<float> answer;
  // Not null: what reductions read instead of indices and distances, entry r of the query in place p at
  // [r * column + p - answer.first], all ones where there is none. With `places` where the r-th neighbour
  // lies among the tree's points (not for manhattan), else its distance's bits.
  std::uint32_t* cells;
  std::int64_t column;
  bool places;
  HandedOn unanswered;         ///< those that kept more than there is room for: numbers, or places of points
  unsigned long long* counts;  ///< [count_slots][2]: pairs tested, candidates kept
};

/// Entries of a warp's stack for a tree of so many levels; 0: too deep for this kernel.
int group_stack(std::int64_t levels);

/// 32 neighbouring queries a warp, k up to largest_group_k.
void search_groups(GroupSearch search, int device, cudaStream_t stream);

void pack_tree(const TreeView<float, std::uint32_t>& tree, float4* points, PackedChild* nodes,
               cudaStream_t stream);

/// A tree of any type and dimension. Row numbers take 4 or 8 bytes.
template <class T>
struct AnyTree {
  std::int64_t points, dim, nodes, node_stride;
  const unsigned char* node_data;
  const T* coordinates;
  const void* rows;
  bool wide_rows;
  // Float, and no row's number is 0xffffffff or more: an entry of a list is one 64-bit integer. And the
  // place of every point fits an int.
  bool packs;
};

/// Rows of any element type in device memory.
struct DeviceRows {
  const void* data;
  Dtype dtype;
  std::int64_t stride;  ///< in elements
};

/// One query a warp.
template <class T>
struct WarpSearch {
  AnyTree<T> tree;
  DeviceRows queries;
  const std::int64_t* order;               ///< places of the queries to search; null: the first `count`
  const std::uint32_t* short_order;        ///< the same in 4 bytes
  const unsigned long long* device_count;  ///< how many, if not `count`
  std::int64_t count;
  const void* numbers;         ///< the caller's rows that the queries are, as wide as the tree's; null: none
  std::int64_t number_stride;  ///< between them
  bool manhattan, rooted;
  bool exclude;  ///< the row that a query is
  T radius;
  Answer<T> answer;
  HandedOn endless;                 ///< queries with an infinity
  unsigned long long* nan_queries;  ///< a counter
  unsigned long long* counts;       ///< as in GroupSearch; may be null
  // With `report`, host memory: the last block writes the sums of `counts`, pairs and candidates, and the
  // `others` counters (at most 30) behind them there, and sets all to 0. `arrived` is 0 before and after.
  unsigned long long* report;
  int others;
  unsigned* arrived;
  // Radius search: how many of each query, or from offsets[i] on which.
  std::int64_t* found;
  const std::int64_t* offsets;
  std::int64_t* rows;
  T* distances;
  // Set by the functions below.
  unsigned char* scratch;  ///< of each warp, null: in shared memory
  std::int64_t scratch_bytes, stack_bytes;
  unsigned char* lists;  ///< of each warp, for long lists
  std::int64_t list_room, longest;
};

/// Device memory that a search takes beside its arguments; `warps` of them run at once.
struct WarpMemory {
  std::int64_t warps = 0;
  std::int64_t scratch = 0;  ///< bytes a warp, 0: none
  std::int64_t list = 0;     ///< bytes a warp, 0: none
};

inline constexpr std::int64_t largest_lane_k = 32;
inline constexpr std::int64_t largest_packed_k = 256;

/// Whether a list lies in registers.
template <class T>
bool is_short(const AnyTree<T>& tree, std::int64_t k) {
  return k <= (tree.packs ? largest_packed_k : largest_lane_k);
}

template <class T>
WarpMemory warp_memory(const WarpSearch<T>& search, std::int64_t levels, int device);

/// k nearest, into `answer`.
template <class T>
void search_warps(WarpSearch<T> search, std::int64_t levels, const WarpMemory& memory, unsigned char* scratch,
                  int device, cudaStream_t stream);
/// All within the radius: with `found` their number, else the rows and distances.
template <class T>
void search_radius(WarpSearch<T> search, std::int64_t levels, const WarpMemory& memory,
                   unsigned char* scratch, int device, cudaStream_t stream);

/// Sorts [offsets[i], offsets[i + 1]) by (distance, row) for `count` segments.
template <class T>
void sort_segments(const std::int64_t* offsets, std::int64_t count, std::int64_t* rows, T* distances,
                   cudaStream_t stream);

/// Coordinates of the points in places [first, last), point by point.
template <class T>
void unpack_points(const AnyTree<T>& tree, std::int64_t first, std::int64_t last, T* values,
                   cudaStream_t stream);

/// A place of each query on a curve through a box; those with a NaN, an infinity or (`plain_limit`)
/// a larger magnitude come last.
struct CurveBox {
  static constexpr int most_axes = 10;
  int axes, bits;
  int axis[most_axes];
  double lower[most_axes], scale[most_axes];
};
std::size_t sort_bytes(std::int64_t count);
/// `keys` and `order` have two halves of `count`; the answer is in the half that is returned (0 or 1).
int order_queries(const DeviceRows& queries, std::int64_t dim, std::int64_t count, const CurveBox& box,
                  double plain_limit, std::uint32_t* keys, std::uint32_t* order, void* sort_space,
                  std::size_t sort_space_bytes, unsigned long long* usable, const HandedOn& others,
                  cudaStream_t stream);
void gather_queries(const DeviceRows& queries, std::int64_t dim, std::int64_t count,
                    const std::uint32_t* order, float4* to, cudaStream_t stream);

/// -1 and +inf.
template <class T>
void clear_answer(std::int64_t* indices, T* distances, std::int64_t cells, cudaStream_t stream);

}  // namespace kith::point_tree::cuda
