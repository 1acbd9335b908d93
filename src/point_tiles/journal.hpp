// What the records of a journal say, checked one by one: their checksums tell damage, but whoever changes a
// record on purpose makes the checksum anew. So nothing of it is an index or a size before it was compared
// with what it can be.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "kith/point_tiles.hpp"
#include "point_tiles/folder.hpp"
#include "point_tiles/records.hpp"
#include "point_tiles/splitters.hpp"

namespace kith::point_tiles {

/// A record that no run has noted. Whoever knows the folder says so by name.
class BadRecord : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Bytes of a file, and what else has no other bound: sums of a few of them do not overflow.
inline constexpr std::int64_t most_bytes = std::int64_t{1} << 60U;

/// A whole number from `least` to `most`. @param what "the next tile" @throws BadRecord
std::int64_t whole(const nlohmann::json& value, const char* what, std::int64_t least, std::int64_t most);
/// A double as text, which holds a NaN as well. @throws BadRecord
double real(const nlohmann::json& value, const char* what);
/// A checksum as a number, or as text of 16 digits. @throws BadRecord
std::uint64_t checksum(const nlohmann::json& value);
/// A member of an object, an entry of an array. @throws BadRecord where there is none
const nlohmann::json& member(const nlohmann::json& object, const char* key);
const nlohmann::json& entry(const nlohmann::json& array, std::size_t at);
/// Whether a text of JSON nests no deeper than what Kith writes, so that it can be copied and shown.
bool is_shallow(std::string_view text);

/// What a sweep leaves on disk so that another process can go on with it: the queries that wait, and what was
/// counted.
struct SavedSweep {
  std::int64_t next = 0;            ///< tile that comes next
  std::uint64_t waiting_bytes = 0;  ///< of the file of those that were in memory
  std::uint64_t waiting_hash = 0;
  std::uint64_t postponed_bytes = 0;  ///< of the file of those that were not
  std::uint64_t postponed_hash = 0;
  std::int64_t postponed = 0;
  TileStatistics statistics;
};
/// @param file 0 or 1, which of the two has those that were in memory
nlohmann::json to_json(const SavedSweep& saved, int file);
/// @param tiles, queries there are @throws BadRecord
SavedSweep sweep_from(const nlohmann::json& object, std::int64_t tiles, std::int64_t queries, int& file);

nlohmann::json to_json(const TileStatistics& statistics);
/// @throws BadRecord
TileStatistics statistics_from(const nlohmann::json& object);

nlohmann::json to_json(const Splitters& splitters);
/// @throws BadRecord where they are no tree of so many tiles
Splitters splitters_from(const nlohmann::json& list, std::int64_t tiles, std::int64_t dim);

/// An extent of a tile that rows were dealt to.
struct Dealt {
  std::size_t tile = 0;
  Extent extent;
  Bounds bounds;
};
nlohmann::json to_json(std::size_t tile, const Extent& extent, const Bounds& bounds);
/// @param tiles there are, rows a buffer has at the most, bytes a row has, end of the segment @throws
/// BadRecord
Dealt dealt_from(const nlohmann::json& piece, std::size_t tiles, std::int64_t capacity,
                 std::int64_t record_bytes, std::uint64_t end, std::int64_t dim);

}  // namespace kith::point_tiles
