#include "point_tiles/folder.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include <fmt/format.h>
#include <xxhash.h>
#include <nlohmann/json.hpp>

#include "core/plural.hpp"
#include "io/format.hpp"
#include "io/manifest_text.hpp"
#include "kith/error.hpp"
#include "point_tiles/journal.hpp"

namespace kith::point_tiles {
namespace {

constexpr io::ManifestKind kind = {.format = "kith point tiles",
                                   .what = "point tiles",
                                   .remedy = "build the tiles again",
                                   .command = "kith build --index point_tiles",
                                   .newest = folder_version};

nlohmann::json to_json(const Tile& tile) {
  nlohmann::json extents = nlohmann::json::array();
  for (const Extent& extent : tile.extents) {
    extents.push_back({extent.segment, extent.offset, extent.rows, io::hash_text(extent.hash)});
  }
  nlohmann::json object = {{"rows", tile.rows}, {"first", tile.first_row}, {"extents", std::move(extents)}};
  if (tile.has_box()) {
    object["lower"] = tile.lower;
    object["upper"] = tile.upper;
  }
  return object;
}

void require(bool holds, const char* what) {
  if (!holds) throw std::invalid_argument(what);
}

Tile parse_tile(const nlohmann::json& object, const Manifest& manifest) {
  Tile tile;
  tile.rows = whole(member(object, "rows"), "the rows of a tile", 1, manifest.rows);
  if (object.contains("first")) {
    tile.first_row = whole(object["first"], "the first row of a tile", 0, manifest.rows - tile.rows);
  }
  if (object.contains("lower")) {
    tile.lower = object.at("lower").get<std::vector<double>>();
    tile.upper = object.at("upper").get<std::vector<double>>();
    require(
        tile.lower.size() == static_cast<std::size_t>(manifest.dim) && tile.upper.size() == tile.lower.size(),
        "a tile's box is not of the cloud's dimension");
    for (std::size_t j = 0; j < tile.lower.size(); ++j) {
      require(std::isfinite(tile.lower[j]) && std::isfinite(tile.upper[j]) && tile.lower[j] <= tile.upper[j],
              "a tile's box is none");
    }
  }
  std::int64_t held = 0;
  for (const auto& piece : object.at("extents")) {
    Extent extent;
    require(piece.is_array() && piece.size() == 4, "an extent is not of four parts");
    extent.segment = whole(piece[0], "the segment of an extent", 0,
                           static_cast<std::int64_t>(manifest.segments.size()) - 1);
    extent.offset = static_cast<std::uint64_t>(whole(piece[1], "the place of an extent", 0, most_bytes));
    require(held < tile.rows, "the extents of a tile do not add up to its rows");
    extent.rows = whole(piece[2], "the rows of an extent", 1, tile.rows - held);
    extent.hash = checksum(piece[3]);
    const std::uint64_t all = manifest.segments[static_cast<std::size_t>(extent.segment)].bytes;
    require(extent.offset <= all &&
                static_cast<std::uint64_t>(extent.rows) <= (all - extent.offset) / manifest.record_bytes(),
            "an extent reaches past the end of its segment");
    held += extent.rows;
    tile.extents.push_back(extent);
  }
  require(held == tile.rows, "the extents of a tile do not add up to its rows");
  return tile;
}

std::optional<FileFormat> format_named(const std::string& text) {
  if (text.empty()) return std::nullopt;
  for (const io::Format& format : io::formats()) {
    if (format.name == text) return format.format;
  }
  throw BadRecord(fmt::format("'{}' is no format of a file", text.substr(0, 20)));
}

Manifest parse_content(const nlohmann::json& content) {
  Manifest manifest;
  manifest.dtype = parse_dtype(content.at("dtype").get<std::string>());
  constexpr std::int64_t most_dim = (std::int64_t{1} << 32U) - 1;
  manifest.dim = whole(member(content, "dim"), "the dimension", 1, most_dim);
  manifest.rows = whole(member(content, "rows"), "the number of rows", 0, most_bytes);
  manifest.nan_rows = whole(member(content, "nan_rows"), "the rows with NaN", 0, manifest.rows);
  manifest.tile_points =
      whole(member(member(content, "parameters"), "tile_points"), "tile_points", 1, most_bytes);
  if (content.contains("integers")) {
    manifest.integers = {content["integers"].at("scale").get<std::array<double, 3>>(),
                         content["integers"].at("offset").get<std::array<double, 3>>()};
    require(manifest.dim == 3 && manifest.dtype == Dtype::f64,
            "the integers of its rows are not those of points");
    for (std::size_t axis = 0; axis < 3; ++axis) {
      require(std::isfinite(manifest.integers->scale[axis]) && manifest.integers->scale[axis] != 0 &&
                  std::isfinite(manifest.integers->offset[axis]),
              "the scale of its integers is none");
    }
  }
  for (const auto& object : content.at("sources")) {
    constexpr auto any = std::numeric_limits<std::int64_t>::max();
    const auto number = [&](const char* key, std::int64_t least, std::int64_t most) {
      return object.contains(key) ? whole(object[key], key, least, most) : 0;
    };
    manifest.sources.push_back({object.at("name").get<std::string>(),
                                whole(member(object, "rows"), "the rows of a file", 0, most_bytes),
                                static_cast<std::uint64_t>(number("bytes", 0, any)),
                                number("modified", -any, any), format_named(object.value("format", ""))});
  }
  for (const auto& object : content.at("segments")) {
    Segment segment{
        object.at("file").get<std::string>(),
        static_cast<std::uint64_t>(whole(member(object, "bytes"), "the bytes of a segment", 0, most_bytes))};
    require(segment.file.starts_with("segment-") && segment.file.find('/') == std::string::npos,
            "a segment's name is none");
    manifest.segments.push_back(std::move(segment));
  }
  std::int64_t rows = 0;
  for (const auto& object : content.at("tiles")) {
    manifest.tiles.push_back(parse_tile(object, manifest));
    require(manifest.tiles.back().rows <= manifest.rows - rows, "the tiles do not add up to all rows");
    rows += manifest.tiles.back().rows;
  }
  require(rows == manifest.rows, "the tiles do not add up to all rows");
  return manifest;
}

}  // namespace

std::int64_t Manifest::largest_tile() const noexcept {
  std::int64_t largest = 0;
  for (const Tile& tile : tiles) largest = std::max(largest, tile.rows);
  return largest;
}

std::string to_text(const Manifest& manifest) {
  nlohmann::json content = {{"dtype", name(manifest.dtype)},
                            {"dim", manifest.dim},
                            {"rows", manifest.rows},
                            {"nan_rows", manifest.nan_rows},
                            {"parameters", {{"tile_points", manifest.tile_points}}},
                            {"sources", nlohmann::json::array()},
                            {"segments", nlohmann::json::array()},
                            {"tiles", nlohmann::json::array()}};
  if (manifest.integers) {
    content["integers"] = {{"scale", manifest.integers->scale}, {"offset", manifest.integers->offset}};
  }
  for (const SourceCloud& source : manifest.sources) {
    content["sources"].push_back({{"name", source.name},
                                  {"rows", source.rows},
                                  {"bytes", source.bytes},
                                  {"modified", source.modified}});
    if (source.format) content["sources"].back()["format"] = name(*source.format);
  }
  for (const Segment& segment : manifest.segments) {
    content["segments"].push_back({{"file", segment.file}, {"bytes", segment.bytes}});
  }
  for (const Tile& tile : manifest.tiles) content["tiles"].push_back(to_json(tile));
  // Names of files may be of any encoding.
  const std::string text = content.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  return io::manifest_text(kind, manifest.integers ? folder_version : 1, text);
}

Manifest parse_manifest(std::string_view text, const std::string& file) {
  Manifest manifest;
  io::parse_manifest_text(kind, text, file, [&](int version, const nlohmann::json& content) {
    try {
      manifest = parse_content(content);
    } catch (const BadRecord& error) {
      throw std::invalid_argument(fmt::format("it is not what Kith writes ({})", error.what()));
    }
    require(manifest.integers.has_value() == (version != 1), "its version is not that of its content");
  });
  return manifest;
}

bool is_folder_of_tiles(const std::filesystem::path& path) {
  return io::has_manifest(kind, path);
}

Folder::Folder(std::filesystem::path path) : path_(std::move(path)) {
  std::error_code ignored;
  if (!std::filesystem::exists(path_, ignored)) {
    throw IoError(fmt::format("cannot read '{}': there is no such folder", path_.string()));
  }
  if (!std::filesystem::is_directory(path_, ignored)) {
    throw IoError(fmt::format("'{}' is a file, and point tiles are a folder; name the one that was built",
                              path_.string()));
  }
  const std::filesystem::path file = path_ / manifest_name;
  std::error_code why;
  if (!std::filesystem::exists(file, why)) {
    if (why) throw IoError(fmt::format("cannot read '{}': {}", file.string(), why.message()));
    throw IoError(fmt::format(
        "'{}' has no {}: it is no folder of point tiles; make one with kith build --index point_tiles",
        path_.string(), manifest_name));
  }
  const std::string text = io::read_text(file);
  manifest_ = parse_manifest(text, file.string());
  fingerprint_ = io::hash_text(XXH3_64bits(text.data(), text.size()));
  for (const Segment& segment : manifest_.segments) {
    InputFile& opened = segments_.emplace_back(path_ / segment.file);
    opened.expect_jumps(true);  // extents are read by large requests
    opened.open_direct();
    if (const std::uint64_t size = opened.size(); size != segment.bytes) {
      throw IoError(fmt::format("'{}' is {}: it has {} bytes, the manifest says {}; build the tiles again",
                                (path_ / segment.file).string(),
                                size < segment.bytes ? "truncated" : "corrupt", size, segment.bytes));
    }
  }
}

void Folder::becomes(std::filesystem::path path, std::future<void> safe) {
  path_ = std::move(path);
  safe_ = safe.share();
}

std::uint64_t extent_hash(const void* coordinates, std::size_t coordinate_bytes, const std::int64_t* rows,
                          std::size_t count) {
  // The second hash goes on from the first.
  return XXH3_64bits_withSeed(rows, count * sizeof(std::int64_t), XXH3_64bits(coordinates, coordinate_bytes));
}

void expand_integers(const io::IntegerScale& scale, std::size_t count, std::byte* values) {
  constexpr std::size_t stored = 3 * sizeof(std::int32_t);
  // Values end where their integers do: no integer is overwritten before it is read.
  const std::byte* from = values + count * (3 * sizeof(double) - stored);
  for (std::size_t i = 0; i < count; ++i, from += stored) {
    std::array<std::int32_t, 3> integers;
    std::memcpy(integers.data(), from, stored);
    for (std::size_t axis = 0; axis < 3; ++axis, values += sizeof(double)) {
      const double value = scale.value(integers[axis], axis);
      std::memcpy(values, &value, sizeof value);
    }
  }
}

void Folder::read_tile(std::int64_t tile, void* coordinates, std::int64_t* rows) const {
  std::vector<Piece> pieces;
  add_pieces(tile, coordinates, rows, pieces);
  for (const Piece& piece : pieces) piece.file->read(piece.offset, piece.to, piece.bytes);
  check_tile(tile, coordinates, rows);
}

void Folder::add_pieces(std::int64_t number, void* coordinates, std::int64_t* rows,
                        std::vector<Piece>& pieces) const {
  auto* to = static_cast<std::byte*>(coordinates);
  for (const Extent& extent : manifest_.tiles[static_cast<std::size_t>(number)].extents) {
    const InputFile* file = &segments_[static_cast<std::size_t>(extent.segment)];
    const auto count = static_cast<std::size_t>(extent.rows);
    const std::size_t bytes = count * manifest_.stored_bytes();
    to += count * manifest_.row_bytes();
    pieces.push_back({file, extent.offset, to - bytes, bytes});  // integers where their values end
    pieces.push_back({file, extent.offset + bytes, rows, count * sizeof(std::int64_t)});
    rows += count;
  }
}

void Folder::check_tile(std::int64_t number, void* coordinates, const std::int64_t* rows) const {
  const Tile& tile = manifest_.tiles[static_cast<std::size_t>(number)];
  auto* to = static_cast<std::byte*>(coordinates);
  for (const Extent& extent : tile.extents) {
    const auto count = static_cast<std::size_t>(extent.rows);
    const std::size_t bytes = count * manifest_.stored_bytes();
    std::byte* const end = to + count * manifest_.row_bytes();
    if (extent_hash(end - bytes, bytes, rows, count) != extent.hash) {
      throw IoError(fmt::format(
          "'{}' is corrupt: the {} of tile {} at byte {} do not match their checksum; build the tiles "
          "again",
          (path_ / manifest_.segments[static_cast<std::size_t>(extent.segment)].file).string(),
          plural(extent.rows, "row"), number, extent.offset));
    }
    if (manifest_.integers) expand_integers(*manifest_.integers, count, to);
    to = end;
    rows += count;
  }
  // Answers are put where these numbers say.
  std::int64_t before = tile.first_row - 1;
  for (const std::int64_t* row = rows - tile.rows; row != rows; before = *row++) {
    if (*row > before && *row < manifest_.rows) continue;
    throw IoError(
        fmt::format("'{}' is corrupt: tile {} has row {} of {} where it cannot be; build the tiles again",
                    path_.string(), number, *row, manifest_.rows));
  }
}

void Folder::read_points(std::int64_t number, std::int64_t first, std::int64_t count,
                         void* coordinates) const {
  const std::uint64_t row_bytes = manifest_.row_bytes();
  auto* to = static_cast<std::byte*>(coordinates);
  for (const Extent& extent : manifest_.tiles[static_cast<std::size_t>(number)].extents) {
    if (first >= extent.rows) {
      first -= extent.rows;
      continue;
    }
    const std::int64_t here = std::min(count, extent.rows - first);
    if (here <= 0) return;
    const std::uint64_t stored = manifest_.stored_bytes();
    const std::uint64_t bytes = static_cast<std::uint64_t>(here) * stored;
    std::byte* const end = to + static_cast<std::uint64_t>(here) * row_bytes;
    segments_[static_cast<std::size_t>(extent.segment)].read(
        extent.offset + static_cast<std::uint64_t>(first) * stored, end - bytes, bytes);
    if (manifest_.integers) expand_integers(*manifest_.integers, static_cast<std::size_t>(here), to);
    to = end;
    count -= here;
    first = 0;
  }
}

}  // namespace kith::point_tiles
