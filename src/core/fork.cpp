// Remembers a fork.
#include "core/fork.hpp"

#include <atomic>
#include <mutex>
#include <utility>

#include <pthread.h>

#include "core/instruction_set.hpp"

namespace kith {

// A list of all that live. Its own lock is held during a fork, too. Nothing to destroy: a process may fork
// while it ends.
struct ForkHooks {
  std::mutex mutex;
  ForkHook* first = nullptr;

  void before() noexcept {
    mutex.lock();
    for (ForkHook* hook = first; hook != nullptr; hook = hook->next_) hook->before_();
  }
  void after(bool in_child) noexcept {
    for (ForkHook* hook = first; hook != nullptr; hook = hook->next_) hook->after_(in_child);
    mutex.unlock();
  }
};

namespace {
constinit ForkHooks hooks;
}

ForkHook::ForkHook(std::function<void()> before, std::function<void(bool)> after)
    : before_(std::move(before)), after_(std::move(after)) {
  const std::scoped_lock lock(hooks.mutex);
  next_ = std::exchange(hooks.first, this);
}

ForkHook::~ForkHook() {
  const std::scoped_lock lock(hooks.mutex);
  ForkHook** link = &hooks.first;
  while (*link != this) link = &(*link)->next_;
  *link = next_;
}

namespace {

std::atomic<bool> is_forked{false};

// A list that another thread was about to make while this one forked would never be finished in the child.
void before_fork() noexcept {
  (void)usable_instruction_sets();
  hooks.before();
}

const int registered = ::pthread_atfork(
    &before_fork, []() noexcept { hooks.after(false); },
    []() noexcept {
      is_forked = true;
      hooks.after(true);
    });

}  // namespace

bool forked() noexcept {
  (void)registered;
  return is_forked.load(std::memory_order_relaxed);
}

}  // namespace kith
