// The only file, but for parallel_sort.hpp, that includes oneTBB: its headers take a second to compile.
#include "core/parallel.hpp"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include <oneapi/tbb/blocked_range.h>
#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/info.h>
#include <oneapi/tbb/parallel_for.h>
#include <oneapi/tbb/partitioner.h>
#include <oneapi/tbb/task_arena.h>

#include "core/fork.hpp"
#include "core/own_threads.hpp"

namespace kith {
namespace {

/// An arena for one call at a time, kept for the next one. Where each of several short loops in a row makes
/// one and gives it back, its threads still look for work in the last one, and a loop takes 0.25 ms, not a
/// few us. A program on one core with others stood still once in giving one back (TBB 2021.8).
class Arena {
 public:
  explicit Arena(int threads) : threads_(threads) {
    Idle& idle = Arena::idle();
    const std::scoped_lock lock(idle.mutex);
    const auto found = std::find_if(idle.arenas.rbegin(), idle.arenas.rend(),
                                    [&](const auto& entry) { return entry.first == threads; });
    if (found == idle.arenas.rend()) {
      arena_ = std::make_unique<tbb::task_arena>(threads);
    } else {
      arena_ = std::move(found->second);
      idle.arenas.erase(std::next(found).base());
    }
  }
  ~Arena() {
    Idle& idle = Arena::idle();
    std::unique_ptr<tbb::task_arena> oldest;  // ends behind the lock
    const std::scoped_lock lock(idle.mutex);
    if (idle.arenas.size() == most_idle) {
      oldest = std::move(idle.arenas.front().second);
      idle.arenas.erase(idle.arenas.begin());
    }
    idle.arenas.emplace_back(threads_, std::move(arena_));
  }
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  tbb::task_arena& get() { return *arena_; }

 private:
  static constexpr std::size_t most_idle = 64;
  struct Idle {
    Idle() { arenas.reserve(most_idle); }
    std::mutex mutex;
    std::vector<std::pair<int, std::unique_ptr<tbb::task_arena>>>
        arenas;  // threads, arena; the last used last
  };
  // Never destroyed, as WideArena's state.
  static Idle& idle() {
    static Idle& idle = *new Idle;
    return idle;
  }
  int threads_;
  std::unique_ptr<tbb::task_arena> arena_;
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

}  // namespace

void in_arena(int threads, FunctionRef<void()> body) {
  Arena arena(threads);
  std::optional<WideArena> wide;
  if (threads > tbb::info::default_concurrency()) wide.emplace(arena.get(), threads);
  arena.get().execute([&] { body(); });
}

void parallel_for(int threads, std::int64_t count, FunctionRef<void(std::int64_t)> body) {
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

void parallel_for(const Execution& execution, std::int64_t count, FunctionRef<void(std::int64_t)> body) {
  StopRequest stop(execution);
  parallel_for(resolve_threads(execution), count, [&](std::int64_t i) {
    stop.check();
    body(i);
  });
}

}  // namespace kith
