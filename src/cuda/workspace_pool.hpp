// What searches borrow on a device and leave for the next: those of several threads do not meet.
#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <limits>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "cuda/runtime.hpp"

namespace kith::cuda {

/// Workspaces that nobody uses. A W is made by W(device), and keeps that as its `device`.
template <class W>
class WorkspacePool {
 public:
  explicit WorkspacePool(std::size_t most_idle = std::numeric_limits<std::size_t>::max())
      : most_idle_(most_idle) {}

  /// One of the current device.
  std::unique_ptr<W> take(int device) {
    {
      const std::scoped_lock lock(mutex_);
      const auto found =
          std::find_if(idle_.rbegin(), idle_.rend(), [&](const auto& w) { return w->device == device; });
      if (found != idle_.rend()) {
        std::unique_ptr<W> workspace = std::move(*found);
        idle_.erase(std::next(found).base());
        return workspace;
      }
    }
    return std::make_unique<W>(device);
  }
  void give(std::unique_ptr<W> workspace) {
    const std::scoped_lock lock(mutex_);
    if (idle_.size() < most_idle_) idle_.push_back(std::move(workspace));
  }

 private:
  const std::size_t most_idle_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<W>> idle_;
};

/// A workspace, which has a `stream`, for the length of a search.
template <class W>
class Borrowed {
 public:
  Borrowed(WorkspacePool<W>& pool, int device) : pool_(pool), workspace_(pool.take(device)) {}
  Borrowed(const Borrowed&) = delete;
  Borrowed& operator=(const Borrowed&) = delete;
  ~Borrowed() {
    if (done_) {
      pool_.give(std::move(workspace_));
    } else {
      // After a failure or a cancel kernels may still be on their way; such a workspace is not used again.
      (void)cudaStreamSynchronize(workspace_->stream);
    }
  }
  W& operator*() const { return *workspace_; }
  W* operator->() const { return workspace_.get(); }
  /// Nothing is on its way any more.
  void done() { done_ = true; }

 private:
  WorkspacePool<W>& pool_;
  std::unique_ptr<W> workspace_;
  bool done_ = false;
};

}  // namespace kith::cuda
