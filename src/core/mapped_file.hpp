// A read-only memory map of a whole file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

namespace kith {

/// Closed and unmapped with the last shared_ptr.
class MappedFile {
 public:
  /// @throws IoError with the path and the system's reason
  static std::shared_ptr<const MappedFile> open(const std::filesystem::path& path);

  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  std::span<const std::byte> bytes() const noexcept { return {data_, size_}; }
  std::size_t size() const noexcept { return size_; }

  /// Gives back the memory of whole pages of [first, last); who reads them again reads the file again.
  void release(const std::byte* first, const std::byte* last) const noexcept;
  /// These bytes will be read soon: the system may begin with that. Only a hint.
  void expect(const std::byte* first, const std::byte* last) const noexcept;

 private:
  MappedFile(const std::byte* data, std::size_t size) : data_(data), size_(size) {}
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  void* mapping_ = nullptr;  ///< where it stands in the list of maps
};

/// The name of the mapped file that lies at an address, or null. For handlers of SIGBUS, which a read
/// beyond the end of a file that was cut short raises: it takes no lock and no memory.
const char* mapped_file_at(const void* address) noexcept;

/// The name of a mapped file that is shorter now than when it was mapped; empty where there is none. A cut
/// within the last page raises no signal: what is missing reads as zeros.
std::string shortened_mapped_file();

}  // namespace kith
