#include "point_tiles/journal.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <system_error>

#include <fmt/format.h>

namespace kith::point_tiles {
namespace {

constexpr std::size_t deepest = 1000;  // brackets in names count as well

// As a message shows it.
std::string shown(const nlohmann::json& value) {
  return value.is_structured() ? value.type_name() : value.dump().substr(0, 40);
}

std::vector<double> side_of(const nlohmann::json& list, std::int64_t dim) {
  if (!list.is_array() || (!list.empty() && static_cast<std::int64_t>(list.size()) != dim)) {
    throw BadRecord("a box is not of the cloud's dimension");
  }
  std::vector<double> side;
  for (const nlohmann::json& value : list) {
    if (!value.is_number()) throw BadRecord(fmt::format("a side of a box is {}", shown(value)));
    side.push_back(value.get<double>());
  }
  return side;
}

}  // namespace

std::int64_t whole(const nlohmann::json& value, const char* what, std::int64_t least, std::int64_t most) {
  if (value.is_number_integer()) {
    const bool large =
        value.is_number_unsigned() &&
        value.get<std::uint64_t>() > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
    if (!large && value.get<std::int64_t>() >= least && value.get<std::int64_t>() <= most) {
      return value.get<std::int64_t>();
    }
  }
  throw BadRecord(fmt::format("{} is {}, not {} to {}", what, shown(value), least, most));
}

double real(const nlohmann::json& value, const char* what) {
  if (value.is_string()) {
    const auto text = value.get<std::string>();
    double number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error == std::errc{} && end == text.data() + text.size()) return number;
  }
  throw BadRecord(fmt::format("{} is {}", what, shown(value)));
}

std::uint64_t checksum(const nlohmann::json& value) {
  if (value.is_number_unsigned()) return value.get<std::uint64_t>();
  constexpr std::size_t digits = 16;
  if (value.is_string()) {
    const auto text = value.get<std::string>();
    if (text.size() == digits && text.find_first_not_of("0123456789abcdef") == std::string::npos) {
      return std::stoull(text, nullptr, 16);
    }
  }
  throw BadRecord(fmt::format("a checksum is {}", shown(value)));
}

const nlohmann::json& member(const nlohmann::json& object, const char* key) {
  if (!object.is_object() || !object.contains(key)) throw BadRecord(fmt::format("'{}' is missing", key));
  return object[key];
}

const nlohmann::json& entry(const nlohmann::json& array, std::size_t at) {
  if (!array.is_array() || array.size() <= at) throw BadRecord("a list is too short");
  return array[at];
}

bool is_shallow(std::string_view text) {
  std::size_t depth = 0;
  for (const char c : text) {
    if ((c == '[' || c == '{') && ++depth > deepest) return false;
    if ((c == ']' || c == '}') && depth > 0) --depth;
  }
  return true;
}

nlohmann::json to_json(const SavedSweep& saved, int file) {
  return {{"next", saved.next},
          {"file", file},
          {"waiting_bytes", saved.waiting_bytes},
          {"waiting_hash", saved.waiting_hash},
          {"postponed_bytes", saved.postponed_bytes},
          {"postponed_hash", saved.postponed_hash},
          {"postponed", saved.postponed},
          {"statistics", to_json(saved.statistics)}};
}

SavedSweep sweep_from(const nlohmann::json& object, std::int64_t tiles, std::int64_t queries, int& file) {
  SavedSweep saved;
  const auto bytes = [&](const char* key) {
    return static_cast<std::uint64_t>(whole(member(object, key), key, 0, most_bytes));
  };
  saved.next = whole(member(object, "next"), "the next tile", 0, tiles);
  file = static_cast<int>(whole(member(object, "file"), "the file of those that wait", 0, 1));
  saved.waiting_bytes = bytes("waiting_bytes");
  saved.waiting_hash = checksum(member(object, "waiting_hash"));
  saved.postponed_bytes = bytes("postponed_bytes");
  saved.postponed_hash = checksum(member(object, "postponed_hash"));
  saved.postponed = whole(member(object, "postponed"), "postponed", 0, queries);
  saved.statistics = statistics_from(member(object, "statistics"));
  return saved;
}

nlohmann::json to_json(const TileStatistics& s) {
  return {{"queries", s.queries},           {"nan_rows", s.nan_rows},
          {"nan_queries", s.nan_queries},   {"tiles", s.tiles},
          {"tile_bytes", s.tile_bytes},     {"bytes_read", s.bytes_read},
          {"bytes_direct", s.bytes_direct}, {"tiles_read_again", s.tiles_read_again},
          {"crossed", s.crossed},           {"visits", s.visits},
          {"postponed", s.postponed}};
}

TileStatistics statistics_from(const nlohmann::json& object) {
  const auto count = [&](const char* key) { return whole(member(object, key), key, 0, most_bytes); };
  const auto bytes = [&](const char* key) { return static_cast<std::uint64_t>(count(key)); };
  TileStatistics s;
  s.queries = count("queries");
  s.nan_rows = count("nan_rows");
  s.nan_queries = count("nan_queries");
  s.tiles = count("tiles");
  s.tile_bytes = bytes("tile_bytes");
  s.bytes_read = bytes("bytes_read");
  s.bytes_direct = bytes("bytes_direct");
  s.tiles_read_again = count("tiles_read_again");
  s.crossed = count("crossed");
  s.visits = count("visits");
  s.postponed = count("postponed");
  return s;
}

nlohmann::json to_json(const Splitters& splitters) {
  nlohmann::json list = nlohmann::json::array();
  for (const Splitters::Node& node : splitters.nodes()) {
    list.push_back({node.axis, node.value, node.below, node.above});
  }
  return list;
}

// A parent stands before its children, so that every way down ends; and a tree of n planes has n + 1 leaves.
Splitters splitters_from(const nlohmann::json& list, std::int64_t tiles, std::int64_t dim) {
  if (!list.is_array() || static_cast<std::int64_t>(list.size()) != tiles - 1) {
    throw BadRecord(fmt::format("the planes are not those of {} tiles", tiles));
  }
  std::vector<Splitters::Node> nodes;
  const auto count = static_cast<std::int64_t>(list.size());
  for (const nlohmann::json& node : list) {
    const auto child = [&](std::size_t at) {
      const std::int64_t to = whole(entry(node, at), "a plane's side", -tiles, count - 1);
      if (to < 0 || to > static_cast<std::int64_t>(nodes.size())) return to;
      throw BadRecord("a plane leads back to one before it");
    };
    const std::int64_t axis = whole(entry(node, 0), "a plane's axis", 0, dim - 1);
    if (!entry(node, 1).is_number()) throw BadRecord(fmt::format("a plane is at {}", shown(node[1])));
    const std::int64_t below = child(2);
    nodes.push_back({axis, node[1].get<double>(), below, child(3)});
  }
  return {std::move(nodes), tiles};
}

nlohmann::json to_json(std::size_t tile, const Extent& extent, const Bounds& bounds) {
  return {tile, extent.offset, extent.rows, extent.hash, bounds.lower, bounds.upper};
}

Dealt dealt_from(const nlohmann::json& piece, std::size_t tiles, std::int64_t capacity,
                 std::int64_t record_bytes, std::uint64_t end, std::int64_t dim) {
  Dealt dealt;
  dealt.tile =
      static_cast<std::size_t>(whole(entry(piece, 0), "a tile", 0, static_cast<std::int64_t>(tiles) - 1));
  dealt.extent.rows = whole(entry(piece, 2), "the rows of an extent", 1, capacity);
  const std::int64_t last = static_cast<std::int64_t>(end) - dealt.extent.rows * record_bytes;
  if (last < 0) throw BadRecord("an extent is larger than its segment");
  dealt.extent.offset = static_cast<std::uint64_t>(whole(entry(piece, 1), "the place of an extent", 0, last));
  dealt.extent.hash = checksum(entry(piece, 3));
  dealt.bounds = {side_of(entry(piece, 4), dim), side_of(entry(piece, 5), dim)};
  const Bounds& box = dealt.bounds;
  const auto is_side = [](double low, double high) {
    return std::isfinite(low) && std::isfinite(high) && low <= high;
  };
  // The last tile has the rows that no box holds.
  if (box.lower.size() != box.upper.size() || box.lower.empty() != (dealt.tile + 1 == tiles) ||
      !std::equal(box.lower.begin(), box.lower.end(), box.upper.begin(), is_side)) {
    throw BadRecord("a box is none");
  }
  return dealt;
}

}  // namespace kith::point_tiles
