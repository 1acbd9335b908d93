// How a PLY file is laid out: its header, and the walk through its records.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "io/format.hpp"
#include "io/points.hpp"
#include "io/text.hpp"

namespace kith::io::ply {

struct Property {
  std::string name;
  Column number;  // of the value, or of a list's items; offset only where the element has no lists
  bool list = false;
  Column list_count{};  // of a list's length
};

struct Element {
  std::string name;
  std::uint64_t count = 0;
  std::vector<Property> properties;
  bool has_list = false;
  std::uint64_t least_bytes = 0;  // of a binary record: all of it, or with empty lists
};

struct Header {
  std::string encoding;  // "ascii", "binary_little_endian" or "binary_big_endian"
  std::vector<Element> elements;
  std::size_t vertex = 0;  // its element
  std::array<std::size_t, 3> xyz{};
  std::uint64_t offset = 0;
  bool swap() const { return encoding == "binary_big_endian"; }
};

/// @throws IoError where it is none, has no points, is truncated or corrupt
Header parse_header(const Source& source);

/// x, y and z of a vertex; offsets only where vertices have no lists.
std::array<Column, 3> columns_of(const Header& header);

IoError ends_inside(const Source& source, const Element& element, std::uint64_t row);

/// Bytes of the binary record at `at`, of whose properties the starts are kept where `starts` is given.
std::uint64_t measure(const Source& source, const Element& element, std::uint64_t row, std::uint64_t at,
                      bool swap, std::vector<std::uint64_t>* starts);

/// Where the vertices begin, behind elements of any kind.
std::uint64_t vertices_of(const Source& source, const Header& header);

/// Takes the words of one property off `rest`: a number, or a list's length and items. @return them as they
/// lie
std::string_view take_property(const Source& source, const Element& element, std::size_t property,
                               std::uint64_t row, std::string_view& rest);

/// Walks the tokens of one ascii record; calls take(property index, token) for its scalars.
template <class Take>
void walk_ascii(const Source& source, const Element& element, std::uint64_t row, std::string_view& rest,
                Take&& take) {
  for (std::size_t p = 0; p < element.properties.size(); ++p) {
    const std::string_view words = take_property(source, element, p, row, rest);
    if (!element.properties[p].list) take(p, words);
  }
}

}  // namespace kith::io::ply
