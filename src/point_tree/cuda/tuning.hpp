// Numbers of the trees' builds and searches on a GPU that depend on the chip.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kith::cuda {}

namespace kith::point_tree::cuda {

using namespace kith::cuda;  // cuda::Buffer in kith::point_tree, too

struct Policy {
  // Which search runs how.

  /// Sorting queries pays from this many on.
  std::int64_t least_sorted = std::int64_t{1} << 18;

  /// Groups pay where there are enough of them to fill the device, and where 32 queries that follow each
  /// other lie close in terms of points: from some 200 sqrt(points) on, as measured from 65,536 to 10 million
  /// points; the tree's own rows always do.
  std::int64_t least_own_groups = std::int64_t{1} << 14;
  double least_groups = 200;

  std::int64_t most_at_once = std::int64_t{1} << 24;  ///< queries between two polls
  std::int64_t small_list = std::int64_t{1} << 14;    ///< queries whose lists a workspace keeps
  std::size_t most_idle = 8;                          ///< workspaces that are kept for later searches

  // Groups of 32 queries (group_shape.cuh), by K, the entries of a lane's list.

  /// Words of 32 points that a walk has room for, in shared memory.
  static constexpr int group_words(int K) { return K <= 8 ? 14 : (K <= 16 ? 16 : (K <= 24 ? 18 : 20)); }
  static constexpr int group_warps(int K) { return K <= 8 ? 4 : 2; }  ///< of a block
  /// Blocks that a multiprocessor should have registers for.
  static constexpr int group_blocks(int K) { return K <= 8 ? 5 : (K <= 16 ? 9 : 7); }
  /// Warps that a multiprocessor has at once, about. A warp takes groups that follow each other, as long as
  /// there are enough for `group_waves` of them; the first guess costs queries that are not rows of the tree
  /// more.
  std::int64_t group_warps_at_once = 24;
  std::int64_t group_waves = 2;
  std::int64_t most_own_groups = 8;
  std::int64_t most_groups = 16;

  // A query a warp (warp_walk.cuh, warp_kernel.cuh).

  int walk_warps = 4;  ///< of a block
  /// Entries of the stack up to which a walk takes the nearest first. Above, those that came last.
  int most_unordered = 80;
  std::int64_t most_shared_scratch = 12 << 10;  ///< bytes a warp; beyond it, device memory
  /// Warps of a launch, a multiprocessor: those that need device memory of their own, and the others.
  std::int64_t warps_with_memory = 32;
  std::int64_t warps_without = 256;
  /// Warps for the queries that groups hand on, seldom many.
  std::int64_t most_handed_on = 1 << 12;

  // Builds (build_*.cu).

  int build_threads = 256;      ///< of a block
  unsigned build_blocks = 8;    ///< a multiprocessor, of kernels that go over all rows
  int box_rows = 16;            ///< that a thread looks at between two looks at the bounds of all
  int box_steps = 16;           ///< of 32 points that a warp takes, of ranges
  int divide_threads = 128;     ///< of a block
  unsigned divide_blocks = 16;  ///< a multiprocessor
  int divide_codes = 256;       ///< of a node that a warp holds in shared memory

  // Reductions of neighbourhoods (neighborhoods.cu).

  int reduce_threads = 128;           ///< of a block
  int plane_blocks = 6;               ///< that a multiprocessor should have registers for, planes of columns
  std::int64_t least_at_once = 4096;  ///< rows of a batch of lists that are worth it
};
inline constexpr Policy policy;

}  // namespace kith::point_tree::cuda
