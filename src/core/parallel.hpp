// Threads of a call: a TBB arena of the asked-for width, with cancellation and progress. In a forked process,
// where TBB cannot run, threads of our own.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>

#include "core/function_ref.hpp"
#include "kith/error.hpp"
#include "kith/execution.hpp"

namespace kith {

/// Whether the caller wants to stop: asks Execution::cancelled from one thread at a time, and tells all.
class StopRequest {
 public:
  explicit StopRequest(const Execution& execution) : StopRequest(execution.cancelled) {}
  explicit StopRequest(const std::function<bool()>& cancelled) : cancelled_(cancelled) {}
  explicit StopRequest(std::function<bool()>&&) = delete;  // it is not kept

  /// Whether the caller asked to stop. Once he did he is not asked again.
  bool requested() {
    if (!cancelled_) return false;
    if (!stop_.load(std::memory_order_relaxed) && !asking_.exchange(true, std::memory_order_acquire)) {
      const Asking done{asking_};
      if (!stop_.load(std::memory_order_relaxed) && cancelled_())
        stop_.store(true, std::memory_order_relaxed);
    }
    return stop_.load(std::memory_order_relaxed);
  }

  /// @throws Cancelled when the caller asked to stop
  void check() {
    if (requested()) throw Cancelled("stopped because the caller asked to; nothing was produced");
  }

 private:
  struct Asking {
    std::atomic<bool>& flag;
    explicit Asking(std::atomic<bool>& held) : flag(held) {}
    Asking(const Asking&) = delete;
    Asking& operator=(const Asking&) = delete;
    ~Asking() { flag.store(false, std::memory_order_release); }
  };
  const std::function<bool()>& cancelled_;
  std::atomic<bool> stop_{false};
  std::atomic<bool> asking_{false};
};

/// The same for threads that have a StopRequest each: `cancelled` is asked by one of them at a time.
inline Execution asked_by_one(Execution execution) {
  if (!execution.cancelled) return execution;
  struct Asked {
    explicit Asked(std::function<bool()> its) : cancelled(std::move(its)) {}
    std::function<bool()> cancelled;
    StopRequest stop{cancelled};
  };
  const auto asked = std::make_shared<Asked>(std::move(execution.cancelled));
  execution.cancelled = [asked] { return asked->stop.requested(); };
  return execution;
}

/// The same call, but for its reports of progress: what is a part of it has none of its own.
inline Execution without_progress(Execution execution) {
  execution.progress = nullptr;
  return execution;
}

/// Counts finished work, passes it on to the caller's callback one call at a time, and polls for cancel.
class ProgressCounter {
 public:
  ProgressCounter(const Execution& execution, const char* stage, std::int64_t total)
      : execution_(execution), stop_(execution), stage_(stage), total_(total) {}

  /// Between two advances, where there is much to do for a unit. @throws Cancelled
  void check() { stop_.check(); }

  /// Adds finished units. @throws Cancelled when the caller asked to stop
  void advance(std::int64_t units) {
    const std::int64_t done = done_.fetch_add(units, std::memory_order_relaxed) + units;
    stop_.check();
    if (execution_.progress) {
      const std::unique_lock lock(mutex_, std::try_to_lock);
      if (lock.owns_lock() && done > reported_ && done < total_) {
        reported_ = done;
        execution_.progress({stage_, done, total_});
      }
    }
  }

  /// The last report: all of it is done.
  void finish() {
    if (execution_.progress) execution_.progress({stage_, total_, total_});
  }

 private:
  const Execution& execution_;
  StopRequest stop_;
  const char* stage_;
  std::int64_t total_;
  std::int64_t reported_ = 0;
  std::atomic<std::int64_t> done_{0};
  std::mutex mutex_;
};

/// Runs body() where TBB may use `threads` threads; not in a forked process.
void in_arena(int threads, FunctionRef<void()> body);

/// Runs body(i) for i in [0, count) on `threads` threads; the first exception stops the rest and is rethrown.
void parallel_for(int threads, std::int64_t count, FunctionRef<void(std::int64_t)> body);

/// The same for work without a counter: the caller is asked to stop before each of them.
/// @throws Cancelled
void parallel_for(const Execution& execution, std::int64_t count, FunctionRef<void(std::int64_t)> body);

}  // namespace kith
