// Remembers who has used the driver when the process is forked.
#include "cuda/fork.hpp"

#include <atomic>

#include <pthread.h>

#include "kith/error.hpp"

namespace kith::cuda {
namespace {

std::atomic<bool> used{false};
std::atomic<bool> lost{false};

const int registered = ::pthread_atfork(nullptr, nullptr, [] { lost = lost || used; });

}  // namespace

void check_driver() {
  if (driver_lost()) throw DeviceError(driver_lost_reason);
}

void use_driver() {
  (void)registered;
  check_driver();
  if (!used.load(std::memory_order_relaxed)) used = true;
}

bool driver_lost() noexcept {
  return lost.load(std::memory_order_relaxed);
}

}  // namespace kith::cuda
