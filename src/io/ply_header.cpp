#include <algorithm>
#include <array>
#include <vector>

#include "core/plural.hpp"
#include "io/bytes.hpp"
#include "io/ply.hpp"

namespace kith::io::ply {
namespace {

std::optional<Column> column_of(std::string_view type) {
  if (type == "char" || type == "int8") return Column{0, 1, 'i'};
  if (type == "uchar" || type == "uint8") return Column{0, 1, 'u'};
  if (type == "short" || type == "int16") return Column{0, 2, 'i'};
  if (type == "ushort" || type == "uint16") return Column{0, 2, 'u'};
  if (type == "int" || type == "int32") return Column{0, 4, 'i'};
  if (type == "uint" || type == "uint32") return Column{0, 4, 'u'};
  if (type == "float" || type == "float32") return Column{0, 4, 'f'};
  if (type == "double" || type == "float64") return Column{0, 8, 'f'};
  return std::nullopt;
}

Column type_of(const Source& source, std::string_view token) {
  const auto column = column_of(token);
  if (!column) throw bad_file(source, "is corrupt: its header names a type '{}'", token.substr(0, 40));
  return *column;
}

void parse_property(const Source& source, Element& element, std::string_view line) {
  Property property;
  std::string_view type = take_token(line);
  if (type == "list") {
    property.list = element.has_list = true;
    property.list_count = type_of(source, take_token(line));
    if (property.list_count.kind == 'f') throw bad_file(source, "is corrupt: a list's length is no integer");
    type = take_token(line);
  }
  property.number = type_of(source, type);
  property.number.offset = element.least_bytes;
  property.name = take_token(line);
  if (property.name.empty() || !take_token(line).empty()) {
    throw bad_file(source, "is corrupt: a property line of its header has no name or too many words");
  }
  element.least_bytes += property.list ? property.list_count.bytes : property.number.bytes;
  element.properties.push_back(std::move(property));
}

void find_vertices(const Source& source, Header& header) {
  const auto vertex = std::find_if(header.elements.begin(), header.elements.end(),
                                   [](const Element& element) { return element.name == "vertex"; });
  if (vertex == header.elements.end()) throw bad_file(source, "has no element 'vertex'; it holds no points");
  header.vertex = static_cast<std::size_t>(vertex - header.elements.begin());
  constexpr std::array<std::string_view, 3> names = {"x", "y", "z"};
  for (std::size_t axis = 0; axis < 3; ++axis) {
    const auto& properties = vertex->properties;
    const auto found = std::find_if(properties.begin(), properties.end(), [&](const Property& property) {
      return property.name == names[axis] && !property.list;
    });
    if (found == properties.end()) {
      throw bad_file(source, "has vertices without '{}'; Kith reads points with x, y and z", names[axis]);
    }
    header.xyz[axis] = static_cast<std::size_t>(found - properties.begin());
  }
}

std::uint64_t list_length(const std::byte* at, const Column& column, bool swap) {
  switch (column.bytes) {
    case 1: return std::to_integer<std::uint64_t>(*at);
    case 2: return load<std::uint16_t>(at, swap);
    default: return load<std::uint32_t>(at, swap);
  }
}

}  // namespace

Header parse_header(const Source& source) {
  if (!is_ply(source)) {
    throw bad_file(source, "{}", source.size() == 0 ? "is empty" : "is not PLY: its first line is not 'ply'");
  }
  Header header;
  std::string_view rest = source.text();
  take_line(rest);
  for (bool ended = false; !ended;) {
    if (rest.find('\n') == std::string_view::npos) {
      throw bad_file(source, "is truncated: its header has no end_header line");
    }
    std::string_view line = take_line(rest);
    const std::string_view key = take_token(line);
    if (key == "end_header") {
      ended = true;
    } else if (key == "format") {
      header.encoding = take_token(line);
      const std::string_view version = take_token(line);
      if (version != "1.0")
        throw bad_file(source, "is PLY version '{}'; Kith reads 1.0", version.substr(0, 40));
    } else if (key == "element") {
      Element element;
      element.name = take_token(line);
      const std::string_view token = take_token(line);
      const auto count = parse_number<std::int64_t>(token);
      if (!count || *count < 0) {
        throw bad_file(source, "is corrupt: it claims '{}' of element '{}'; 0 to 2^63 - 1 is possible",
                       token.substr(0, 40), element.name.substr(0, 40));
      }
      element.count = static_cast<std::uint64_t>(*count);
      header.elements.push_back(std::move(element));
    } else if (key == "property") {
      if (header.elements.empty()) throw bad_file(source, "is corrupt: a property precedes every element");
      parse_property(source, header.elements.back(), line);
    } else if (key != "comment" && key != "obj_info" && !key.empty()) {
      throw bad_file(source, "is corrupt: its header has a line '{}', which PLY does not know",
                     key.substr(0, 40));
    }
  }
  header.offset = source.size() - rest.size();
  if (header.encoding != "ascii" && header.encoding != "binary_little_endian" &&
      header.encoding != "binary_big_endian") {
    throw bad_file(source, "has format '{}'; Kith reads ascii, binary_little_endian and binary_big_endian",
                   header.encoding.substr(0, 40));
  }
  find_vertices(source, header);
  const Element& vertex = header.elements[header.vertex];
  check_shape(source, vertex.count, 3);
  // An ascii number takes two bytes with its separator, the very last one may do with one.
  const std::uint64_t available = source.size() - header.offset;
  const bool enough = header.encoding == "ascii"
                          ? fits(vertex.count, 2 * vertex.properties.size(), available + 1)
                          : fits(vertex.count, vertex.least_bytes, available);
  if (!enough) {
    throw bad_file(source,
                   "is truncated or corrupt: its header claims {} of at least {}, the file has {} for them",
                   plural(static_cast<std::int64_t>(vertex.count), "vertex", "vertices"),
                   plural(static_cast<std::int64_t>(vertex.least_bytes), "byte"),
                   plural(static_cast<std::int64_t>(available), "byte"));
  }
  return header;
}

std::array<Column, 3> columns_of(const Header& header) {
  std::array<Column, 3> xyz;
  for (std::size_t axis = 0; axis < 3; ++axis) {
    xyz[axis] = header.elements[header.vertex].properties[header.xyz[axis]].number;
  }
  return xyz;
}

IoError ends_inside(const Source& source, const Element& element, std::uint64_t row) {
  return bad_file(source, "is truncated or corrupt: it ends inside '{}' {} of {}", element.name.substr(0, 40),
                  row, element.count);
}

std::uint64_t measure(const Source& source, const Element& element, std::uint64_t row, std::uint64_t at,
                      bool swap, std::vector<std::uint64_t>* starts) {
  std::uint64_t next = at;
  for (const Property& property : element.properties) {
    if (starts != nullptr) starts->push_back(next);
    std::uint64_t bytes = property.number.bytes;
    if (property.list) {
      if (property.list_count.bytes > source.size() - next) throw ends_inside(source, element, row);
      bytes *= list_length(source.bytes.data() + next, property.list_count, swap);
      next += property.list_count.bytes;
    }
    if (bytes > source.size() - next) throw ends_inside(source, element, row);
    next += bytes;
  }
  return next - at;
}

std::string_view take_property(const Source& source, const Element& element, std::size_t property,
                               std::uint64_t row, std::string_view& rest) {
  const std::string_view before = rest;
  const std::string_view first = take_token(rest);
  if (first.empty()) throw ends_inside(source, element, row);
  if (element.properties[property].list) {
    const auto length = parse_number<std::uint32_t>(first);
    if (!length) throw bad_file(source, "is corrupt: a list's length is '{}'", first.substr(0, 40));
    for (std::uint32_t i = 0; i < *length; ++i) {
      if (take_token(rest).empty()) throw ends_inside(source, element, row);
    }
  }
  return before.substr(static_cast<std::size_t>(first.data() - before.data()),
                       static_cast<std::size_t>(rest.data() - first.data()));
}

std::uint64_t vertices_of(const Source& source, const Header& header) {
  std::uint64_t at = header.offset;
  const bool text = header.encoding == "ascii";
  FrontToBack pass(source);
  for (std::size_t e = 0; e < header.vertex; ++e) {
    const Element& element = header.elements[e];
    if (text ? element.properties.empty() : !element.has_list) {
      if (!fits(element.count, element.least_bytes, source.size() - at))
        throw ends_inside(source, element, 0);
      at += element.count * element.least_bytes;
      continue;
    }
    for (std::uint64_t i = 0; i < element.count; ++i) {
      pass.reached(source.bytes.data() + at);
      if (text) {
        std::string_view rest = source.text().substr(at);
        walk_ascii(source, element, i, rest, [](std::size_t, std::string_view) {});
        at = source.size() - rest.size();
      } else {
        at += measure(source, element, i, at, header.swap(), nullptr);
      }
    }
  }
  return at;
}

}  // namespace kith::io::ply
