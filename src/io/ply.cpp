// Stanford PLY (Turk 1994): a text header of elements and properties, then ascii or binary data in its order.
#include <algorithm>
#include <array>
#include <vector>

#include "core/plural.hpp"
#include "io/bytes.hpp"
#include "io/format.hpp"
#include "io/ply.hpp"
#include "io/points.hpp"
#include "io/source_stream.hpp"
#include "io/text.hpp"

namespace kith::io {
namespace {

using ply::Element;
using ply::Header;
using ply::Property;

// Vertices with lists differ in size.
class VerticesWithLists final : public WalkedStream {
 public:
  VerticesWithLists(const Source& source, Header header, std::uint64_t offset)
      : WalkedStream(source, static_cast<std::int64_t>(header.elements[header.vertex].count),
                     dtype_of(ply::columns_of(header))),
        header_(std::move(header)) {
    begin_at({0, offset, 0});
  }

 private:
  void walk(RowPlace& place, std::byte* to) override {
    starts_.clear();
    const std::uint64_t bytes =
        ply::measure(source_, header_.elements[header_.vertex], static_cast<std::uint64_t>(place.row),
                     place.offset, header_.swap(), &starts_);
    if (to != nullptr) {
      std::array<Column, 3> xyz = ply::columns_of(header_);
      for (std::size_t axis = 0; axis < 3; ++axis) {
        xyz[axis].offset = starts_[header_.xyz[axis]] - place.offset;
      }
      gather_points(data() + place.offset, bytes, 1, xyz, header_.swap(), to);
    }
    place.offset += bytes;
    ++place.row;
  }
  Header header_;
  std::vector<std::uint64_t> starts_;
};

class AsciiVertices final : public WalkedStream {
 public:
  AsciiVertices(const Source& source, Header header)
      : WalkedStream(source, static_cast<std::int64_t>(header.elements[header.vertex].count),
                     dtype_of(ply::columns_of(header))),
        header_(std::move(header)) {
    begin_at({0, ply::vertices_of(source_, header_), 0});
  }

 private:
  void walk(RowPlace& place, std::byte* to) override {
    std::string_view rest = source_.text().substr(place.offset);
    const auto take = [&]<class T>(T, std::size_t property, std::string_view token) {
      for (std::size_t axis = 0; axis < 3; ++axis) {
        if (header_.xyz[axis] != property) continue;
        const auto value = parse_number<T>(token);
        if (!value) {
          throw bad_file(source_, "is corrupt: vertex {} has '{}', which is no number", place.row,
                         token.substr(0, 40));
        }
        std::memcpy(to + axis * sizeof(T), &*value, sizeof(T));
      }
    };
    ply::walk_ascii(source_, header_.elements[header_.vertex], static_cast<std::uint64_t>(place.row), rest,
                    [&](std::size_t property, std::string_view token) {
                      if (to == nullptr) return;
                      dtype_ == Dtype::f32 ? take(float{}, property, token) : take(double{}, property, token);
                    });
    place.offset = source_.size() - rest.size();
    ++place.row;
  }
  Header header_;
};

}  // namespace

bool is_ply(const Source& source) {
  return source.starts_with("ply\n") || source.starts_with("ply\r\n");
}

FileInfo inspect_ply(const Source& source) {
  const Header header = ply::parse_header(source);
  const Element& vertex = header.elements[header.vertex];
  FileInfo info;
  info.element_type = name(dtype_of(ply::columns_of(header)));
  info.rows = static_cast<std::int64_t>(vertex.count);
  info.dim = 3;
  info.details.emplace_back("encoding", header.encoding);
  std::string properties;
  for (const Property& property : vertex.properties) {
    properties += (properties.empty() ? "" : " ") + property.name;
  }
  info.details.emplace_back("properties", properties);
  for (const Element& element : header.elements) {
    if (&element != &vertex)
      info.details.emplace_back("element " + element.name, std::to_string(element.count));
  }
  // Where lists come in, only reading tells the end.
  std::uint64_t end = header.offset;
  bool known = header.encoding != "ascii";
  for (const Element& element : header.elements) {
    const auto bytes = total_bytes(element.count, element.least_bytes);
    known = known && !element.has_list && bytes && *bytes <= source.size() - end;
    if (known) end += *bytes;
  }
  if (known) add_trailing(info, source, end);
  return info;
}

std::unique_ptr<PointStream> stream_ply(const Source& source, std::uint64_t /*memory_limit*/) {
  Header header = ply::parse_header(source);
  if (header.encoding == "ascii") return std::make_unique<AsciiVertices>(source, std::move(header));
  const std::uint64_t at = ply::vertices_of(source, header);
  const Element& vertex = header.elements[header.vertex];
  if (vertex.has_list) return std::make_unique<VerticesWithLists>(source, std::move(header), at);
  if (!fits(vertex.count, vertex.least_bytes, source.size() - at)) throw ply::ends_inside(source, vertex, 0);
  return stream_records(source, static_cast<std::int64_t>(vertex.count), at, vertex.least_bytes,
                        ply::columns_of(header), header.swap());
}

Dataset read_ply(const Source& source, const ReadOptions& options) {
  const std::unique_ptr<PointStream> stream = stream_ply(source, 0);
  return read_rows(*stream, source, options);
}

void write_ply(AtomicFile& out, const DatasetView& data) {
  write_ply_columns(out, data, {});
}

std::string ply_header(std::int64_t rows, Dtype dtype, const std::vector<std::string>& names,
                       Dtype column_type) {
  const auto type = [](Dtype of) { return of == Dtype::f32 ? "float" : "double"; };
  std::string header = fmt::format(
      "ply\nformat binary_little_endian 1.0\nelement vertex {0}\nproperty {1} x\nproperty {1} y\n"
      "property {1} z\n",
      rows, type(dtype));
  for (const std::string& name : names) header += fmt::format("property {} {}\n", type(column_type), name);
  return header + "end_header\n";
}

void write_ply_columns(AtomicFile& out, const DatasetView& data, const PointColumns& columns) {
  check_points("ply", data);
  check_columns("ply", data, columns);
  out.write(ply_header(data.rows, data.dtype, columns.names, columns.values.dtype));
  write_records(out, data, columns);
}

}  // namespace kith::io
