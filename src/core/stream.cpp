// Descriptors behind names, and waiting for those who read.
#include "core/stream.hpp"

#include <cerrno>
#include <charconv>
#include <cstring>
#include <string>
#include <system_error>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include "kith/error.hpp"

namespace kith {
namespace {

namespace fs = std::filesystem;

constexpr int wait_milliseconds = 100;

[[noreturn]] void fail(const fs::path& path, int reason) {
  throw IoError(fmt::format("cannot write '{}': {}", path.string(), std::strerror(reason)));
}

// /dev/fd and /proc/self/fd, by whatever name: both lead to /proc/<pid>/fd.
bool lists_own_descriptors(const fs::path& folder) {
  std::error_code error;
  const fs::path whole = fs::canonical(folder, error);
  return !error && (whole == fmt::format("/proc/{}/fd", ::getpid()));
}

}  // namespace

std::optional<int> descriptor_of(const fs::path& path) {
  fs::path at = path;
  constexpr int most_links = 40;  // as the kernel
  for (int links = 0; links < most_links; ++links) {
    const std::string name = at.filename().string();
    const fs::path folder = at.has_parent_path() ? at.parent_path() : fs::path(".");
    int descriptor = -1;
    const auto [end, wrong] = std::from_chars(name.data(), name.data() + name.size(), descriptor);
    if (wrong == std::errc{} && end == name.data() + name.size() && lists_own_descriptors(folder)) {
      return descriptor;
    }
    std::error_code error;
    const fs::path next = fs::read_symlink(at, error);
    if (error) return std::nullopt;
    at = next.is_absolute() ? next : folder / next;
  }
  return std::nullopt;
}

bool is_stream(const fs::path& path) {
  if (path.empty()) return false;
  if (descriptor_of(path)) return true;
  std::error_code error;
  const auto status = fs::status(path, error);
  return fs::exists(status) && !fs::is_regular_file(status) && !fs::is_directory(status);
}

int open_stream(const fs::path& path, const std::function<bool()>& cancelled) {
  if (const auto named = descriptor_of(path)) {
    const int copy = ::fcntl(*named, F_DUPFD_CLOEXEC, 3);
    if (copy < 0) fail(path, errno);
    return copy;
  }
  // A pipe that nobody reads yet: the call would wait for the reader, and no flag would end it.
  std::error_code ignored;
  const bool is_pipe = fs::is_fifo(path, ignored);
  int descriptor = -1;
  while ((descriptor = ::open(path.c_str(), O_WRONLY | O_CLOEXEC | O_NONBLOCK)) < 0 && errno == ENXIO &&
         is_pipe) {
    if (cancelled && cancelled()) throw Cancelled("writing '" + path.string() + "' was cancelled");
    ::poll(nullptr, 0, wait_milliseconds / 10);
  }
  if (descriptor < 0) fail(path, errno);
  const int flags = ::fcntl(descriptor, F_GETFL);
  if (flags >= 0) ::fcntl(descriptor, F_SETFL, flags & ~O_NONBLOCK);
  return descriptor;
}

bool wait_writable(int descriptor) noexcept {
  pollfd watched{descriptor, POLLOUT, 0};
  // An error or a closed reader counts as writable: write() will say what it is.
  return ::poll(&watched, 1, wait_milliseconds) > 0;
}

}  // namespace kith
