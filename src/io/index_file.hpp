// The one file format of every saved index: magic, version, JSON header, aligned sections, XXH3 each.
//
//   offset 0   8 bytes   magic "KITHIDX\n"
//   offset 8   u32 LE    format version
//   offset 12  u32 LE    reserved, 0
//   offset 16  u64 LE    header length in bytes
//   offset 24  u64 LE    XXH3-64 of the header
//   offset 32            JSON header: {"index": ..., "sections": [{"name","offset","bytes","xxh3"}], ...}
//   then       sections, each at a multiple of 4096 bytes, zero-padded between
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "core/mapped_file.hpp"
#include "kith/dataset.hpp"

namespace kith {

/// One section to write: its bytes come in pieces so that strided data need no copy.
struct IndexSection {
  std::string name;
  std::uint64_t bytes = 0;
  /// Calls its argument with consecutive pieces that add up to `bytes`; called twice (checksum, write).
  std::function<void(const std::function<void(const void*, std::size_t)>&)> produce;
};

/// A section of bytes that lie in memory, which must stay there until it is written.
IndexSection bytes_section(std::string name, std::span<const std::byte> bytes);
/// The section "dataset": rows in host memory, one after the other whatever their stride.
IndexSection rows_section(const DatasetView& rows);

/// Writes whole or not at all. `header` gets the sections added. `cancelled` is polled.
/// @throws IoError, Cancelled
void write_index_file(const std::filesystem::path& path, nlohmann::json header,
                      const std::vector<IndexSection>& sections, const std::function<bool()>& cancelled = {});

/// An opened index file.
class IndexFile {
 public:
  /// Checks magic, version, header and (where asked) every section's checksum. `cancelled` is polled.
  /// @throws IoError naming what is wrong, Cancelled
  static IndexFile open(const std::filesystem::path& path, bool verify_sections = true,
                        const std::function<bool()>& cancelled = {});

  unsigned version() const noexcept { return version_; }
  const nlohmann::json& header() const noexcept { return *header_; }
  /// Bytes of a section. @throws IoError when there is none of that name
  std::span<const std::byte> section(std::string_view name) const;
  const std::shared_ptr<const MappedFile>& file() const noexcept { return file_; }

  /// True when the file starts with the magic.
  static bool is_index_file(const std::filesystem::path& path);

 private:
  std::filesystem::path path_;
  std::shared_ptr<const MappedFile> file_;
  std::shared_ptr<const nlohmann::json> header_;
  unsigned version_ = 0;
};

}  // namespace kith
