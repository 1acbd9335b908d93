// Runs something in a forked process.
#pragma once

#include <csignal>
#include <exception>

#include <sys/wait.h>
#include <unistd.h>

namespace kith::test {

/// Whether a process may fork while its threads allocate memory. Not under AddressSanitizer: its allocator
/// (that of g++ 12) does not let go of its locks in the child, which then waits for them for ever.
#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool forks_among_threads = false;
#else
inline constexpr bool forks_among_threads = true;
#endif

/// 0 when work() returned true in a forked process, 1 when false, 2 when it threw; beyond 100 the number of
/// the signal that ended the process. One that hangs is ended by SIGALRM.
template <class Work>
int in_child(const Work& work) {
  constexpr unsigned seconds = 60;
  const pid_t child = ::fork();
  if (child < 0) return -1;
  if (child == 0) {
    ::signal(SIGALRM, SIG_DFL);
    ::alarm(seconds);
    int status = 2;
    try {
      status = work() ? 0 : 1;
    } catch (const std::exception&) {
    }
    ::_exit(status);
  }
  int status = 0;
  if (::waitpid(child, &status, 0) != child) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 100 + WTERMSIG(status);
}

}  // namespace kith::test
