#include "core/positioned_file.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kith/error.hpp"

namespace kith {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const char* what, const std::string& name, int reason) {
  std::string remedy;
  rlimit limit{};
  if (reason == EFBIG && ::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
    remedy = fmt::format("; files may have {} bytes here (ulimit -f), raise that", limit.rlim_cur);
  }
  throw IoError(fmt::format("cannot {} '{}': {}{}", what, name, std::strerror(reason), remedy));
}

void read_all(int fd, const std::string& name, std::uint64_t offset, void* to, std::size_t bytes) {
  auto* at = static_cast<char*>(to);
  while (bytes > 0) {
    const ssize_t count = ::pread(fd, at, bytes, static_cast<off_t>(offset));
    if (count < 0) {
      if (errno == EINTR) continue;
      fail("read", name, errno);
    }
    if (count == 0) {
      throw IoError(
          fmt::format("'{}' is truncated: it ends at byte {}, {} more are needed", name, offset, bytes));
    }
    at += count;
    offset += static_cast<std::uint64_t>(count);
    bytes -= static_cast<std::size_t>(count);
  }
}

#ifdef O_DIRECT
// By its descriptor, since the name may be another file's by now.
int open_again(int fd, int flags) noexcept {
  const std::string self = "/proc/self/fd/" + std::to_string(fd);
  return ::open(self.c_str(), flags | O_DIRECT | O_CLOEXEC);
}
#endif

}  // namespace

void sync_folder(const fs::path& folder) noexcept {
  const int fd = ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  (void)::fsync(fd);  // some file systems cannot; their entries are safe or never are
  ::close(fd);
}

fs::path temporary_name(const fs::path& path) {
  static std::atomic<unsigned> serial{0};
  fs::path name = path;
  name += fmt::format(".{}.{}.work.tmp", ::getpid(), serial++);  // AtomicFile counts for itself
  return name;
}

fs::path behind_links(fs::path path) {
  constexpr int most = 40;  // as the kernel has it; beyond that it is a circle
  std::error_code error;
  for (int links = 0; links < most; ++links) {
    const fs::path target = fs::read_symlink(path, error);
    if (error) return path;
    path = target.is_absolute() ? target : path.parent_path() / target;
  }
  return path;
}

InputFile::InputFile(const fs::path& path, std::string name)
    : name_(name.empty() ? path.string() : std::move(name)), fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
  if (fd_ < 0) fail("read", name_, errno);
  struct stat status {};
  if (::fstat(fd_, &status) == 0 && S_ISDIR(status.st_mode)) {
    ::close(std::exchange(fd_, -1));
    throw IoError(fmt::format("cannot read '{}': it is a folder; name a file", name_));
  }
}

InputFile::InputFile(InputFile&& other) noexcept
    : name_(std::move(other.name_)),
      fd_(std::exchange(other.fd_, -1)),
      direct_fd_(std::exchange(other.direct_fd_, -1)) {}

InputFile& InputFile::operator=(InputFile&& other) noexcept {
  std::swap(name_, other.name_);
  std::swap(fd_, other.fd_);
  std::swap(direct_fd_, other.direct_fd_);
  return *this;
}

InputFile::~InputFile() {
  if (fd_ >= 0) ::close(fd_);
  if (direct_fd_ >= 0) ::close(direct_fd_);
}

void InputFile::open_direct() noexcept {
#ifdef O_DIRECT
  if (direct_fd_ < 0) direct_fd_ = open_again(fd_, O_RDONLY);
#endif
}

std::uint64_t InputFile::size() const {
  struct stat status {};
  if (::fstat(fd_, &status) != 0) fail("read", name_, errno);
  return static_cast<std::uint64_t>(status.st_size);
}

void InputFile::read(std::uint64_t offset, void* to, std::size_t bytes) const {
  read_all(fd_, name_, offset, to, bytes);
}

void InputFile::expect_jumps(bool jumps) const noexcept {
  (void)::posix_fadvise(fd_, 0, 0, jumps ? POSIX_FADV_RANDOM : POSIX_FADV_SEQUENTIAL);
}

void InputFile::expect(std::uint64_t offset, std::uint64_t bytes) const noexcept {
  (void)::posix_fadvise(fd_, static_cast<off_t>(offset), static_cast<off_t>(bytes), POSIX_FADV_WILLNEED);
}

OutputFile::OutputFile(fs::path path) : path_(std::move(path)), note_(path_) {
  fd_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd_ < 0) {
    const int reason = errno;
    fail("write", std::exchange(path_, {}).string(), reason);
  }
}

OutputFile OutputFile::lasting(fs::path path) {
  OutputFile file;
  file.lasting_ = true;
  file.path_ = std::move(path);
  file.fd_ = ::open(file.path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (file.fd_ < 0) fail("write", file.path_.string(), errno);
  return file;
}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : path_(std::exchange(other.path_, {})),
      lasting_(other.lasting_),
      refused_direct_(other.refused_direct_),
      note_(std::move(other.note_)),
      fd_(std::exchange(other.fd_, -1)),
      direct_fd_(std::exchange(other.direct_fd_, -1)) {}

OutputFile& OutputFile::operator=(OutputFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(lasting_, other.lasting_);
  std::swap(refused_direct_, other.refused_direct_);
  std::swap(note_, other.note_);
  std::swap(fd_, other.fd_);
  std::swap(direct_fd_, other.direct_fd_);
  return *this;
}

OutputFile::~OutputFile() {
  close_direct();
  if (fd_ >= 0) ::close(fd_);
  if (!path_.empty() && !lasting_) ::unlink(path_.c_str());
}

void OutputFile::write(std::uint64_t offset, const void* from, std::size_t bytes) {
  const auto* at = static_cast<const char*>(from);
  while (bytes > 0) {
    const ssize_t count = ::pwrite(fd_, at, bytes, static_cast<off_t>(offset));
    if (count < 0) {
      if (errno == EINTR) continue;
      fail("write", path_.string(), errno);
    }
    at += count;
    offset += static_cast<std::uint64_t>(count);
    bytes -= static_cast<std::size_t>(count);
  }
}

bool OutputFile::open_direct() noexcept {
#ifdef O_DIRECT
  if (direct_fd_ < 0 && !refused_direct_) direct_fd_ = open_again(fd_, O_WRONLY);
#endif
  refused_direct_ = direct_fd_ < 0;
  return !refused_direct_;
}

void OutputFile::close_direct() noexcept {
  if (direct_fd_ >= 0) ::close(std::exchange(direct_fd_, -1));
}

void OutputFile::write_through(std::uint64_t offset, const void* from, std::size_t bytes) {
  constexpr std::size_t most = std::size_t{4} << 20U;
  const auto* at = static_cast<const char*>(from);
  for (std::size_t part = 0; bytes > 0; bytes -= part, at += part, offset += part) {
    part = std::min(bytes, most);
    write(offset, at, part);
    start_writing(offset, part);
  }
}

void OutputFile::write_direct(std::uint64_t offset, const void* from, std::size_t bytes) {
  // One call writes so much: it cannot be stopped meanwhile.
  constexpr std::size_t most = std::size_t{32} << 20U;
  const auto* at = static_cast<const char*>(from);
  const std::size_t head = std::min(bytes, (direct_page - offset % direct_page) % direct_page);
  std::size_t whole = (bytes - head) / direct_page * direct_page;
  if (whole == 0 || reinterpret_cast<std::uintptr_t>(at + head) % direct_page != 0 || !open_direct()) {
    return write_through(offset, from, bytes);
  }
  write(offset, at, head);
  at += head;
  offset += head;
  const std::size_t tail = bytes - head - whole;
  while (whole > 0) {
    const ssize_t count = ::pwrite(direct_fd_, at, std::min(whole, most), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EINVAL) {  // pages are larger there, or it takes such files only by its cache
      close_direct();
      refused_direct_ = true;
      break;
    }
    if (count < 0) fail("write", path_.string(), errno);
    at += count;
    offset += static_cast<std::uint64_t>(count);
    whole -= static_cast<std::size_t>(count);
  }
  write_through(offset, at, whole);
  write(offset + whole, at + whole, tail);
}

void OutputFile::read(std::uint64_t offset, void* to, std::size_t bytes) const {
  read_all(fd_, path_.string(), offset, to, bytes);
}

void OutputFile::sync() {
  if (::fsync(fd_) != 0) fail("write", path_.string(), errno);
}

void OutputFile::start_writing(std::uint64_t offset, std::uint64_t bytes) const noexcept {
#ifdef SYNC_FILE_RANGE_WRITE
  if (bytes == 0) return;  // which would mean all that follows
  (void)::sync_file_range(fd_, static_cast<off_t>(offset), static_cast<off_t>(bytes), SYNC_FILE_RANGE_WRITE);
#else
  (void)offset;
  (void)bytes;
#endif
}

std::uint64_t OutputFile::size() const {
  struct stat status {};
  if (::fstat(fd_, &status) != 0) fail("read", path_.string(), errno);
  return static_cast<std::uint64_t>(status.st_size);
}

void OutputFile::truncate(std::uint64_t bytes) {
  if (::ftruncate(fd_, static_cast<off_t>(bytes)) != 0) fail("write", path_.string(), errno);
}

void OutputFile::rename_to(const fs::path& path) {
  close_direct();
  if (::close(std::exchange(fd_, -1)) != 0) fail("write", path_.string(), errno);
  if (::rename(path_.c_str(), path.c_str()) != 0) fail("write", path.string(), errno);
  path_.clear();
  note_ = {};
}

}  // namespace kith
