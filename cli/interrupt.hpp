// Ctrl-C and SIGTERM.
#pragma once

namespace kith::cli {

/// From now on SIGINT and SIGTERM end the program with status 130 or 143: at once outside of a
/// CancellableScope (nothing has been written yet), by Execution::cancelled inside one. A second signal
/// always ends at once.
void install_signal_handlers();

/// True once a signal arrived.
bool interrupted() noexcept;

/// 130 or 143; the signal that arrived decides.
int interrupt_exit_code() noexcept;

/// While one lives, a signal only sets the flag, so that the work can stop and clean up.
class CancellableScope {
 public:
  CancellableScope() noexcept;
  ~CancellableScope();
  CancellableScope(const CancellableScope&) = delete;
  CancellableScope& operator=(const CancellableScope&) = delete;
};

}  // namespace kith::cli
