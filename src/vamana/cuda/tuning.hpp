// Numbers of walks on a GPU that depend on the chip.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kith::vamana::cuda {

struct Constants {
  /// Nodes that a walk remembers to have visited, as in vamana/tuning.hpp, in shared memory: larger tables
  /// save evaluations, smaller ones let more walks go on at once.
  int smallest_table = 1024;
  int largest_table = 8192;
  int table_a_list_place = 16;
  int longest_shared_list = 2048;

  std::int64_t most_at_once = std::int64_t{1} << 14;    ///< queries between two polls
  std::int64_t nodes_at_once = std::int64_t{1} << 15U;  ///< of a build, between two polls
  std::size_t most_idle = 8;                            ///< workspaces that are kept for later searches

  int rerank_threads = 128;       ///< of a block
  int shared_room_bytes = 32768;  ///< keys of a block that re-ranks, in shared memory
};
inline constexpr Constants constants;

}  // namespace kith::vamana::cuda
