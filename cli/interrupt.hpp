// Ctrl-C and SIGTERM.
#pragma once

#include <string>

namespace kith::cli {

/// From now on `handler` is called for a signal; system calls it interrupts go on.
void handle(int signal, void (*handler)(int));

/// Whether whoever started this program wants a signal ignored.
bool is_ignored(int signal);

/// From now on SIGINT, SIGTERM and SIGHUP (unless it is ignored, as nohup does) end the program with status
/// 130, 143 or 129: at once outside of a CancellableScope (nothing has been written yet), by
/// Execution::cancelled inside one, and a quarter of a second later whatever it does. A second signal always
/// ends at once. No temporary file is left.
void install_signal_handlers();

/// What is said on stderr where the work does not come to say it itself.
void word_interruption(const std::string& on_int, const std::string& on_term);

/// Says it where the work does; the program may take long to end after it, and is ended without a word then.
void say_interruption(const std::string& text);

/// True once a signal arrived, unless it came too late.
bool interrupted() noexcept;

/// Every output is where it belongs: the command has succeeded, and a signal changes nothing any more; a
/// second one ends the program at once. Called within the CancellableScope in which the last of them was
/// written.
void outputs_in_place() noexcept;

/// 129, 130 or 143; the signal that arrived decides.
int interrupt_exit_code() noexcept;

/// While one lives, a signal first sets the flag, so that the work can stop and clean up.
class CancellableScope {
 public:
  CancellableScope() noexcept;
  ~CancellableScope();
  CancellableScope(const CancellableScope&) = delete;
  CancellableScope& operator=(const CancellableScope&) = delete;
};

/// While one lives, the work is given the time it takes to clean up: there is more of it than temporary
/// files.
class PatientScope {
 public:
  PatientScope() noexcept;
  ~PatientScope();
  PatientScope(const PatientScope&) = delete;
  PatientScope& operator=(const PatientScope&) = delete;
};

}  // namespace kith::cli
