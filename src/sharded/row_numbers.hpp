// The row numbers of a shard's rows among all.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "core/mapped_file.hpp"
#include "sharded/manifest.hpp"

namespace kith::sharded {

/// Ascending, so that rows at equal distances stand in the order that they have among all. Cheap to copy.
class RowNumbers {
 public:
  /// Rows that follow each other.
  explicit RowNumbers(std::int64_t base) noexcept : base_(base) {}

  /// Those that a shard's file of row numbers has, which stays memory-mapped; without one they follow each
  /// other.
  /// @throws IoError where the file is not what the manifest says; Cancelled
  static RowNumbers open(const std::filesystem::path& folder, const Shard& shard,
                         const std::function<bool()>& cancelled = {});

  bool consecutive() const noexcept { return bytes_ == nullptr; }

  /// The row of all that a row of the shard is.
  std::int64_t operator()(std::int64_t row) const noexcept {
    if (bytes_ == nullptr) return base_ + row;
    const auto at = static_cast<std::size_t>(row);
    return base_ + (wide_ ? static_cast<std::int64_t>(reinterpret_cast<const std::uint64_t*>(bytes_)[at])
                          : static_cast<std::int64_t>(reinterpret_cast<const std::uint32_t*>(bytes_)[at]));
  }

  /// These rows' numbers are soon asked for.
  void prefetch(std::span<const std::int64_t> rows) const noexcept {
    if (bytes_ == nullptr) return;
    const std::int64_t width = wide_ ? sizeof(std::uint64_t) : sizeof(std::uint32_t);
    for (const std::int64_t row : rows) {
      if (row >= 0) __builtin_prefetch(bytes_ + row * width);
    }
  }

 private:
  std::int64_t base_ = 0;
  bool wide_ = false;
  const std::byte* bytes_ = nullptr;
  std::shared_ptr<const MappedFile> file_;
};

/// Writes a file of row numbers, 4 bytes each where none is 2^32 or more, else 8. @throws IoError
NumbersFile write_numbers(const std::filesystem::path& folder, std::int64_t shard,
                          std::span<const std::int64_t> numbers);

/// The checksum that a manifest has of such a file. @throws IoError, Cancelled
std::uint64_t numbers_hash(const std::filesystem::path& path, const std::function<bool()>& cancelled = {});

}  // namespace kith::sharded
