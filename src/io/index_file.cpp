// Saved indexes on disk.
#include "io/index_file.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>

#include <fmt/format.h>
#include <xxhash.h>
#include <nlohmann/json.hpp>

#include "core/atomic_file.hpp"
#include "core/plural.hpp"
#include "io/format.hpp"
#include "io/stream_file.hpp"
#include "kith/error.hpp"
#include "kith/version.hpp"

namespace kith {
namespace {

constexpr std::string_view magic = "KITHIDX\n";
constexpr std::uint64_t prefix_bytes = 32;
constexpr std::uint64_t alignment = 4096;
constexpr std::uint64_t largest_header = std::uint64_t{1} << 28U;

std::uint64_t aligned(std::uint64_t offset) {
  return (offset + alignment - 1) / alignment * alignment;
}

std::string hex(std::uint64_t hash) {
  return fmt::format("{:016x}", hash);
}

struct HashState {
  XXH3_state_t* state = XXH3_createState();
  HashState() { XXH3_64bits_reset(state); }
  HashState(const HashState&) = delete;
  HashState& operator=(const HashState&) = delete;
  ~HashState() { XXH3_freeState(state); }
};

// @throws Cancelled
void update(XXH3_state_t* state, const void* data, std::size_t count,
            const std::function<bool()>& cancelled) {
  constexpr std::size_t piece = std::size_t{1} << 26U;
  const auto* bytes = static_cast<const std::byte*>(data);
  for (std::size_t at = 0; at < count; at += piece) {
    XXH3_64bits_update(state, bytes + at, std::min(piece, count - at));
    if (cancelled && cancelled()) throw Cancelled("checking an index's bytes was cancelled");
  }
}

// A header whose length in bytes does not depend on the offsets in it: they are written as fixed-width text.
std::string fixed(std::uint64_t value) {
  return fmt::format("{:020}", value);
}

std::uint64_t parse_fixed(const nlohmann::json& value) {
  const auto& text = value.get_ref<const std::string&>();
  if (text.size() != 20 || text.find_first_not_of("0123456789") != std::string::npos)
    throw std::invalid_argument(text);
  return std::stoull(text);
}

}  // namespace

IndexSection bytes_section(std::string name, std::span<const std::byte> bytes) {
  return {std::move(name), bytes.size(), [bytes](const std::function<void(const void*, std::size_t)>& sink) {
            sink(bytes.data(), bytes.size());
          }};
}

IndexSection rows_section(const DatasetView& rows) {
  const auto row_bytes = static_cast<std::size_t>(rows.dim) * size_of(rows.dtype);
  return {"dataset", static_cast<std::uint64_t>(rows.rows) * row_bytes,
          [rows, row_bytes](const std::function<void(const void*, std::size_t)>& sink) {
            if (rows.contiguous()) {
              sink(rows.data, static_cast<std::size_t>(rows.rows) * row_bytes);
            } else {
              for (std::int64_t i = 0; i < rows.rows; ++i) sink(rows.row(i), row_bytes);
            }
          }};
}

void write_index_file(const std::filesystem::path& path, nlohmann::json header,
                      const std::vector<IndexSection>& sections, const std::function<bool()>& cancelled) {
  const io::Format* told = io::format_by_extension(path);
  if (told != nullptr && told->format != FileFormat::index) {
    throw InvalidArgument(fmt::format(
        "cannot write an index to '{}': '{}' is the extension of {} files, as which it could not be read "
        "again; use .kith, or no extension",
        path.string(), path.extension().string(), told->name));
  }
  AtomicFile out(path, cancelled);
  auto& table = header["sections"] = nlohmann::json::array();
  for (const IndexSection& section : sections) {
    HashState hash;
    std::uint64_t bytes = 0;
    section.produce([&](const void* data, std::size_t count) {
      update(hash.state, data, count, cancelled);
      bytes += count;
    });
    if (bytes != section.bytes)
      throw IoError(fmt::format("section '{}' changed while it was saved", section.name));
    table.push_back({{"name", section.name},
                     {"offset", fixed(0)},
                     {"bytes", fixed(section.bytes)},
                     {"xxh3", hex(XXH3_64bits_digest(hash.state))}});
  }
  std::uint64_t offset = aligned(prefix_bytes + header.dump().size());
  for (auto& entry : table) {
    entry["offset"] = fixed(offset);
    offset = aligned(offset + parse_fixed(entry["bytes"]));
  }
  const std::string text = header.dump();

  const std::uint32_t version = index_file_version;
  const std::uint32_t reserved = 0;
  const std::uint64_t length = text.size();
  const std::uint64_t checksum = XXH3_64bits(text.data(), text.size());
  out.write(magic);
  out.write(&version, sizeof version);
  out.write(&reserved, sizeof reserved);
  out.write(&length, sizeof length);
  out.write(&checksum, sizeof checksum);
  out.write(text);
  static constexpr std::array<char, alignment> zeros{};
  for (const IndexSection& section : sections) {
    out.write(zeros.data(), aligned(out.size()) - out.size());
    section.produce([&](const void* data, std::size_t count) { out.write(data, count); });
  }
  out.commit();
}

bool IndexFile::is_index_file(const std::filesystem::path& path) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return false;  // a pipe would be waited for
  std::ifstream in(path, std::ios::binary);
  std::array<char, 8> start{};
  in.read(start.data(), start.size());
  return in.gcount() == 8 && std::string_view(start.data(), start.size()) == magic;
}

IndexFile IndexFile::open(const std::filesystem::path& path, bool verify_sections,
                          const std::function<bool()>& cancelled) {
  IndexFile result;
  result.path_ = io::shown_name(path);
  result.file_ = MappedFile::open(path);
  const auto bytes = result.file_->bytes();
  const auto fail = [&](const std::string& why) -> IoError {
    return IoError(fmt::format("'{}' {}", result.path_.string(), why));
  };
  if (bytes.size() < magic.size() || std::memcmp(bytes.data(), magic.data(), magic.size()) != 0) {
    throw fail("is not a Kith index: it does not start with KITHIDX; build and save one first");
  }
  if (bytes.size() < prefix_bytes) throw fail("is truncated: the file ends inside the first 32 bytes");
  std::uint32_t version = 0;
  std::uint64_t length = 0;
  std::uint64_t checksum = 0;
  std::memcpy(&version, bytes.data() + 8, sizeof version);
  std::memcpy(&length, bytes.data() + 16, sizeof length);
  std::memcpy(&checksum, bytes.data() + 24, sizeof checksum);
  if (version == 0 || version > index_file_version) {
    throw fail(fmt::format("has index format version {}; this Kith reads 1 to {}; use a newer Kith", version,
                           index_file_version));
  }
  if (length > largest_header || length > bytes.size() - prefix_bytes) {
    throw fail(fmt::format("is truncated or corrupt: its header claims {} bytes, the file has {}", length,
                           bytes.size()));
  }
  const char* text = reinterpret_cast<const char*>(bytes.data() + prefix_bytes);
  if (XXH3_64bits(text, length) != checksum) throw fail("is corrupt: the header does not match its checksum");
  result.version_ = version;
  // What no checksum covers is zero.
  const auto expect_zeros = [&](std::uint64_t from, std::uint64_t to) {
    for (std::uint64_t i = from; i < to; ++i) {
      if (bytes[i] != std::byte{0}) throw fail(fmt::format("is corrupt: its unused byte {} is not 0", i));
    }
  };
  expect_zeros(12, 16);
  try {
    result.header_ = std::make_shared<const nlohmann::json>(nlohmann::json::parse(text, text + length));
    (void)result.header_->at("index").get_ref<const std::string&>();
    std::uint64_t end = prefix_bytes + length;
    for (const auto& entry : result.header_->at("sections")) {
      const auto section_name = entry.at("name").get<std::string>();
      const std::uint64_t offset = parse_fixed(entry.at("offset"));
      const std::uint64_t size = parse_fixed(entry.at("bytes"));
      if (offset % alignment != 0) {
        throw fail(fmt::format("is corrupt: section '{}' starts at {}, which is no multiple of {}",
                               section_name, offset, alignment));
      }
      if (offset > bytes.size() || size > bytes.size() - offset) {
        throw fail(fmt::format("is truncated: section '{}' needs {} bytes from offset {}, the file has {}",
                               section_name, size, offset, bytes.size()));
      }
      if (offset < end)
        throw fail(fmt::format("is corrupt: section '{}' overlaps what precedes it", section_name));
      expect_zeros(end, offset);
      end = offset + size;
      if (!verify_sections) continue;
      HashState hash;
      update(hash.state, bytes.data() + offset, size, cancelled);
      if (hex(XXH3_64bits_digest(hash.state)) != entry.at("xxh3").get<std::string>()) {
        throw fail(fmt::format("is corrupt: section '{}' does not match its checksum", section_name));
      }
    }
    if (end != bytes.size()) {
      throw fail(fmt::format("is corrupt: {} after its last section; copy or build it again",
                             plural(static_cast<std::int64_t>(bytes.size() - end), "byte")));
    }
  } catch (const nlohmann::json::exception& error) {
    throw fail(fmt::format("is corrupt: its header is not what Kith writes ({})", error.what()));
  } catch (const std::logic_error& error) {
    throw fail(fmt::format("is corrupt: a size in its header is not a number ({})", error.what()));
  }
  return result;
}

std::span<const std::byte> IndexFile::section(std::string_view name) const {
  for (const auto& entry : header_->at("sections")) {
    if (entry.at("name").get<std::string>() == name) {
      return file_->bytes().subspan(parse_fixed(entry.at("offset")), parse_fixed(entry.at("bytes")));
    }
  }
  throw IoError(fmt::format("'{}' is corrupt: it has no section '{}'", path_.string(), name));
}

}  // namespace kith
