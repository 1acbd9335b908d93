#include "io/las_extra_bytes.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

#include "io/bytes.hpp"

namespace kith::io::las {
namespace {

constexpr std::uint64_t record_header_bytes = 54;
constexpr std::uint64_t extended_header_bytes = 60;
constexpr std::uint64_t descriptor_bytes = 192;
constexpr std::uint64_t most_bytes = std::numeric_limits<std::uint16_t>::max();  // of a record, of a point
constexpr unsigned undocumented = 0;
constexpr unsigned largest_type = 30;
constexpr unsigned f32_type = 9;
constexpr unsigned f64_type = 10;

bool describes_extra_bytes(const std::byte* record) {
  return std::memcmp(record + 2, "LASF_Spec\0", 10) == 0 && load<std::uint16_t>(record + 18) == 4;
}

// Bytes of a described attribute: ten types, and arrays of two and of three of them. 0: not known.
std::uint64_t bytes_of(const std::byte* descriptor) {
  constexpr std::array<std::uint64_t, 10> sizes = {1, 1, 2, 2, 4, 4, 8, 8, 4, 8};
  const auto type = std::to_integer<unsigned>(descriptor[2]);
  if (type == undocumented) return std::to_integer<std::uint64_t>(descriptor[3]);
  if (type > largest_type) return 0;
  return sizes[(type - 1) % 10] * ((type - 1) / 10 + 1);
}

std::string name_of(const std::byte* descriptor) {
  const auto* text = reinterpret_cast<const char*>(descriptor + 4);
  return {text, std::find(text, text + 32, '\0')};
}

std::vector<std::byte> describe(unsigned type, unsigned options, const std::string& name) {
  std::vector<std::byte> descriptor(descriptor_bytes);
  descriptor[2] = static_cast<std::byte>(type);
  descriptor[3] = static_cast<std::byte>(options);
  std::memcpy(descriptor.data() + 4, name.data(), name.size());
  return descriptor;
}

// Where the variable length records before the points lie.
struct Records {
  std::uint64_t end = 0;           // of the last
  std::uint64_t described_at = 0;  // the one that describes extra bytes; 0: none
  std::uint64_t described = 0;     // bytes of its content
};

Records find_records(const Source& source, const Header& header) {
  const std::byte* data = source.bytes.data();
  Records records{header.bytes};
  const auto count = load<std::uint32_t>(data + 100);
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint64_t left = header.offset - records.end;
    const std::uint64_t content =
        left < record_header_bytes ? 0 : load<std::uint16_t>(data + records.end + 20);
    if (left < record_header_bytes || content > left - record_header_bytes) {
      throw bad_file(source, "is corrupt: record {} of the {} that its header names reaches into the points",
                     i, count);
    }
    if (describes_extra_bytes(data + records.end)) {
      if (records.described_at != 0) throw bad_file(source, "is corrupt: it describes its extra bytes twice");
      records.described_at = records.end;
      records.described = content;
    }
    records.end += record_header_bytes + content;
  }
  return records;
}

// A description behind the points is one that other programs look for there.
void refuse_extended_description(const Source& source, const Header& header) {
  if (header.minor < 4 || header.bytes < header_bytes_1_4) return;
  const std::byte* data = source.bytes.data();
  auto at = load<std::uint64_t>(data + 235);
  const auto count = load<std::uint32_t>(data + 243);
  for (std::uint32_t i = 0; i < count; ++i) {
    if (at > source.size() || source.size() - at < extended_header_bytes) {
      throw bad_file(source,
                     "is truncated or corrupt: it has {} bytes, extended record {} of {} begins at {}",
                     source.size(), i, count, at);
    }
    if (describes_extra_bytes(data + at)) {
      throw bad_file(
          source,
          "describes its extra bytes in an extended record, to which Kith adds none; write it anew "
          "with a variable length record for them, for example by 'pdal translate'");
    }
    const auto content = load<std::uint64_t>(data + at + 20);
    if (content > source.size() - at - extended_header_bytes) {
      throw bad_file(source, "is truncated or corrupt: extended record {} of {} claims {} bytes", i, count,
                     content);
    }
    at += extended_header_bytes + content;
  }
}

// The descriptions that stay, and what stays of a point.
std::vector<std::byte> keep_described(const Source& source, const Header& header, const Records& records,
                                      const std::vector<std::string>& names, std::vector<Piece>& kept) {
  std::uint64_t at = record_sizes[header.point_format];
  kept = {{0, at}};
  std::vector<std::byte> descriptors;
  for (std::uint64_t d = 0; d + descriptor_bytes <= records.described; d += descriptor_bytes) {
    const std::byte* one = source.bytes.data() + records.described_at + record_header_bytes + d;
    const std::uint64_t bytes = bytes_of(one);
    if (bytes > header.record_bytes - at ||
        (bytes == 0 && std::to_integer<unsigned>(one[2]) > largest_type)) {
      throw bad_file(source, "is corrupt: its points have {} extra bytes, '{}' of them is not among these",
                     header.record_bytes - record_sizes[header.point_format], name_of(one));
    }
    if (std::ranges::find(names, name_of(one)) == names.end()) {
      descriptors.insert(descriptors.end(), one, one + descriptor_bytes);
      add_piece(kept, {at, bytes});
    }
    at += bytes;
  }
  // What nobody has described stands between those and what is to come, and needs a description.
  add_piece(kept, {at, header.record_bytes - at});
  for (std::uint64_t left = header.record_bytes - at; left > 0;) {
    const std::uint64_t some = std::min<std::uint64_t>(left, 255);
    const auto filler = describe(undocumented, static_cast<unsigned>(some), "");
    descriptors.insert(descriptors.end(), filler.begin(), filler.end());
    left -= some;
  }
  return descriptors;
}

template <class T>
void store(std::vector<std::byte>& bytes, std::size_t offset, T value) {
  std::memcpy(bytes.data() + offset, &value, sizeof value);
}

}  // namespace

Extended extend(const Source& source, const Header& header, const std::vector<std::string>& names,
                Dtype type) {
  for (const std::string& name : names) {
    if (name.size() <= 32) continue;
    throw InvalidArgument(fmt::format(
        "LAS names extra bytes with up to 32 characters, '{}' has {}; shorten it", name, name.size()));
  }
  const Records records = find_records(source, header);
  refuse_extended_description(source, header);
  Extended extended;
  std::vector<std::byte> content = keep_described(source, header, records, names, extended.kept);
  for (const std::string& name : names) {
    const auto one = describe(type == Dtype::f32 ? f32_type : f64_type, 0, name);
    content.insert(content.end(), one.begin(), one.end());
  }
  std::uint64_t record_bytes = names.size() * size_of(type);
  for (const Piece& piece : extended.kept) record_bytes += piece.bytes;
  if (record_bytes > most_bytes || content.size() > most_bytes) {
    throw InvalidArgument(fmt::format(
        "'{}' has no room for {} columns: its points would take {} bytes and their description {}, {} are "
        "the most; add fewer",
        source.name, names.size(), record_bytes, content.size(), most_bytes));
  }
  std::vector<std::byte> record(record_header_bytes);
  const std::byte* data = source.bytes.data();
  const bool there = records.described_at != 0;
  if (there) {
    std::memcpy(record.data(), data + records.described_at, record.size());
  } else {
    std::memcpy(record.data() + 2, "LASF_Spec", 9);
    store(record, 18, std::uint16_t{4});
    std::memcpy(record.data() + 22, "Extra bytes", 11);
  }
  store(record, 20, static_cast<std::uint16_t>(content.size()));
  record.insert(record.end(), content.begin(), content.end());

  const std::uint64_t from = there ? records.described_at : records.end;
  const std::uint64_t to = there ? from + record_header_bytes + records.described : from;
  const std::uint64_t offset = header.offset - (to - from) + record.size();
  if (offset > std::numeric_limits<std::uint32_t>::max()) {
    throw InvalidArgument(
        fmt::format("'{}' has no room for a description of further columns: its points "
                    "would start at byte {}, 4294967295 is the most",
                    source.name, offset));
  }
  std::vector<std::byte>& start = extended.start;
  start.reserve(offset);
  start.assign(data, data + from);
  start.insert(start.end(), record.begin(), record.end());
  start.insert(start.end(), data + to, data + header.offset);
  store(start, 96, static_cast<std::uint32_t>(offset));
  if (!there) store(start, 100, load<std::uint32_t>(data + 100) + 1);
  store(start, 105, static_cast<std::uint16_t>(record_bytes));
  return extended;
}

}  // namespace kith::io::las
