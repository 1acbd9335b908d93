// Read-only memory maps.
#include "core/mapped_file.hpp"

#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kith/error.hpp"

namespace kith {

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
  return std::shared_ptr<const MappedFile>(new MappedFile(static_cast<const std::byte*>(data), size));
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

}  // namespace kith
