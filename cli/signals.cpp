// Handlers that run on whichever thread the signal hits; they call async-signal-safe functions only.
#include "signals.hpp"

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>

#include <fcntl.h>
#include <unistd.h>

#include "core/mapped_file.hpp"
#include "core/temporary_files.hpp"
#include "failure.hpp"
#include "interrupt.hpp"

namespace kith::cli {
namespace {

static_assert(exit_io == 2, "report_cut_file() writes it out");
std::atomic<const Common*> state{nullptr};

void put(const char* text, std::size_t bytes) {
  while (bytes > 0) {
    const ssize_t count = ::write(STDERR_FILENO, text, bytes);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return;
    text += count;
    bytes -= static_cast<std::size_t>(count);
  }
}

void put(const char* text) {
  put(text, std::strlen(text));
}

// A file's name inside a JSON string.
void put_escaped(const char* text) {
  constexpr char digits[] = "0123456789abcdef";
  for (; *text != '\0'; ++text) {
    const auto byte = static_cast<unsigned char>(*text);
    if (byte == '"' || byte == '\\') put("\\", 1);
    if (byte < 0x20) {
      const char code[] = {'\\', 'u', '0', '0', digits[byte >> 4U], digits[byte & 15U]};
      put(code, sizeof code);
    } else {
      put(text, 1);
    }
  }
}

void report_cut_file(const char* file) {
  constexpr char why[] =
      "' could not be read to its end: it was shortened, or its disk failed, while it was in use; leave "
      "files alone while they are searched, or search a copy";
  const Common* common = state.load();
  const char* command = common != nullptr ? common->command.c_str() : "";
  if (common != nullptr && common->json) {
    put("{\"error\":{\"command\":\"");
    put(command);
    put("\",\"exit_code\":2,\"kind\":\"io\",\"message\":\"'");
    put_escaped(file);
    put(why);
    put("\"}}\n");
    return;
  }
  if (::isatty(STDERR_FILENO) == 1) put("\r\033[K");  // the progress bar
  put("kith");
  if (*command != '\0') put(" ");
  put(command);
  put(": error: '");
  put(file);
  put(why);
  put("\n");
}

void end_by_default(int signal) {
  ::signal(signal, SIG_DFL);
  ::raise(signal);  // delivered when the handler returns
}

// A page of a mapped file that the file no longer has. Any other SIGBUS is a fault, and ends as one.
extern "C" void on_bus_error(int signal, siginfo_t* info, void* /*context*/) {
  static std::atomic<bool> first{true};
  const char* file = info->si_code > 0 ? mapped_file_at(info->si_addr) : nullptr;
  if (file == nullptr) {
    end_by_default(signal);
    return;
  }
  // Other threads meet the same gap; one of them speaks.
  while (!first.exchange(false)) ::pause();
  report_cut_file(file);
  remove_temporary_files();
  ::_exit(exit_io);
}

extern "C" void on_broken_pipe(int signal) {
  remove_temporary_files();
  end_by_default(signal);
}

// Not ignored: that would be passed on to programs started from here.
extern "C" void on_size_limit(int /*signal*/) {}

}  // namespace

void keep_standard_descriptors() noexcept {
  for (const int wanted : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(wanted, F_GETFD) >= 0 || errno != EBADF) continue;
    // The wrong way round: to use it is still an error (EBADF), as it was for the closed one.
    const int opened = ::open("/dev/null", wanted == STDIN_FILENO ? O_WRONLY : O_RDONLY);
    if (opened >= 0 && opened != wanted) ::close(opened);
  }
}

void install_fault_handlers(const Common& common) {
  state.store(&common);
  struct sigaction action;
  std::memset(&action, 0, sizeof action);
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO;
  sigemptyset(&action.sa_mask);
  ::sigaction(SIGBUS, &action, nullptr);
  if (!is_ignored(SIGPIPE)) handle(SIGPIPE, on_broken_pipe);
  handle(SIGXFSZ, on_size_limit);
}

}  // namespace kith::cli
