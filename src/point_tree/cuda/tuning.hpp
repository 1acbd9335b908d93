// Numbers of the trees' builds and searches on a GPU that depend on the chip: first what kernels are compiled
// with and how much is done at once, the same on every GPU, then what decides at run time, a set a kind of
// GPU.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/capability.hpp"

namespace kith::point_tree::cuda {

using namespace kith::cuda;  // cuda::Buffer in kith::point_tree, too

/// Measured on an H200.
struct Constants {
  std::int64_t most_at_once = std::int64_t{1} << 24;  ///< queries between two polls
  std::int64_t small_list = std::int64_t{1} << 14;    ///< queries whose lists a workspace keeps
  std::size_t most_idle = 8;                          ///< workspaces that are kept for later searches

  // Groups of 32 queries (group_shape.cuh), by K, the entries of a lane's list.

  /// Words of 32 points that a walk has room for, in shared memory.
  static constexpr int group_words(int K) { return K <= 8 ? 14 : (K <= 16 ? 16 : (K <= 24 ? 18 : 20)); }
  static constexpr int group_warps(int K) { return K <= 8 ? 4 : 2; }  ///< of a block
  /// Blocks that a multiprocessor should have registers for.
  static constexpr int group_blocks(int K) { return K <= 8 ? 5 : (K <= 16 ? 9 : 7); }

  // A query a warp (warp_walk.cuh, warp_kernel.cuh).

  int walk_warps = 4;  ///< of a block
  /// Entries of the stack up to which a walk takes the nearest first. Above, those that came last.
  int most_unordered = 80;

  // Builds (build_*.cu).

  int build_threads = 256;   ///< of a block
  int box_rows = 16;         ///< that a thread looks at between two looks at the bounds of all
  int box_steps = 16;        ///< of 32 points that a warp takes, of ranges
  int divide_threads = 128;  ///< of a block
  int divide_codes = 256;    ///< of a node that a warp holds in shared memory

  // Reductions of neighbourhoods (neighborhoods.cu).

  int reduce_threads = 128;           ///< of a block
  int plane_blocks = 6;               ///< that a multiprocessor should have registers for, planes of columns
  std::int64_t least_at_once = 4096;  ///< rows of a batch of lists that are worth it
};
inline constexpr Constants constants;

struct Policy {
  // Which search runs how.

  /// Sorting queries pays from this many on.
  std::int64_t least_sorted;

  /// Groups pay where there are enough of them to fill the device, and where 32 queries that follow each
  /// other lie close in terms of points: from so many times sqrt(points) on; the tree's own rows always do.
  std::int64_t least_own_groups;
  double least_groups;

  // Groups of 32 queries (search_group.cu).

  /// Warps that a multiprocessor has at once, about. A warp takes groups that follow each other, as long as
  /// there are enough for `group_waves` of them; the first guess costs queries that are not rows of the tree
  /// more.
  std::int64_t group_warps_at_once;
  std::int64_t group_waves;
  std::int64_t most_own_groups;
  std::int64_t most_groups;

  // A query a warp (search_warp.cu).

  std::int64_t most_shared_scratch;  ///< bytes a warp; beyond it, device memory
  /// Warps of a launch, a multiprocessor: those that need device memory of their own, and the others.
  std::int64_t warps_with_memory;
  std::int64_t warps_without;
  /// Warps for the queries that groups hand on, seldom many.
  std::int64_t most_handed_on;

  // Builds (build_*.cu): blocks a multiprocessor.

  unsigned build_blocks;  ///< of kernels that go over all rows
  unsigned divide_blocks;
};

/// GPUs with wgmma: measured on an H200; `least_groups` from 65,536 to 10 million points. The trees have no
/// use for wgmma itself, but it tells that chip and its like from the others.
inline constexpr Policy with_wgmma{
    .least_sorted = std::int64_t{1} << 18,
    .least_own_groups = std::int64_t{1} << 14,
    .least_groups = 200,
    .group_warps_at_once = 24,
    .group_waves = 2,
    .most_own_groups = 8,
    .most_groups = 16,
    .most_shared_scratch = 12 << 10,
    .warps_with_memory = 32,
    .warps_without = 256,
    .most_handed_on = 1 << 12,
    .build_blocks = 8,
    .divide_blocks = 16,
};

/// GPUs without (compute capability 8.0 to 8.9, and 10.0 and up). None of these numbers was measured on one:
/// they are the H200's until somebody does. They decide what runs, never what is found.
inline constexpr Policy without_wgmma = with_wgmma;

inline const Policy& policy_of(int device) {
  return has_wgmma(device) ? with_wgmma : without_wgmma;
}

}  // namespace kith::point_tree::cuda
