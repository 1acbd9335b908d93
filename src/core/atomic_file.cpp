// Temporary file, fsync, rename.
#include "core/atomic_file.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include "core/positioned_file.hpp"
#include "core/stream.hpp"
#include "kith/error.hpp"

namespace kith {
namespace {

constexpr std::int64_t buffer_bytes = std::int64_t{1} << 20U;

// A file of so many bytes goes past the page cache, by parts of whole pages.
constexpr std::uint64_t large_file = std::uint64_t{256} << 20U;
constexpr std::int64_t large_buffer = std::int64_t{8} << 20U;

// What is written goes to the disk while more is made: fsync at the end, which nothing can interrupt, then
// has little left to wait for.
constexpr std::uint64_t bytes_under_way = std::uint64_t{8} << 20U;

thread_local CommitTogether* together_now = nullptr;

[[noreturn]] void fail(const std::filesystem::path& path, const char* what, int reason) {
  std::string remedy;
  rlimit limit{};
  if (reason == EFBIG && ::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
    remedy = fmt::format("; files may have {} bytes here (ulimit -f), raise that", limit.rlim_cur);
  }
  throw IoError(fmt::format("cannot {} '{}': {}{}", what, path.string(), std::strerror(reason), remedy));
}

}  // namespace

AtomicFile::AtomicFile(std::filesystem::path path, std::function<bool()> cancelled)
    : path_(std::move(path)), cancelled_(std::move(cancelled)) {
  static std::atomic<unsigned> serial{0};
  std::error_code ignored;
  if (path_.empty() || std::filesystem::is_directory(path_, ignored)) {
    throw IoError(fmt::format("cannot write '{}': it is a folder; name a file", path_.string()));
  }
  // A rename would replace a device or a pipe by a file, and what others have written to a descriptor.
  if (is_stream(path_)) {
    fd_ = open_stream(path_, cancelled_);
    buffer_ = AlignedBuffer<char>(buffer_bytes);
    return;
  }
  // Through a symbolic link, so that the link stays one.
  path_ = behind_links(std::move(path_));
  temporary_ = path_;
  temporary_ += fmt::format(".{}.{}.tmp", ::getpid(), serial++);
  note_ = TemporaryFileNote(temporary_);
  fd_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd_ < 0) fail(path_, "write", errno);
  buffer_ = AlignedBuffer<char>(buffer_bytes);
}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_(std::exchange(other.temporary_, {})),
      note_(std::move(other.note_)),
      cancelled_(std::move(other.cancelled_)),
      buffer_(std::move(other.buffer_)),
      filled_(std::exchange(other.filled_, 0)),
      direct_(other.direct_),
      written_(other.written_),
      flushed_(other.flushed_),
      fd_(std::exchange(other.fd_, -1)) {}

AtomicFile::~AtomicFile() {
  if (fd_ >= 0) ::close(fd_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void AtomicFile::stop_if_cancelled() const {
  if (cancelled_ && cancelled_()) throw Cancelled("writing '" + path_.string() + "' was cancelled");
}

void AtomicFile::expect(std::uint64_t bytes) {
  if (bytes < large_file || temporary_.empty() || written_ != 0 || !set_direct(true)) return;
  buffer_ = AlignedBuffer<char>(large_buffer);
}

// Whether it is as asked.
bool AtomicFile::set_direct(bool on) noexcept {
#ifdef O_DIRECT
  const int flags = ::fcntl(fd_, F_GETFL);
  if (flags < 0 || ::fcntl(fd_, F_SETFL, on ? flags | O_DIRECT : flags & ~O_DIRECT) != 0)
    return direct_ == on;
  direct_ = on;
#endif
  return direct_ == on;
}

void AtomicFile::flush() {
  stop_if_cancelled();
  // The end of a file is seldom a whole page.
  if (direct_ && static_cast<std::int64_t>(filled_) < buffer_.size()) (void)set_direct(false);
  std::size_t done = 0;
  while (done < filled_) {
    // Whoever reads a pipe may take any time over it.
    if (temporary_.empty() && !wait_writable(fd_)) {
      stop_if_cancelled();
      continue;
    }
    const ssize_t count = ::write(fd_, buffer_.data() + done, filled_ - done);
    if (count < 0) {
      if (errno == EINTR) continue;
      // Pages are larger there, or what a full disk still took is no whole page.
      if (errno == EINVAL && direct_ && set_direct(false)) continue;
      fail(path_, "write", errno);
    }
    done += static_cast<std::size_t>(count);
    if (temporary_.empty()) stop_if_cancelled();  // a signal may have cut the call short
  }
  flushed_ += filled_;
  filled_ = 0;
#ifdef SYNC_FILE_RANGE_WRITE
  if (temporary_.empty() || direct_ || flushed_ % bytes_under_way != 0) return;
  // Failures do not matter here: fsync will tell.
  const auto end = static_cast<off_t>(flushed_);
  constexpr auto part = static_cast<off_t>(bytes_under_way);
  (void)::sync_file_range(fd_, end - part, part, SYNC_FILE_RANGE_WRITE);
  if (end >= 2 * part) {
    (void)::sync_file_range(fd_, end - 2 * part, part,
                            SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
  }
#endif
}

void AtomicFile::write(const void* data, std::size_t bytes) {
  const auto* from = static_cast<const char*>(data);
  written_ += bytes;
  while (bytes > 0) {
    const auto room = static_cast<std::size_t>(buffer_.size());
    const std::size_t part = std::min(bytes, room - filled_);
    std::memcpy(buffer_.data() + filled_, from, part);
    filled_ += part;
    from += part;
    bytes -= part;
    if (filled_ == room) flush();
  }
}

void AtomicFile::write_at(std::uint64_t offset, const void* data, std::size_t bytes) {
  const auto* from = static_cast<const char*>(data);
  for (std::size_t done = 0; done < bytes;) {
    stop_if_cancelled();
    if (direct_ && ((bytes - done) % direct_page != 0 || (offset + done) % direct_page != 0)) {
      (void)set_direct(false);
    }
    const ssize_t count = ::pwrite(fd_, from + done, bytes - done, static_cast<off_t>(offset + done));
    if (count < 0) {
      if (errno == EINTR) continue;
      if (errno == EINVAL && direct_ && set_direct(false)) continue;
      fail(path_, "write", errno);
    }
    done += static_cast<std::size_t>(count);
  }
#ifdef SYNC_FILE_RANGE_WRITE
  if (direct_ || bytes == 0) return;
  (void)::sync_file_range(fd_, static_cast<off_t>(offset), static_cast<off_t>(bytes), SYNC_FILE_RANGE_WRITE);
#endif
}

void AtomicFile::sync_written() const {
  if (::fdatasync(fd_) != 0) fail(path_, "write", errno);
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
  if (together_now != nullptr) {
    together_now->waiting_.push_back(std::move(*this));
  } else {
    rename();
  }
}

void AtomicFile::rename() {
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) fail(path_, "write", errno);
  temporary_.clear();
  note_ = {};
}

CommitTogether::CommitTogether() noexcept : outer_(std::exchange(together_now, this)) {}
CommitTogether::~CommitTogether() {
  together_now = outer_;
}

void CommitTogether::commit() {
  const RenamingTogether together;
  for (AtomicFile& file : waiting_) file.rename();
  waiting_.clear();
}

void commit_all(std::vector<AtomicFile>& files) {
  // Everything that can fail for want of space comes before the first rename.
  for (AtomicFile& file : files) file.finish();
  const RenamingTogether together;
  for (AtomicFile& file : files) file.commit();
}

}  // namespace kith
