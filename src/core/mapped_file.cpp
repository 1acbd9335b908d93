// Read-only memory maps.
#include "core/mapped_file.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kith/error.hpp"

namespace kith {
namespace {

// Which file lies where, for handlers of SIGBUS: fixed in size, read without a lock. A slot is taken by its
// `begin`, and says something once `end` is set.
struct Mapping {
  std::atomic<std::uintptr_t> begin{0};
  std::atomic<std::uintptr_t> end{0};
  dev_t device = 0;
  ino_t node = 0;
  std::array<char, 1024> name{};
};
std::array<Mapping, 64> mappings;  // maps beyond them work as well, but nobody knows their names

Mapping* enter(const void* data, std::size_t size, const struct stat& status, const std::string& name) {
  const auto begin = reinterpret_cast<std::uintptr_t>(data);
  for (Mapping& mapping : mappings) {
    std::uintptr_t expected = 0;
    if (!mapping.begin.compare_exchange_strong(expected, begin)) continue;
    const std::size_t kept = std::min(name.size(), mapping.name.size() - 1);
    std::memcpy(mapping.name.data(), name.data() + name.size() - kept, kept);
    mapping.name[kept] = '\0';
    mapping.device = status.st_dev;
    mapping.node = status.st_ino;
    mapping.end.store(begin + size);
    return &mapping;
  }
  return nullptr;
}

void leave(Mapping& mapping) {
  mapping.end.store(0);
  mapping.begin.store(0);
}

}  // namespace

const char* mapped_file_at(const void* address) noexcept {
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  for (const Mapping& mapping : mappings) {
    const std::uintptr_t end = mapping.end.load();
    // Faults come by whole pages: the last one may reach beyond the file's end.
    constexpr std::uintptr_t page = 4096;
    if (end != 0 && at >= mapping.begin.load() && at < (end + page - 1) / page * page)
      return mapping.name.data();
  }
  return nullptr;
}

std::string shortened_mapped_file() {
  for (const Mapping& mapping : mappings) {
    const std::uintptr_t end = mapping.end.load();
    if (end == 0) continue;
    struct stat status {};
    if (::stat(mapping.name.data(), &status) != 0 || status.st_dev != mapping.device ||
        status.st_ino != mapping.node) {
      continue;  // replaced, not shortened: the map has the old file
    }
    if (static_cast<std::uint64_t>(status.st_size) < end - mapping.begin.load()) return mapping.name.data();
  }
  return {};
}

std::shared_ptr<const MappedFile> MappedFile::open(const std::filesystem::path& path) {
  // A pipe without a writer would wait for one.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    throw IoError(fmt::format("cannot open '{}': {}", path.string(), std::strerror(errno)));
  }
  struct stat status {};
  if (::fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) {
    ::close(fd);
    throw IoError(fmt::format("cannot read '{}': it is not a regular file", path.string()));
  }
  const auto size = static_cast<std::size_t>(status.st_size);
  void* data = nullptr;
  if (size > 0) {
    data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED) {
      const int reason = errno;
      ::close(fd);
      throw IoError(
          fmt::format("cannot map '{}' ({} bytes): {}", path.string(), size, std::strerror(reason)));
    }
  }
  ::close(fd);
  std::shared_ptr<MappedFile> file(new MappedFile(static_cast<const std::byte*>(data), size));
  if (size > 0) file->mapping_ = enter(data, size, status, path.string());
  return file;
}

void MappedFile::release(const std::byte* first, const std::byte* last) const noexcept {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = (static_cast<std::size_t>(first - data_) + page - 1) / page * page;
  const auto end = static_cast<std::size_t>(last - data_) / page * page;
  if (begin < end) (void)::madvise(const_cast<std::byte*>(data_) + begin, end - begin, MADV_DONTNEED);
}

void MappedFile::expect(const std::byte* first, const std::byte* last) const noexcept {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = static_cast<std::size_t>(first - data_) / page * page;
  const auto end = static_cast<std::size_t>(last - data_);
  if (begin < end) (void)::madvise(const_cast<std::byte*>(data_) + begin, end - begin, MADV_WILLNEED);
}

MappedFile::~MappedFile() {
  if (mapping_ != nullptr) leave(*static_cast<Mapping*>(mapping_));
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

}  // namespace kith
