// Threads of a call: a TBB arena of the asked-for width, with cancellation and progress. In a forked process,
// where TBB cannot run, threads of our own.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <utility>

#include <oneapi/tbb/blocked_range.h>
#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/info.h>
#include <oneapi/tbb/parallel_for.h>
#include <oneapi/tbb/partitioner.h>
#include <oneapi/tbb/task_arena.h>

#include "core/fork.hpp"
#include "core/own_threads.hpp"
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

/// While it lives, an arena of more threads than there are cores is allowed: TBB would ignore the request,
/// and say so on stderr. TBB takes the smallest of all limits, so calls that run at once share one, the
/// largest.
class WideArena {
 public:
  WideArena(tbb::task_arena& arena, int threads) : threads_(static_cast<std::size_t>(threads)) {
    State& s = state();
    const std::scoped_lock lock(s.mutex);
    s.asked.insert(threads_);
    s.update();
    arena.initialize();  // reads the limit
  }
  ~WideArena() {
    State& s = state();
    const std::scoped_lock lock(s.mutex);
    s.asked.erase(s.asked.find(threads_));
    s.update();
  }
  WideArena(const WideArena&) = delete;
  WideArena& operator=(const WideArena&) = delete;

 private:
  struct State {
    std::mutex mutex;
    std::multiset<std::size_t> asked;
    std::size_t set = 0;
    std::optional<tbb::global_control> limit;

    void update() {
      const std::size_t largest = asked.empty() ? 0 : *asked.rbegin();
      if (largest == set) return;
      set = largest;
      limit.reset();
      if (largest > 0) limit.emplace(tbb::global_control::max_allowed_parallelism, largest);
    }
  };
  // Never destroyed: a process that was forked while it was in use must leave TBB alone at its end, too.
  static State& state() {
    static State& state = *new State;
    return state;
  }
  std::size_t threads_;
};

/// Runs body() where TBB may use `threads` threads; not in a forked process.
template <class Body>
void in_arena(int threads, const Body& body) {
  tbb::task_arena arena(threads);
  std::optional<WideArena> wide;
  if (threads > tbb::info::default_concurrency()) wide.emplace(arena, threads);
  arena.execute(body);
}

/// Tells ThreadSanitizer what oneTBB, which is not instrumented, orders: what came before the loop happens
/// before every task, and every task before what comes after, whether it ends or throws. Tasks stay unordered
/// among themselves.
class SharedWork {
 public:
#if defined(__SANITIZE_THREAD__)
  SharedWork() {
    offered_.store(1, std::memory_order_release);
  }
  ~SharedWork() {
    (void)done_.load(std::memory_order_acquire);
  }
  SharedWork(const SharedWork&) = delete;
  SharedWork& operator=(const SharedWork&) = delete;

  class Task {
   public:
    explicit Task(SharedWork& work) : work_(work) { (void)work_.offered_.load(std::memory_order_acquire); }
    ~Task() { work_.done_.fetch_add(1, std::memory_order_release); }
    Task(const Task&) = delete;
    Task& operator=(const Task&) = delete;

   private:
    SharedWork& work_;
  };

 private:
  std::atomic<int> offered_{0};
  std::atomic<int> done_{0};
#else
  struct Task {
    explicit Task(SharedWork& /*work*/) {}
  };
#endif
};

/// Runs body(i) for i in [0, count) on `threads` threads; the first exception stops the rest and is rethrown.
template <class Body>
void parallel_for(int threads, std::int64_t count, const Body& body) {
  if (threads == 1 || count <= 1) {
    for (std::int64_t i = 0; i < count; ++i) body(i);
    return;
  }
  if (forked()) {
    own_threads::run(threads, count, body);
    return;
  }
  SharedWork work;
  in_arena(threads, [&] {
    tbb::parallel_for(
        tbb::blocked_range<std::int64_t>(0, count, 1),
        [&](const tbb::blocked_range<std::int64_t>& range) {
          const SharedWork::Task task(work);
          for (std::int64_t i = range.begin(); i != range.end(); ++i) body(i);
        },
        tbb::simple_partitioner());
  });
}

/// The same for work without a counter: the caller is asked to stop before each of them.
/// @throws Cancelled
template <class Body>
void parallel_for(const Execution& execution, std::int64_t count, const Body& body) {
  StopRequest stop(execution);
  parallel_for(resolve_threads(execution), count, [&](std::int64_t i) {
    stop.check();
    body(i);
  });
}

}  // namespace kith
