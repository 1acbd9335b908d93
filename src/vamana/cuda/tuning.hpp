// Numbers of walks on a GPU that depend on the chip.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kith::vamana::cuda {

struct Constants {
  /// Nodes that a walk remembers to have visited, in shared memory. 10 million rows of 96 values, lists of 64
  /// to 512: eight times as many save 5 to 10 % of the evaluations, and halve the walks that go on at once
  /// (an H200: 1.9 million queries a second with 1,024 entries, 1.5 with 2,048, 0.9 with 8,192).
  int table = 1024;
  int longest_shared_list = 2048;
  /// Bytes of a query's table, or of its values, that walks have in shared memory: two walks a multiprocessor
  /// at least. Longer ones are read from the device's memory.
  std::int64_t largest_shared_query = std::int64_t{100} << 10U;

  /// Walks, and the length of their lists, that tell which nodes' edges a device gets a copy of.
  std::int64_t walks_of_a_sample = std::int64_t{1} << 21U;
  std::int64_t list_of_a_sample = 32;

  std::int64_t most_at_once = std::int64_t{1} << 14;  ///< queries between two polls
  std::int64_t few_walks = 1024;  ///< at once: each prefetches what it is likely to need next
  /// At once: a block each, in place of a warp. An H200, 10 million rows, lists of 20: one walk 53 us in
  /// place of 66, 64 of them as long as by warps, 128 longer.
  std::int64_t team_walks = 64;
  /// Queries and answers of so few bytes lie in page-locked memory that kernels read and write themselves.
  std::int64_t little_host_bytes = std::int64_t{16} << 10U;
  /// Of a build, between two polls. The last walks of a launch leave most of the device idle, so a launch
  /// has some 30 times as many as the device takes at once (about 4,000); prunes of back edges are short.
  std::int64_t nodes_at_once = std::int64_t{1} << 17U;
  std::int64_t targets_at_once = std::int64_t{1} << 18U;
  /// Nodes of a batch that are put in order before they walk. An H200, 10 million rows: 3.7 s in place of 3.9
  /// for u8 rows, no difference for 96 values of f32.
  std::int64_t fewest_in_order = 64;
  std::uint64_t little_memory = std::uint64_t{1} << 28U;  ///< that a search takes without asking
  std::size_t most_idle = 8;                              ///< workspaces that are kept for later searches

  std::size_t largest_shared_values = std::size_t{16}
                                      << 10U;  ///< bytes of a query's values while it is encoded
  int rerank_threads = 128;                    ///< of a block
  int shared_room_bytes = 32768;               ///< keys of a block that re-ranks, in shared memory
};
inline constexpr Constants constants;

}  // namespace kith::vamana::cuda
