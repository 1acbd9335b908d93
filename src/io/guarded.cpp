// Fork, pipe, frames. A frame is u8 kind (0 data, else an exception's message), u64 length, the bytes.
#include "io/guarded.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace kith::io {
namespace {

enum Kind : std::uint8_t { data_frame, io_error, invalid_argument, out_of_memory };

constexpr rlim_t header_seconds = 3;         // of processor time; headers take milliseconds
constexpr rlim_t header_wall_seconds = 120;  // a slow disk is no fault of the file
constexpr std::uint64_t slowest_bytes_per_second = 4'000'000;
constexpr std::uint64_t spare_memory = std::uint64_t{1} << 30U;
constexpr std::uint64_t largest_message = 1U << 16U;

void limit(int resource, rlim_t soft) {
  rlimit values{};
  if (::getrlimit(static_cast<__rlimit_resource_t>(resource), &values) != 0) return;
  values.rlim_cur = std::min(soft, values.rlim_max);
  ::setrlimit(static_cast<__rlimit_resource_t>(resource), &values);
}

// Address space now in use; a child starts with all of its parent's.
std::uint64_t used_address_space() {
  char text[64] = {};
  const int fd = ::open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  const ssize_t count = ::read(fd, text, sizeof text - 1);
  ::close(fd);
  return count <= 0 ? 0
                    : std::strtoull(text, nullptr, 10) * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

// The child dies quietly of what it hits: no handler of the host program runs in it, nothing is printed.
void isolate(std::uint64_t file_bytes) {
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGPIPE, SIGALRM, SIGXCPU,
                           SIGXFSZ, SIGTERM, SIGINT, SIGHUP}) {
    ::signal(signal, SIG_DFL);
  }
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  const int null = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (null >= 0) {
    ::dup2(null, STDOUT_FILENO);
    ::dup2(null, STDERR_FILENO);
  }
  limit(RLIMIT_CORE, 0);
  limit(RLIMIT_CPU, header_seconds);
  ::alarm(header_wall_seconds);
  const std::uint64_t used = used_address_space();
  if (used > 0) limit(RLIMIT_AS, used + spare_memory + 4 * file_bytes);
}

}  // namespace

void FrameSink::frame(std::uint8_t kind, const void* data, std::size_t bytes) {
  const auto put = [this](const void* from, std::size_t count) {
    const auto* at = static_cast<const char*>(from);
    while (count > 0) {
      const ssize_t written = ::write(fd_, at, count);
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) ::_exit(1);  // nobody listens any more
      at += written;
      count -= static_cast<std::size_t>(written);
    }
  };
  const auto length = static_cast<std::uint64_t>(bytes);
  put(&kind, sizeof kind);
  put(&length, sizeof length);
  put(data, bytes);
}

void FrameSink::send(const void* data, std::size_t bytes) {
  frame(data_frame, data, bytes);
}

void FrameSink::allow_time_for(std::uint64_t bytes) {
  const auto seconds = static_cast<unsigned>(
      std::min<std::uint64_t>(bytes / slowest_bytes_per_second, 1'000'000) + header_wall_seconds);
  limit(RLIMIT_CPU, seconds);
  ::alarm(seconds);
}

Guarded::Guarded(const Source& source, const std::function<void(FrameSink&)>& work) : source_(source) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    throw bad_file(source, "cannot be read: no pipe to a helper process ({})", std::strerror(errno));
  }
  child_ = ::fork();
  if (child_ < 0) {
    const int reason = errno;
    ::close(ends[0]);
    ::close(ends[1]);
    throw bad_file(source, "cannot be read: no helper process ({})", std::strerror(reason));
  }
  if (child_ > 0) {
    ::close(ends[1]);
    fd_ = ends[0];
    return;
  }
  ::close(ends[0]);
  isolate(source.size());
  FrameSink sink(ends[1]);
  const auto report = [&sink](Kind kind, std::string_view message) {
    sink.frame(kind, message.data(), std::min<std::size_t>(message.size(), largest_message));
  };
  try {
    work(sink);
  } catch (const InvalidArgument& error) {
    report(invalid_argument, error.what());
  } catch (const OutOfMemory& error) {
    report(out_of_memory, error.what());
  } catch (const std::bad_alloc&) {
    report(out_of_memory, fmt::format("no memory to read '{}'; read fewer rows at a time", source.name));
  } catch (const std::exception& error) {
    report(io_error, error.what());
  }
  ::_exit(0);
}

Guarded::~Guarded() {
  if (fd_ >= 0) ::close(fd_);
  if (child_ > 0) {
    ::kill(child_, SIGKILL);
    while (::waitpid(child_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
}

void Guarded::child_failed() {
  int status = 0;
  pid_t ended = 0;
  do {
    ended = ::waitpid(child_, &status, 0);
  } while (ended < 0 && errno == EINTR);
  child_ = -1;
  if (ended > 0 && WIFSIGNALED(status)) {
    const int signal = WTERMSIG(status);
    if (signal == SIGXCPU || signal == SIGALRM) {
      throw bad_file(source_, "is corrupt: the library for its format does not come to an end with it");
    }
    throw bad_file(source_, "is corrupt: the library for its format fails on it ({})", ::strsignal(signal));
  }
  throw bad_file(source_, "is corrupt: the library for its format gives up on it");
}

void Guarded::read_all(void* to, std::size_t bytes) {
  auto* at = static_cast<char*>(to);
  while (bytes > 0) {
    const ssize_t count = ::read(fd_, at, bytes);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) child_failed();
    at += count;
    bytes -= static_cast<std::size_t>(count);
  }
}

void Guarded::receive(void* to, std::size_t bytes) {
  std::uint8_t kind = 0;
  std::uint64_t length = 0;
  read_all(&kind, sizeof kind);
  read_all(&length, sizeof length);
  if (kind == data_frame) {
    if (length != bytes) throw bad_file(source_, "is corrupt: the library for its format gives up on it");
    read_all(to, bytes);
    return;
  }
  std::string message(std::min(length, largest_message), '\0');
  read_all(message.data(), message.size());
  if (kind == invalid_argument) throw InvalidArgument(message);
  if (kind == out_of_memory) throw OutOfMemory(message);
  throw IoError(message);
}

}  // namespace kith::io
