// Remembers a fork.
#include "core/fork.hpp"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <utility>
#include <vector>

#include <pthread.h>

#include "core/instruction_set.hpp"

namespace kith {

// All that live. Its own lock is held during a fork, too.
struct ForkHooks {
  std::mutex mutex;
  std::vector<ForkHook*> hooks;

  // Never destroyed: the process may fork while it ends.
  static ForkHooks& all() {
    static auto& hooks = *new ForkHooks;  // NOLINT(cppcoreguidelines-owning-memory)
    return hooks;
  }
  void before() noexcept {
    mutex.lock();
    for (ForkHook* hook : hooks) hook->before_();
  }
  void after(bool in_child) noexcept {
    for (ForkHook* hook : hooks) hook->after_(in_child);
    mutex.unlock();
  }
};

ForkHook::ForkHook(std::function<void()> before, std::function<void(bool)> after)
    : before_(std::move(before)), after_(std::move(after)) {
  (void)forked();  // the handlers below are there
  const std::scoped_lock lock(ForkHooks::all().mutex);
  ForkHooks::all().hooks.push_back(this);
}

ForkHook::~ForkHook() {
  const std::scoped_lock lock(ForkHooks::all().mutex);
  std::erase(ForkHooks::all().hooks, this);
}

namespace {

std::atomic<bool> is_forked{false};

// A list that another thread was about to make while this one forked would never be finished in the child.
void before_fork() noexcept {
  (void)usable_instruction_sets();
  ForkHooks::all().before();
}

const int registered = ::pthread_atfork(
    &before_fork, []() noexcept { ForkHooks::all().after(false); },
    []() noexcept {
      is_forked = true;
      ForkHooks::all().after(true);
    });

}  // namespace

bool forked() noexcept {
  (void)registered;
  return is_forked.load(std::memory_order_relaxed);
}

}  // namespace kith
