// A list of open loops, and workers that help with the first one that wants help.
//
// The caller of a loop works on it itself and waits only for helpers that are inside, so nothing here waits
// for a thread that may not exist. A worker that finds nothing to do for a while ends. After a fork the child
// starts with an empty list and no workers, whatever the parent's were doing.
#include "core/own_threads.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>

#include <pthread.h>

namespace kith::own_threads {
namespace {

constexpr std::chrono::seconds idle_time{2};

// Lies on its caller's stack.
struct Loop {
  const std::function<void(std::int64_t)>* body = nullptr;
  std::int64_t count = 0;
  std::int64_t step = 1;  // values of i that are taken at a time
  std::atomic<std::int64_t> next{0};
  std::exception_ptr error;  // the first; guarded by Team::mutex, as is what follows
  int wanted = 0;            // helpers that may still come
  int inside = 0;            // helpers at work
  std::condition_variable left;
  Loop* following = nullptr;  // in the list
};

struct Team {
  std::mutex mutex;
  std::condition_variable called;
  Loop* loops = nullptr;  // those that want helpers, or did
  int idle = 0;           // workers that wait to be called
  int calls = 0;          // of theirs, not yet answered
};

// Never destroyed: workers may outlive main().
alignas(Team) unsigned char storage[sizeof(Team)];
Team* const made = ::new (storage) Team;
const int registered = ::pthread_atfork(nullptr, nullptr, [] { ::new (storage) Team; });

Team& team() {
  (void)registered;
  return *std::launder(made);
}

void work_on(Loop& loop) {
  try {
    while (true) {
      const std::int64_t begin = loop.next.fetch_add(loop.step, std::memory_order_relaxed);
      if (begin >= loop.count) return;
      const std::int64_t end = std::min(loop.count, begin + loop.step);
      for (std::int64_t i = begin; i < end; ++i) (*loop.body)(i);
    }
  } catch (...) {
    const std::scoped_lock lock(team().mutex);
    if (loop.error == nullptr) loop.error = std::current_exception();
    loop.next.store(loop.count, std::memory_order_relaxed);
  }
}

// Works on the first loop that wants a helper; false when there is none. The lock is held before and after.
bool help(Team& team, std::unique_lock<std::mutex>& lock) {
  Loop* loop = team.loops;
  while (loop != nullptr && loop->wanted == 0) loop = loop->following;
  if (loop == nullptr) return false;
  --loop->wanted;
  ++loop->inside;
  lock.unlock();
  work_on(*loop);
  lock.lock();
  if (--loop->inside == 0) loop->left.notify_one();
  return true;
}

void worker() {
  Team& t = team();
  std::unique_lock lock(t.mutex);
  while (true) {
    while (help(t, lock)) {
    }
    ++t.idle;
    const bool wanted = t.called.wait_for(lock, idle_time, [&] { return t.calls > 0; });
    --t.idle;
    if (!wanted) return;
    --t.calls;
  }
}

// Wakes those who wait and starts as many as are missing, as long as there is something left to do.
void call_helpers(Team& t, const Loop& loop, int helpers) {
  int missing = 0;
  {
    const std::scoped_lock lock(t.mutex);
    const int waiting = std::min(helpers, t.idle - t.calls);
    t.calls += waiting;
    missing = helpers - waiting;
    for (int i = 0; i < waiting; ++i) t.called.notify_one();
  }
  try {
    for (; missing > 0 && loop.next.load(std::memory_order_relaxed) < loop.count; --missing) {
      std::thread(&worker).detach();
    }
  } catch (const std::system_error&) {  // NOLINT(bugprone-empty-catch)
    // No more threads are to be had; the work gets done with fewer.
  }
}

void take_off(Team& t, const Loop& loop) {
  Loop** at = &t.loops;
  while (*at != &loop) at = &(*at)->following;
  *at = loop.following;
}

}  // namespace

void run(int threads, std::int64_t count, const std::function<void(std::int64_t)>& body) {
  Team& t = team();
  Loop loop;
  loop.body = &body;
  loop.count = count;
  loop.step = std::clamp<std::int64_t>(count / (std::int64_t{64} * threads), 1, 1024);
  const int helpers = static_cast<int>(std::min<std::int64_t>(threads, count) - 1);
  if (helpers > 0) {
    {
      const std::scoped_lock lock(t.mutex);
      loop.wanted = helpers;
      loop.following = t.loops;
      t.loops = &loop;
    }
    call_helpers(t, loop, helpers);
  }
  work_on(loop);
  if (helpers > 0) {
    std::unique_lock lock(t.mutex);
    take_off(t, loop);
    loop.left.wait(lock, [&] { return loop.inside == 0; });
  }
  if (loop.error != nullptr) std::rethrow_exception(loop.error);
}

}  // namespace kith::own_threads
