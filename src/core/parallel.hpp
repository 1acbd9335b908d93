// Threads of a call: a TBB arena of the asked-for width, with cancellation and progress.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>

#include <oneapi/tbb/blocked_range.h>
#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/info.h>
#include <oneapi/tbb/parallel_for.h>
#include <oneapi/tbb/partitioner.h>
#include <oneapi/tbb/task_arena.h>

#include "kith/error.hpp"
#include "kith/execution.hpp"

namespace kith {

/// Counts finished work, passes it on to the caller's callback one call at a time, and polls for cancel.
class ProgressCounter {
 public:
  ProgressCounter(const Execution& execution, const char* stage, std::int64_t total)
      : execution_(execution), stage_(stage), total_(total) {}

  /// Adds finished units. @throws Cancelled when the caller asked to stop
  void advance(std::int64_t units) {
    const std::int64_t done = done_.fetch_add(units, std::memory_order_relaxed) + units;
    if (execution_.cancelled && execution_.cancelled()) {
      throw Cancelled("stopped because the caller asked to; nothing was produced");
    }
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
  const char* stage_;
  std::int64_t total_;
  std::int64_t reported_ = 0;
  std::atomic<std::int64_t> done_{0};
  std::mutex mutex_;
};

/// Runs body() where TBB may use `threads` threads.
template <class Body>
void in_arena(int threads, const Body& body) {
  // More threads than cores: TBB would ignore the request, and say so on stderr.
  std::optional<tbb::global_control> wide;
  if (threads > tbb::info::default_concurrency()) {
    wide.emplace(tbb::global_control::max_allowed_parallelism, static_cast<std::size_t>(threads));
  }
  tbb::task_arena arena(threads);
  arena.execute(body);
}

/// Runs body(i) for i in [0, count) on `threads` threads; the first exception stops the rest and is rethrown.
template <class Body>
void parallel_for(int threads, std::int64_t count, const Body& body) {
  if (threads == 1 || count <= 1) {
    for (std::int64_t i = 0; i < count; ++i) body(i);
    return;
  }
  in_arena(threads, [&] {
    tbb::parallel_for(
        tbb::blocked_range<std::int64_t>(0, count, 1),
        [&](const tbb::blocked_range<std::int64_t>& range) {
          for (std::int64_t i = range.begin(); i != range.end(); ++i) body(i);
        },
        tbb::simple_partitioner());
  });
}

}  // namespace kith
