// Workspaces wait for the next search here: those of several threads do not meet.
#include "point_tree/cuda/workspace.hpp"

#include <algorithm>
#include <mutex>
#include <utility>
#include <vector>

#include "cuda/pool.hpp"
#include "point_tree/cuda/tuning.hpp"

namespace kith::point_tree {

namespace {

constexpr std::size_t most_idle = 8;

std::mutex& mutex() {
  static std::mutex held;
  return held;
}

// Never freed: at the end of the program the driver may be gone before it.
std::vector<std::unique_ptr<Workspace>>& idle() {
  static auto* list = new std::vector<std::unique_ptr<Workspace>>;
  return *list;
}

}  // namespace

Workspace::Workspace(int ordinal)
    : device(ordinal),
      counts(counters, stream),
      arrived(1, stream),
      lists(2 * cuda::policy.small_list, stream) {
  cuda::keep_some_memory(ordinal);
  report.reserve(seen);
  KITH_CUDA(cudaMemsetAsync(counts.data(), 0, counts.bytes(), stream));
  KITH_CUDA(cudaMemsetAsync(arrived.data(), 0, arrived.bytes(), stream));
}

Borrowed::Borrowed(int device) {
  {
    const std::scoped_lock lock(mutex());
    auto& list = idle();
    const auto found =
        std::find_if(list.begin(), list.end(), [&](const auto& w) { return w->device == device; });
    if (found != list.end()) {
      workspace_ = std::move(*found);
      list.erase(found);
    }
  }
  if (!workspace_) workspace_ = std::make_unique<Workspace>(device);
}

Borrowed::~Borrowed() {
  // After a failure or a cancel kernels may still be on their way; such a workspace is not used again.
  if (!whole_) {
    (void)cudaStreamSynchronize(workspace_->stream);
    return;
  }
  const std::scoped_lock lock(mutex());
  if (idle().size() < most_idle) idle().push_back(std::move(workspace_));
}

}  // namespace kith::point_tree
