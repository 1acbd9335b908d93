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
struct Place {
  std::atomic<std::uintptr_t> begin{0};
  std::atomic<std::uintptr_t> end{0};
  dev_t device = 0;
  ino_t node = 0;
  std::array<char, 1024> name{};
};
std::array<Place, 64> places;  // maps beyond them work as well, but nobody knows their names

Place* enter(const void* data, std::size_t size, const struct stat& status, const std::string& name) {
  const auto begin = reinterpret_cast<std::uintptr_t>(data);
  for (Place& place : places) {
    std::uintptr_t expected = 0;
    if (!place.begin.compare_exchange_strong(expected, begin)) continue;
    const std::size_t kept = std::min(name.size(), place.name.size() - 1);
    std::memcpy(place.name.data(), name.data() + name.size() - kept, kept);
    place.name[kept] = '\0';
    place.device = status.st_dev;
    place.node = status.st_ino;
    place.end.store(begin + size);
    return &place;
  }
  return nullptr;
}

void leave(Place& place) {
  place.end.store(0);
  place.begin.store(0);
}

}  // namespace

const char* mapped_file_at(const void* address) noexcept {
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  for (const Place& place : places) {
    const std::uintptr_t end = place.end.load();
    // Faults come by whole pages: the last one may reach beyond the file's end.
    constexpr std::uintptr_t page = 4096;
    if (end != 0 && at >= place.begin.load() && at < (end + page - 1) / page * page) return place.name.data();
  }
  return nullptr;
}

std::string shortened_mapped_file() {
  for (const Place& place : places) {
    const std::uintptr_t end = place.end.load();
    if (end == 0) continue;
    struct stat status {};
    if (::stat(place.name.data(), &status) != 0 || status.st_dev != place.device ||
        status.st_ino != place.node) {
      continue;  // replaced, not shortened: the map has the old file
    }
    if (static_cast<std::uint64_t>(status.st_size) < end - place.begin.load()) return place.name.data();
  }
  return {};
}

std::shared_ptr<const MappedFile> MappedFile::open(const std::filesystem::path& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
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
  if (size > 0) file->place_ = enter(data, size, status, path.string());
  return file;
}

void MappedFile::release(const std::byte* first, const std::byte* last) const noexcept {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = (static_cast<std::size_t>(first - data_) + page - 1) / page * page;
  const auto end = static_cast<std::size_t>(last - data_) / page * page;
  if (begin < end) (void)::madvise(const_cast<std::byte*>(data_) + begin, end - begin, MADV_DONTNEED);
}

MappedFile::~MappedFile() {
  if (place_ != nullptr) leave(*static_cast<Place*>(place_));
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

}  // namespace kith
