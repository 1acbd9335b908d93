// Numbers of the trees' searches on a GPU that depend on the chip.
#pragma once

#include <cstdint>

namespace kith::point_tree::cuda {

/// Which search runs how.
struct Policy {
  /// Sorting queries pays from this many on.
  std::int64_t least_sorted = std::int64_t{1} << 18;

  /// Groups pay where there are enough of them to fill the device, and where 32 queries that follow each
  /// other lie close in terms of points: from some 200 sqrt(points) on, as measured from 65,536 to 10 million
  /// points; the tree's own rows always do.
  std::int64_t least_own_groups = std::int64_t{1} << 14;
  double least_groups = 200;

  std::int64_t most_at_once = std::int64_t{1} << 24;  ///< queries between two polls
  std::int64_t small_list = std::int64_t{1} << 14;    ///< queries whose lists a workspace keeps
};
inline constexpr Policy policy;

}  // namespace kith::point_tree::cuda
