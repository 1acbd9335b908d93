// A flag for the polled kind of stop, _exit for the immediate one.
#include "interrupt.hpp"

#include <atomic>
#include <csignal>
#include <cstring>

#include <unistd.h>

namespace kith::cli {
namespace {

std::atomic<int> arrived{0};
std::atomic<int> scopes{0};
static_assert(std::atomic<int>::is_always_lock_free);

extern "C" void on_signal(int signal) {
  const bool again = arrived.exchange(signal) != 0;
  if (again || scopes.load() == 0) {
    constexpr char message[] = "kith: interrupted\n";
    // The result is of no use: the process ends either way.
    if (::write(STDERR_FILENO, message, sizeof message - 1) < 0) ::_exit(128 + signal);
    ::_exit(128 + signal);
  }
}

}  // namespace

void install_signal_handlers() {
  struct sigaction action;
  std::memset(&action, 0, sizeof action);
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
}

bool interrupted() noexcept {
  return arrived.load(std::memory_order_relaxed) != 0;
}

int interrupt_exit_code() noexcept {
  const int signal = arrived.load();
  return 128 + (signal == 0 ? SIGINT : signal);
}

CancellableScope::CancellableScope() noexcept {
  ++scopes;
}
CancellableScope::~CancellableScope() {
  --scopes;
}

}  // namespace kith::cli
