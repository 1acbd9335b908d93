// A flag for the polled kind of stop, _exit for the immediate one.
#include "interrupt.hpp"

#include <atomic>
#include <csignal>
#include <cstring>
#include <string>

#include <sys/time.h>
#include <unistd.h>

#include "core/temporary_files.hpp"

namespace kith::cli {
namespace {

// Long enough for work that polls, and for an error message; short for whoever waits.
constexpr suseconds_t patience_us = 250'000;
constexpr suseconds_t renaming_us = 5'000;

std::atomic<int> arrived{0};
std::atomic<int> scopes{0};
std::atomic<int> patient{0};
std::atomic<int> said{0};
std::atomic<int> in_place{0};
static_assert(std::atomic<int>::is_always_lock_free);

// Written once, before there is work to interrupt.
std::string& message_of(int signal) {
  static std::string on_int = "kith: interrupted\n";
  static std::string on_term = on_int;
  return signal == SIGTERM ? on_term : on_int;
}

// All of what follows may run in a signal handler.

void wake_after(suseconds_t microseconds) {
  const itimerval once{{0, 0}, {0, microseconds}};
  (void)::setitimer(ITIMER_REAL, &once, nullptr);
}

void end_now(int signal) {
  // Files that belong together appear together: their renames take no time.
  if (!remove_temporary_files()) return wake_after(renaming_us);
  static constexpr char plain[] = "kith: interrupted\n";
  const std::string& message = message_of(signal);
  ssize_t written = 0;
  if (said.load() == 0) {
    const bool nothing_written = scopes.load() > 0 && in_place.load() == 0;
    written = nothing_written ? ::write(STDERR_FILENO, message.data(), message.size())
                              : ::write(STDERR_FILENO, plain, sizeof plain - 1);
  }
  (void)written;  // the process ends either way
  ::_exit(128 + signal);
}

extern "C" void on_signal(int signal) {
  const bool again = arrived.exchange(signal) != 0;
  if (!again && in_place.load() != 0) return;
  if (again || scopes.load() == 0) return end_now(signal);
  if (patient.load() == 0) wake_after(patience_us);
}

extern "C" void on_alarm(int /*signal*/) {
  if (const int signal = arrived.load(); signal != 0 && in_place.load() == 0) end_now(signal);
}

}  // namespace

void handle(int signal, void (*handler)(int)) {
  struct sigaction action;
  std::memset(&action, 0, sizeof action);
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  ::sigaction(signal, &action, nullptr);
}

bool is_ignored(int signal) {
  struct sigaction now;
  return ::sigaction(signal, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
}

void install_signal_handlers() {
  (void)message_of(SIGINT);
  handle(SIGINT, on_signal);
  handle(SIGTERM, on_signal);
  handle(SIGALRM, on_alarm);
  // A lost terminal, unless nohup says to go on without.
  if (!is_ignored(SIGHUP)) handle(SIGHUP, on_signal);
}

void word_interruption(const std::string& on_int, const std::string& on_term) {
  // Over what a bar may have drawn.
  const std::string erase = ::isatty(STDERR_FILENO) == 1 ? "\r\033[K" : "";
  message_of(SIGINT) = erase + on_int;
  message_of(SIGTERM) = erase + on_term;
}

void say_interruption(const std::string& text) {
  wake_after(0);  // so that nobody says it meanwhile
  const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
  (void)written;
  said.store(1);
  if (arrived.load() != 0 && patient.load() == 0) wake_after(patience_us);
}

bool interrupted() noexcept {
  return arrived.load(std::memory_order_relaxed) != 0 && in_place.load(std::memory_order_relaxed) == 0;
}

void outputs_in_place() noexcept {
  in_place.store(1);
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

PatientScope::PatientScope() noexcept {
  ++patient;
}
PatientScope::~PatientScope() {
  --patient;
}

}  // namespace kith::cli
