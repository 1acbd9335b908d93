// What a search of a tree borrows on a device: a stream and what is small and kept.
#pragma once

#include <cstdint>

#include "cuda/runtime.hpp"
#include "cuda/upload.hpp"
#include "cuda/workspace_pool.hpp"
#include "point_tree/cuda/search_kernels.hpp"

namespace kith::point_tree {

// Counters of a search: [count_slots][2] of pairs and candidates, and some more. The last kernel of a search
// brings the sums of the former and the latter to the host and sets all to 0.
constexpr int slots = 2 * cuda::count_slots;
enum Counter : int { unanswered = slots, left_over, nan_query, usable, counters };
constexpr int more_counters = counters - slots;
constexpr int seen_pairs = 0;
constexpr int seen_candidates = 1;
constexpr int seen = 2 + more_counters;
constexpr int seen_of(Counter counter) {
  return 2 + static_cast<int>(counter) - slots;
}
constexpr unsigned long long not_seen = ~0ULL;  // no counter counts so far

struct Workspace {
  explicit Workspace(int ordinal);
  int device;
  cuda::Stream stream;
  cuda::Buffer<unsigned long long> counts;
  cuda::Buffer<unsigned> arrived;                 ///< blocks of the last kernel
  cuda::PinnedBuffer<unsigned long long> report;  ///< what the host sees of them
  cuda::Buffer<std::int64_t> lists;
  cuda::Uploader uploader;
};

/// Those that no search uses.
cuda::WorkspacePool<Workspace>& workspaces();

}  // namespace kith::point_tree
