// Point Cloud Library's PCD (versions 0.6 and 0.7): a text header, then ascii, binary or compressed data.
// binary_compressed: u32 compressed and u32 uncompressed size, then LZF of all x, then all y, ...
#include <algorithm>
#include <vector>

#include "core/plural.hpp"
#include "io/bytes.hpp"
#include "io/format.hpp"
#include "io/lzf.hpp"
#include "io/points.hpp"
#include "io/source_stream.hpp"
#include "io/text.hpp"

namespace kith::io {
namespace {

struct Field {
  std::string name;
  std::uint64_t bytes = 4;
  char type = 'F';
  std::uint64_t count = 1;
  std::uint64_t offset = 0;  // in a record
  std::uint64_t column = 0;  // in an ascii line
};

struct Header {
  std::string version;
  std::vector<Field> fields;
  std::optional<std::uint64_t> width;
  std::optional<std::uint64_t> height;
  std::uint64_t points = 0;
  std::string viewpoint;
  std::string encoding;
  std::uint64_t offset = 0;  // of the data
  std::uint64_t record_bytes = 0;
  std::uint64_t columns = 0;
  std::array<std::size_t, 3> xyz{};
};

std::uint64_t number(const Source& source, std::string_view what, std::string_view token) {
  const auto value = parse_number<std::int64_t>(token);
  if (!value || *value < 0) {
    throw bad_file(source, "is corrupt: its header says {} '{}'; a number of 0 to 2^63 - 1 is needed", what,
                   token);
  }
  return static_cast<std::uint64_t>(*value);
}

// SIZE, TYPE and COUNT have one entry a field.
template <class Set>
void per_field(const Source& source, Header& header, std::string_view key, std::string_view rest, Set&& set) {
  for (Field& field : header.fields) {
    const std::string_view token = take_token(rest);
    if (token.empty()) throw bad_file(source, "is corrupt: {} has fewer entries than FIELDS", key);
    set(field, token);
  }
  if (header.fields.empty() || !take_token(rest).empty()) {
    throw bad_file(source, "is corrupt: {} has more entries than FIELDS", key);
  }
}

void lay_out(const Source& source, Header& header) {
  for (Field& field : header.fields) {
    const bool size_known = field.bytes == 1 || field.bytes == 2 || field.bytes == 4 || field.bytes == 8;
    const bool type_known = field.type == 'F' || field.type == 'I' || field.type == 'U';
    if (!size_known || !type_known || field.count > (std::uint64_t{1} << 32U)) {
      throw bad_file(
          source,
          "is corrupt: field '{}' has SIZE {}, TYPE {}, COUNT {}; sizes are 1, 2, 4 or 8, types F, I "
          "or U, counts at most 2^32",
          field.name, field.bytes, field.type, field.count);
    }
    field.offset = header.record_bytes;
    field.column = header.columns;
    header.record_bytes += field.bytes * field.count;
    header.columns += field.count;
  }
  constexpr std::array<std::string_view, 3> names = {"x", "y", "z"};
  for (std::size_t axis = 0; axis < 3; ++axis) {
    const auto found = std::find_if(header.fields.begin(), header.fields.end(),
                                    [&](const Field& field) { return field.name == names[axis]; });
    if (found == header.fields.end()) {
      throw bad_file(source, "has no field '{}'; Kith reads clouds with x, y and z", names[axis]);
    }
    if (found->type != 'F' || found->bytes < 4 || found->count != 1) {
      throw bad_file(source, "has '{}' as TYPE {}, SIZE {}, COUNT {}; Kith reads F of 4 or 8, one each",
                     names[axis], found->type, found->bytes, found->count);
    }
    header.xyz[axis] = static_cast<std::size_t>(found - header.fields.begin());
  }
}

Header parse(const Source& source) {
  if (source.size() == 0) throw bad_file(source, "is empty");
  if (!is_pcd(source))
    throw bad_file(source, "is not PCD: it starts neither with '# .PCD' nor with a PCD keyword");
  Header header;
  std::optional<std::uint64_t> points;
  std::string_view rest = source.text();
  while (header.encoding.empty()) {
    if (rest.empty()) throw bad_file(source, "is truncated: its header has no DATA line");
    const bool whole = rest.find('\n') != std::string_view::npos;
    std::string_view line = take_line(rest);
    const std::string_view key = take_token(line);
    if (key.empty() || key.front() == '#') continue;
    if (!whole && key == "DATA") throw bad_file(source, "is truncated: it ends inside the DATA line");
    if (key == "VERSION") {
      header.version = take_token(line);
    } else if (key == "FIELDS" || key == "COLUMNS") {
      header.fields.clear();
      for (auto token = take_token(line); !token.empty(); token = take_token(line)) {
        Field field;
        field.name = token;
        header.fields.push_back(field);
      }
    } else if (key == "SIZE") {
      per_field(source, header, key, line,
                [&](Field& field, std::string_view token) { field.bytes = number(source, "SIZE", token); });
    } else if (key == "TYPE") {
      per_field(source, header, key, line, [&](Field& field, std::string_view token) {
        field.type = token.size() == 1 ? token.front() : '?';
      });
    } else if (key == "COUNT") {
      per_field(source, header, key, line,
                [&](Field& field, std::string_view token) { field.count = number(source, "COUNT", token); });
    } else if (key == "WIDTH") {
      header.width = number(source, key, take_token(line));
    } else if (key == "HEIGHT") {
      header.height = number(source, key, take_token(line));
    } else if (key == "POINTS") {
      points = number(source, key, take_token(line));
    } else if (key == "VIEWPOINT") {
      header.viewpoint = line.empty() ? "" : line.substr(1);
    } else if (key == "DATA") {
      header.encoding = take_token(line);
    } else {
      throw bad_file(source, "is corrupt: its header has a line '{}', which PCD does not know",
                     key.substr(0, 40));
    }
  }
  header.offset = source.size() - rest.size();
  if (header.encoding != "ascii" && header.encoding != "binary" && header.encoding != "binary_compressed") {
    throw bad_file(source, "has DATA '{}'; Kith reads ascii, binary and binary_compressed", header.encoding);
  }
  lay_out(source, header);
  if (header.width && header.height) {
    const auto product = total_bytes(*header.width, *header.height);
    if (!product || (points && *points != *product)) {
      throw bad_file(source, "is corrupt: WIDTH {} x HEIGHT {} is not POINTS {}", *header.width,
                     *header.height, points.value_or(0));
    }
    points = product;
  }
  if (!points) throw bad_file(source, "is corrupt: its header has neither POINTS nor WIDTH and HEIGHT");
  header.points = *points;
  check_shape(source, header.points, 3);
  // An ascii number takes two bytes with its separator, the very last one may do with one.
  const std::uint64_t available = source.size() - header.offset;
  const bool enough = header.encoding == "binary_compressed" ? available >= 8 || header.points == 0
                      : header.encoding == "binary" ? fits(header.points, header.record_bytes, available)
                                                    : fits(header.points, 2 * header.columns, available + 1);
  if (!enough) {
    throw bad_file(source,
                   "is truncated or corrupt: its header claims {} of {} bytes, the file has {} for them",
                   plural(static_cast<std::int64_t>(header.points), "point"), header.record_bytes,
                   plural(static_cast<std::int64_t>(available), "byte"));
  }
  return header;
}

std::array<Column, 3> columns_of(const Header& header) {
  std::array<Column, 3> xyz;
  for (std::size_t axis = 0; axis < 3; ++axis) {
    const Field& field = header.fields[header.xyz[axis]];
    xyz[axis] = {field.offset, field.bytes, 'f'};
  }
  return xyz;
}

class AsciiPoints final : public WalkedStream {
 public:
  AsciiPoints(const Source& source, Header header)
      : WalkedStream(source, static_cast<std::int64_t>(header.points), dtype_of(columns_of(header))),
        header_(std::move(header)) {
    begin_at({0, header_.offset, 0});
  }

 private:
  void walk(RowPlace& place, std::byte* to) override {
    std::string_view rest = source_.text().substr(place.offset);
    std::string_view line;
    std::string_view token;
    while (token.empty()) {
      pass_.reached(rest.data());
      if (rest.empty()) {
        throw bad_file(source_, "is truncated: its header claims {}, the file ends after {}",
                       plural(static_cast<std::int64_t>(header_.points), "point"), place.row);
      }
      line = take_line(rest);
      token = take_token(line);
    }
    for (std::uint64_t column = 0; column < header_.columns; ++column, token = take_token(line)) {
      if (token.empty()) {
        throw bad_file(source_, "is truncated or corrupt: point {} has {} of {} numbers", place.row, column,
                       header_.columns);
      }
      for (std::size_t axis = 0; axis < 3 && to != nullptr; ++axis) {
        if (header_.fields[header_.xyz[axis]].column != column) continue;
        dtype_ == Dtype::f32 ? store<float>(place.row, token, to + 4 * axis)
                             : store<double>(place.row, token, to + 8 * axis);
      }
    }
    place.offset = source_.size() - rest.size();
    ++place.row;
  }
  template <class T>
  void store(std::int64_t row, std::string_view token, std::byte* to) const {
    const auto value = parse_number<T>(token);
    if (!value) throw bad_file(source_, "is corrupt: point {} has '{}', which is no number", row, token);
    std::memcpy(to, &*value, sizeof(T));
  }
  Header header_;
};

// Field after field, each as long as all points need, and all of it one LZF block: unpacked whole when rows
// are first asked for, and let go after the last of them.
class CompressedPoints final : public SourceStream {
 public:
  CompressedPoints(const Source& source, Header header, std::uint64_t limit)
      : SourceStream(source, static_cast<std::int64_t>(header.points), 3, dtype_of(columns_of(header))),
        header_(std::move(header)),
        limit_(limit) {
    if (header_.points > 0) check_sizes();  // before anybody takes memory for so many points
  }
  void seek(std::int64_t row) override {
    next_ = row;
    if (row == rows_) raw_ = {};
  }
  void read(void* out, std::int64_t count) override {
    if (count == 0) return;
    if (raw_.rows() == 0) unpack();
    const std::array<Column, 3> xyz = columns_of(header_);
    const auto* fields = static_cast<const std::byte*>(raw_.view().data);
    auto* to = static_cast<std::byte*>(out);
    for (std::int64_t i = next_; i < next_ + count; ++i) {
      for (const Column& column : xyz) {
        const std::byte* value =
            fields + column.offset * header_.points + static_cast<std::uint64_t>(i) * column.bytes;
        if (column.bytes == size_of(dtype_)) {
          std::memcpy(to, value, column.bytes);
        } else {
          const double wide = load<float>(value);
          std::memcpy(to, &wide, sizeof wide);
        }
        to += size_of(dtype_);
      }
    }
    seek(next_ + count);
  }

 private:
  void check_sizes() {
    const std::byte* at = data() + header_.offset;
    compressed_ = load<std::uint32_t>(at);
    const std::uint64_t uncompressed = load<std::uint32_t>(at + 4);
    const std::uint64_t available = source_.size() - header_.offset - 8;
    const auto needed = total_bytes(header_.points, header_.record_bytes);
    if (compressed_ > available || !needed || *needed != uncompressed ||
        uncompressed / lzf_largest_ratio > compressed_) {
      throw bad_file(
          source_,
          "is truncated or corrupt: {} points of {} bytes from {} compressed to {} bytes are claimed, {} "
          "bytes are there",
          header_.points, header_.record_bytes, compressed_, uncompressed, available);
    }
    uncompressed_ = uncompressed;
  }
  void unpack() {
    const std::byte* at = data() + header_.offset;
    if (limit_ > 0 && uncompressed_ > limit_) {
      throw OutOfMemory(
          fmt::format("'{}' is one compressed block, which is unpacked whole: it takes {} bytes, the limit "
                      "leaves {} for them; raise the limit, or make an npy of it (kith convert), which is "
                      "read in blocks",
                      source_.name, uncompressed_, limit_));
    }
    raw_ = Dataset::allocate(Dtype::u8, 1, static_cast<std::int64_t>(uncompressed_));
    auto* bytes = static_cast<std::byte*>(raw_.mutable_data());
    if (!lzf_decompress({at + 8, compressed_}, {bytes, uncompressed_})) {
      raw_ = {};
      throw bad_file(source_, "is corrupt: its compressed data do not decompress to the {} bytes claimed",
                     uncompressed_);
    }
    pass_.jump(at + compressed_, at);
  }
  std::uint64_t compressed_ = 0;
  std::uint64_t uncompressed_ = 0;
  Header header_;
  std::uint64_t limit_;
  Dataset raw_;
};

}  // namespace

bool is_pcd(const Source& source) {
  for (const std::string_view magic : {"# .PCD", "VERSION .7", "VERSION 0.7", "VERSION .6", "VERSION 0.6"}) {
    if (source.starts_with(magic)) return true;
  }
  return false;
}

FileInfo inspect_pcd(const Source& source) {
  const Header header = parse(source);
  FileInfo info;
  info.element_type = name(dtype_of(columns_of(header)));
  info.rows = static_cast<std::int64_t>(header.points);
  info.dim = 3;
  std::string fields;
  for (const Field& field : header.fields) fields += (fields.empty() ? "" : " ") + field.name;
  info.details.emplace_back("version", header.version);
  info.details.emplace_back("encoding", header.encoding);
  info.details.emplace_back("fields", fields);
  if (header.width && header.height) {
    info.details.emplace_back("width x height", fmt::format("{} x {}", *header.width, *header.height));
  }
  if (!header.viewpoint.empty()) info.details.emplace_back("viewpoint", header.viewpoint);
  // PCL and Open3D read such files, too.
  std::uint64_t end = source.size();
  if (header.encoding == "binary") end = header.offset + header.points * header.record_bytes;
  if (header.encoding == "binary_compressed" && source.size() - header.offset >= 8) {
    end = header.offset + 8 + load<std::uint32_t>(source.bytes.data() + header.offset);
  }
  add_trailing(info, source, end);
  return info;
}

std::unique_ptr<PointStream> stream_pcd(const Source& source, std::uint64_t memory_limit) {
  Header header = parse(source);
  if (header.encoding == "ascii") return std::make_unique<AsciiPoints>(source, std::move(header));
  if (header.encoding == "binary_compressed") {
    return std::make_unique<CompressedPoints>(source, std::move(header), memory_limit);
  }
  return stream_records(source, static_cast<std::int64_t>(header.points), header.offset, header.record_bytes,
                        columns_of(header), false);
}

Dataset read_pcd(const Source& source, const ReadOptions& options) {
  const std::unique_ptr<PointStream> stream = stream_pcd(source, 0);
  return read_rows(*stream, source, options);
}

void write_pcd(AtomicFile& out, const DatasetView& data) {
  write_pcd_columns(out, data, {});
}

std::string pcd_header(std::int64_t rows, Dtype dtype, const std::vector<std::string>& names,
                       Dtype column_type) {
  std::string fields = "FIELDS x y z";
  std::string sizes = "SIZE";
  std::string types = "TYPE F F F";
  std::string counts = "COUNT 1 1 1";
  for (int axis = 0; axis < 3; ++axis) sizes += fmt::format(" {}", size_of(dtype));
  for (const std::string& name : names) {
    fields += " " + name;
    sizes += fmt::format(" {}", size_of(column_type));
    types += " F";
    counts += " 1";
  }
  return fmt::format(
      "# .PCD v0.7 - Point Cloud Data file format\nVERSION 0.7\n{}\n{}\n{}\n{}\nWIDTH {}\n"
      "HEIGHT 1\nVIEWPOINT 0 0 0 1 0 0 0\nPOINTS {}\nDATA binary\n",
      fields, sizes, types, counts, rows, rows);
}

void write_pcd_columns(AtomicFile& out, const DatasetView& data, const PointColumns& columns) {
  check_points("pcd", data);
  check_columns("pcd", data, columns);
  out.write(pcd_header(data.rows, data.dtype, columns.names, columns.values.dtype));
  write_records(out, data, columns);
}

}  // namespace kith::io
