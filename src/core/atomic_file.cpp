// Temporary file, fsync, rename.
#include "core/atomic_file.hpp"

#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kith/error.hpp"

namespace kith {
namespace {

constexpr std::size_t buffer_bytes = std::size_t{1} << 20U;

[[noreturn]] void fail(const std::filesystem::path& path, const char* what, int reason) {
  throw IoError(fmt::format("cannot {} '{}': {}", what, path.string(), std::strerror(reason)));
}

}  // namespace

AtomicFile::AtomicFile(std::filesystem::path path, std::function<bool()> cancelled)
    : path_(std::move(path)), cancelled_(std::move(cancelled)) {
  static std::atomic<unsigned> serial{0};
  std::error_code ignored;
  if (path_.empty() || std::filesystem::is_directory(path_, ignored)) {
    throw IoError(fmt::format("cannot write '{}': it is a folder; name a file", path_.string()));
  }
  // A rename would replace a device or a pipe by a file: these are written directly.
  const auto status = std::filesystem::status(path_, ignored);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) {
    fd_ = ::open(path_.c_str(), O_WRONLY | O_CLOEXEC);
    if (fd_ < 0) fail(path_, "write", errno);
    buffer_.reserve(buffer_bytes);
    return;
  }
  // Through a symbolic link, so that the link stays one.
  if (std::filesystem::is_symlink(std::filesystem::symlink_status(path_, ignored))) {
    path_ = std::filesystem::weakly_canonical(path_, ignored);
  }
  temporary_ = path_;
  temporary_ += fmt::format(".{}.{}.tmp", ::getpid(), serial++);
  fd_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd_ < 0) fail(path_, "write", errno);
  buffer_.reserve(buffer_bytes);
}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_(std::exchange(other.temporary_, {})),
      cancelled_(std::move(other.cancelled_)),
      buffer_(std::move(other.buffer_)),
      written_(other.written_),
      fd_(std::exchange(other.fd_, -1)) {}

AtomicFile::~AtomicFile() {
  if (fd_ >= 0) ::close(fd_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void AtomicFile::flush() {
  if (cancelled_ && cancelled_()) throw Cancelled("writing '" + path_.string() + "' was cancelled");
  std::size_t done = 0;
  while (done < buffer_.size()) {
    const ssize_t count = ::write(fd_, buffer_.data() + done, buffer_.size() - done);
    if (count < 0) {
      if (errno == EINTR) continue;
      fail(path_, "write", errno);
    }
    done += static_cast<std::size_t>(count);
  }
  buffer_.clear();
}

void AtomicFile::write(const void* data, std::size_t bytes) {
  const auto* from = static_cast<const char*>(data);
  written_ += bytes;
  while (bytes > 0) {
    const std::size_t part = std::min(bytes, buffer_bytes - buffer_.size());
    buffer_.insert(buffer_.end(), from, from + part);
    from += part;
    bytes -= part;
    if (buffer_.size() == buffer_bytes) flush();
  }
}

void AtomicFile::finish() {
  if (fd_ < 0) return;
  flush();
  // Devices and pipes cannot be synced (EINVAL, EROFS); what matters there is that write() succeeded.
  if (!temporary_.empty() && ::fsync(fd_) != 0) fail(path_, "write", errno);
  if (::close(std::exchange(fd_, -1)) != 0) fail(path_, "write", errno);
}

void AtomicFile::commit() {
  finish();
  if (temporary_.empty()) return;
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail(path_, "write", errno);
  temporary_.clear();
}

void commit_all(std::vector<AtomicFile>& files) {
  // Everything that can fail for want of space comes before the first rename.
  for (AtomicFile& file : files) file.finish();
  for (AtomicFile& file : files) file.commit();
}

}  // namespace kith
