// Remembers a fork.
#include "core/fork.hpp"

#include <atomic>

#include <pthread.h>

#include "core/instruction_set.hpp"

namespace kith {
namespace {

std::atomic<bool> is_forked{false};

// A list that another thread was about to make while this one forked would never be finished in the child.
void finish_lists() {
  (void)usable_instruction_sets();
}

const int registered = ::pthread_atfork(&finish_lists, nullptr, [] { is_forked = true; });

}  // namespace

bool forked() noexcept {
  (void)registered;
  return is_forked.load(std::memory_order_relaxed);
}

}  // namespace kith
