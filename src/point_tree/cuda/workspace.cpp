// Workspaces of searches.
#include "point_tree/cuda/workspace.hpp"

#include "cuda/pool.hpp"
#include "point_tree/cuda/tuning.hpp"

namespace kith::point_tree {

Workspace::Workspace(int ordinal)
    : device(ordinal),
      counts(counters, stream),
      arrived(1, stream),
      lists(2 * cuda::constants.small_list, stream) {
  cuda::keep_some_memory(ordinal);
  report.reserve(seen);
  KITH_CUDA(cudaMemsetAsync(counts.data(), 0, counts.bytes(), stream));
  KITH_CUDA(cudaMemsetAsync(arrived.data(), 0, arrived.bytes(), stream));
}

cuda::WorkspacePool<Workspace>& workspaces() {
  // Never freed: at the end of the program the driver may be gone before it.
  static auto* all = new cuda::WorkspacePool<Workspace>(cuda::constants.most_idle);
  return *all;
}

}  // namespace kith::point_tree
