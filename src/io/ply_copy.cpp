// PLY files from PLY files: some of the points, and further properties.
#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "io/bytes.hpp"
#include "io/ply.hpp"
#include "io/point_copy.hpp"

namespace kith::io {
namespace {

using ply::Element;
using ply::Header;
using ply::Property;

// Which properties of a vertex stay.
std::vector<bool> kept_properties(const Element& vertex, const PointChanges& changes) {
  std::vector<bool> kept;
  for (const Property& property : vertex.properties) {
    kept.push_back(std::ranges::find(changes.names, property.name) == changes.names.end());
  }
  return kept;
}

// How lines end, by the first of them.
std::string_view line_end(const Source& source) {
  const std::string_view text = source.text();
  return text.substr(0, text.find('\n')).ends_with('\r') ? "\r\n" : "\n";
}

// The header's lines as they are, but for the number of points, their properties, and elements that go.
std::string edit_header(const Source& source, const Header& header, const PointChanges& changes,
                        const std::vector<bool>& kept, std::int64_t points) {
  std::string text;
  std::string_view rest = source.text().substr(0, header.offset);
  const std::string_view end = line_end(source);
  const auto put = [&](std::string_view line) {
    text += line;
    text += end;
  };
  const auto add_properties = [&] {
    for (const std::string& name : changes.names) {
      put(fmt::format("property {} {}", changes.type == Dtype::f32 ? "float" : "double", name));
    }
  };
  std::size_t element = 0;  // behind the one whose properties come
  std::size_t property = 0;
  while (!rest.empty()) {
    const std::string_view line = take_line(rest);
    std::string_view words = line;
    const std::string_view key = take_token(words);
    if (key == "element" || key == "end_header") {
      if (element == header.vertex + 1) add_properties();
      ++element;
      property = 0;
    }
    const bool of_vertex = element == header.vertex + 1;
    const bool declares = key == "element" || key == "property";
    if (declares && !of_vertex && changes.dropped) continue;
    if (of_vertex && key == "element") {
      put(fmt::format("element vertex {}", points));
    } else if (!(of_vertex && key == "property" && !kept[property++])) {
      put(line);
    }
  }
  return text;
}

// Binary vertices of one size.
void copy_records(AtomicFile& out, const Source& source, const Element& vertex, std::uint64_t at,
                  const std::vector<bool>& kept, ChangesByRow& by_row) {
  std::vector<Piece> pieces;
  for (std::size_t p = 0; p < kept.size(); ++p) {
    const Column& number = vertex.properties[p].number;
    if (kept[p]) add_piece(pieces, {number.offset, number.bytes});
  }
  FrontToBack pass(source);
  for (std::uint64_t row = 0; row < vertex.count; ++row, at += vertex.least_bytes) {
    const std::byte* record = source.bytes.data() + at;
    pass.reached(record);
    if (by_row.dropped(static_cast<std::int64_t>(row))) continue;
    for (const Piece& piece : pieces) out.write(record + piece.offset, piece.bytes);
    const auto values = by_row.values(static_cast<std::int64_t>(row));
    out.write(values.data(), values.size());
  }
}

// Those with lists. @return where they end
std::uint64_t copy_with_lists(AtomicFile& out, const Source& source, const Header& header, std::uint64_t at,
                              const std::vector<bool>& kept, ChangesByRow& by_row) {
  const Element& vertex = header.elements[header.vertex];
  FrontToBack pass(source);
  std::vector<std::uint64_t> starts;
  for (std::uint64_t row = 0; row < vertex.count; ++row) {
    pass.reached(source.bytes.data() + at);
    starts.clear();
    const std::uint64_t bytes = ply::measure(source, vertex, row, at, header.swap(), &starts);
    starts.push_back(at + bytes);
    at += bytes;
    if (by_row.dropped(static_cast<std::int64_t>(row))) continue;
    for (std::size_t p = 0; p < kept.size(); ++p) {
      if (kept[p]) out.write(source.bytes.data() + starts[p], starts[p + 1] - starts[p]);
    }
    const auto values = by_row.values(static_cast<std::int64_t>(row));
    out.write(values.data(), values.size());
  }
  return at;
}

// A number as text that gives it back.
template <class T>
void add_numbers(std::string& line, std::span<const std::byte> values) {
  for (std::size_t at = 0; at < values.size(); at += sizeof(T)) {
    line += fmt::format(" {}", load<T>(values.data() + at));
  }
}

// A vertex a line, its words as they are. @return where they end
std::uint64_t copy_text(AtomicFile& out, const Source& source, const Header& header, std::uint64_t at,
                        const std::vector<bool>& kept, Dtype type, ChangesByRow& by_row) {
  const Element& vertex = header.elements[header.vertex];
  const std::string_view end = line_end(source);
  FrontToBack pass(source);
  std::string_view rest = source.text().substr(at);
  std::string line;
  for (std::uint64_t row = 0; row < vertex.count; ++row) {
    pass.reached(rest.data());
    line.clear();
    for (std::size_t p = 0; p < kept.size(); ++p) {
      const std::string_view words = ply::take_property(source, vertex, p, row, rest);
      if (kept[p]) line.append(line.empty() ? "" : " ").append(words);
    }
    if (by_row.dropped(static_cast<std::int64_t>(row))) continue;
    const auto values = by_row.values(static_cast<std::int64_t>(row));
    type == Dtype::f32 ? add_numbers<float>(line, values) : add_numbers<double>(line, values);
    line += end;
    out.write(line);
  }
  return source.size() - rest.size();
}

// Behind the blanks and the end of the line there, if they are all that is left of it.
std::uint64_t after_line(const Source& source, std::uint64_t at) {
  const std::string_view text = source.text();
  std::uint64_t next = at;
  while (next < text.size() && (text[next] == ' ' || text[next] == '\t' || text[next] == '\r')) ++next;
  if (next == text.size()) return next;
  return text[next] == '\n' ? next + 1 : at;
}

}  // namespace

std::string elements_beside_points(const Source& source) {
  const Header header = ply::parse_header(source);
  std::string list;
  for (std::size_t e = 0; e < header.elements.size(); ++e) {
    if (e == header.vertex || header.elements[e].count == 0) continue;
    list += (list.empty() ? "" : ", ") + header.elements[e].name;
  }
  return list;
}

void copy_ply(AtomicFile& out, const Source& source, const PointChanges& changes) {
  const Header header = ply::parse_header(source);
  const Element& vertex = header.elements[header.vertex];
  const auto rows = static_cast<std::int64_t>(vertex.count);
  check_changes("ply", changes, rows);
  const std::vector<bool> kept = kept_properties(vertex, changes);
  const bool text = header.encoding == "ascii";
  const std::uint64_t first = ply::vertices_of(source, header);
  if (!text && !vertex.has_list && !fits(vertex.count, vertex.least_bytes, source.size() - first)) {
    throw ply::ends_inside(source, vertex, 0);
  }
  out.write(edit_header(source, header, changes, kept, count_kept(changes, rows)));
  if (!changes.dropped) {
    copy_range(out, source, header.offset, first);
    if (text && first > header.offset) out.write(line_end(source));
  }
  ChangesByRow by_row(changes, rows, header.swap());
  std::uint64_t end = 0;
  if (text) {
    end = after_line(source, copy_text(out, source, header, first, kept, changes.type, by_row));
  } else if (vertex.has_list) {
    end = copy_with_lists(out, source, header, first, kept, by_row);
  } else {
    copy_records(out, source, vertex, first, kept, by_row);
    end = first + vertex.count * vertex.least_bytes;
  }
  if (!changes.dropped) copy_range(out, source, end, source.size());
}

}  // namespace kith::io
