// Hands bytes to what reads manifests and journals of point tiles, with checksums that are right, so that the
// fuzzer comes past them. Anything but an answer or an exception of Kith is a fault.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>
#include <xxhash.h>
#include <nlohmann/json.hpp>

#include "fuzz/harness.hpp"
#include "fuzz/seeds.hpp"
#include "point_tiles/folder.hpp"
#include "point_tiles/journal.hpp"
#include "point_tiles/work_folder.hpp"

namespace kith::fuzz {

inline std::string hex_hash(std::string_view text) {
  return fmt::format("{:016x}", XXH3_64bits(text.data(), text.size()));
}

/// Version, a space, and the content of a manifest.
inline std::string as_manifest(std::string_view bytes) {
  const std::string_view version = bytes.starts_with('2') ? "2" : "1";
  const std::string_view content = bytes.substr(std::min<std::size_t>(bytes.size(), 2));
  return fmt::format(R"({{"format":"kith point tiles","version":{},"xxh3":"{}","content":{}}})"
                     "\n",
                     version, hex_hash(content), content);
}

inline void check_manifest(const point_tiles::Manifest& manifest) {
  std::int64_t rows = 0;
  for (const point_tiles::Tile& tile : manifest.tiles) {
    require(!tile.has_box() || static_cast<std::int64_t>(tile.lower.size()) == manifest.dim,
            "a box has sides");
    std::int64_t held = 0;
    for (const point_tiles::Extent& extent : tile.extents) {
      require(extent.segment >= 0 && extent.segment < static_cast<std::int64_t>(manifest.segments.size()),
              "an extent has a segment");
      const std::uint64_t bytes = static_cast<std::uint64_t>(extent.rows) * manifest.record_bytes();
      const std::uint64_t all = manifest.segments[static_cast<std::size_t>(extent.segment)].bytes;
      require(extent.rows > 0 && bytes <= all && extent.offset <= all - bytes,
              "an extent lies in its segment");
      held += extent.rows;
    }
    require(held == tile.rows, "extents are a tile's rows");
    rows += tile.rows;
  }
  require(rows == manifest.rows, "tiles are all rows");
  // What was read can be written, and is the same again.
  const std::string text = point_tiles::to_text(manifest);
  require(point_tiles::to_text(point_tiles::parse_manifest(text, "again")) == text,
          "a manifest stays as it is");
}

/// True where it was one.
inline bool try_manifest(std::string_view text) {
  try {
    check_manifest(point_tiles::parse_manifest(text, "input"));
    return true;
  } catch (const Error& error) {
    require(error.what()[0] != '\0', "an error says something");
    return false;
  }
}

inline nlohmann::json fuzzed_task() {
  return {{"call", "fuzz"}};
}

/// Lines of JSON, as a journal has them, behind a first one that names the task.
inline std::string as_journal(std::string_view bytes) {
  std::string journal;
  const auto add = [&](std::string_view line) { journal += fmt::format("{} {}\n", hex_hash(line), line); };
  add(nlohmann::json({{"format", "kith work"}, {"version", 3}, {"task", fuzzed_task()}, {"resumable", true}})
          .dump());
  for (std::size_t at = 0; at < bytes.size();) {
    const std::size_t end = std::min(bytes.find('\n', at), bytes.size());
    add(bytes.substr(at, end - at));
    at = end + 1;
  }
  return journal;
}

inline void read_record(const nlohmann::json& record) {
  constexpr std::int64_t tiles = 5;
  constexpr std::int64_t queries = 1000;
  constexpr std::int64_t dim = 3;
  constexpr std::int64_t capacity = 100;
  constexpr std::int64_t row_bytes = 32;
  constexpr std::uint64_t end = 100'000;
  if (record.contains("sweep")) {
    int file = 0;
    const auto saved = point_tiles::sweep_from(record["sweep"], tiles, queries, file);
    require(saved.next >= 0 && saved.next <= tiles && (file == 0 || file == 1), "a sweep goes on at a tile");
  }
  if (record.contains("splitters")) {
    const auto splitters = point_tiles::splitters_from(record["splitters"], tiles, dim);
    for (const double far : {0.0, 1e300, -1e300}) {
      const double point[dim] = {far, -far, 0.5};
      const std::int64_t tile = splitters.tile_of(point);
      require(tile >= 0 && tile < tiles, "planes lead to a tile");
    }
  }
  if (record.contains("extents")) {
    for (const auto& piece : record["extents"]) {
      const auto dealt = point_tiles::dealt_from(piece, tiles, capacity, row_bytes, end, dim);
      require(dealt.tile < tiles && dealt.extent.rows <= capacity &&
                  dealt.extent.offset + static_cast<std::uint64_t>(dealt.extent.rows * row_bytes) <= end,
              "an extent is some of a segment");
    }
  }
  if (record.contains("searched")) (void)point_tiles::statistics_from(record["searched"]);
}

inline bool try_journal(std::string_view journal) {
  static const std::filesystem::path folder = [] {
    std::string name = (std::filesystem::temp_directory_path() / "kith-fuzz-XXXXXX").string();
    require(::mkdtemp(name.data()) != nullptr, "a folder");
    static const std::string made = name;
    (void)std::atexit([] {
      std::error_code ignored;
      std::filesystem::remove_all(made, ignored);
    });
    return std::filesystem::path(name);
  }();
  const std::filesystem::path answer = folder / "answer";
  const std::filesystem::path work = point_tiles::WorkFolder::place_of(answer);
  std::filesystem::create_directory(work);
  std::ofstream(work / "journal", std::ios::binary) << journal;
  bool read = false;
  try {
    point_tiles::WorkFolder opened(answer, fuzzed_task());
    point_tiles::resumably(opened, [&] {
      nlohmann::json result;
      for (const nlohmann::json& record : opened.records()) read_record(record);
      (void)opened.was_finished({{"answer", answer}}, result);
      read = !opened.records().empty();
    });
  } catch (const Error& error) {
    require(std::string_view(error.what()).find(work.filename().string()) != std::string_view::npos,
            "an error names the work");
  }
  std::filesystem::remove_all(work);
  return read;
}

/// Starting points, as the fuzzers take them.
inline std::map<std::string, std::vector<Seed>> tile_seeds() {
  using nlohmann::json;
  point_tiles::Manifest manifest;
  manifest.dim = 3;
  manifest.rows = 3;
  manifest.tile_points = 16;
  manifest.sources = {{"cloud.las", 3, 160, 1'700'000'000'000'000'000, FileFormat::las}};
  manifest.segments = {{"segment-0.bin", 3 * 20}};
  manifest.tiles = {{2, {0, 0, 0}, {1, 1, 1}, {{0, 0, 2, 7}}}, {1, {}, {}, {{0, 40, 1, 9}}}};
  const auto content = [](const point_tiles::Manifest& of, char version) {
    const std::string text = point_tiles::to_text(of);
    const std::size_t begin = text.find("\"content\":") + 10;
    return std::string{version, ' '} + text.substr(begin, text.size() - begin - 2);
  };
  const std::string first = content(manifest, '1');
  manifest.dtype = Dtype::f64;
  manifest.integers = io::IntegerScale{{0.001, 0.001, 0.001}, {1, 2, 3}};
  point_tiles::SavedSweep sweep;
  sweep.next = 3;
  sweep.waiting_bytes = 100;
  sweep.waiting_hash = ~std::uint64_t{0};
  const point_tiles::Splitters splitters(
      {{0, 0.5, 1, 2}, {1, 0.5, -1, -2}, {2, 0.25, 3, -5}, {0, 0.75, -3, -4}}, 5);
  const json column = json::array({128, "0123456789abcdef"});
  const json swept = {{"sweep", point_tiles::to_json(sweep, 1)},
                      {"lists", {0, 0}},
                      {"columns", {{"indices", column}, {"rows", column}}}};
  const json dealt = {{"dealt", 0},
                      {"rows", 100},
                      {"nans", 1},
                      {"end", 3200},
                      {"extents",
                       {point_tiles::to_json(1, {0, 0, 99, 5}, {{0, 0, 0}, {1, 1, 1}}),
                        point_tiles::to_json(4, {0, 3168, 1, 5}, {})}}};
  const json deal = {{"deal", 0},  {"tile_points", 16}, {"splitters", point_tiles::to_json(splitters)},
                     {"tiles", 5}, {"capacity", 100},   {"checkpoint", 1000}};
  const json moves = {{"moves", json::array({json::array({"answer", "/tmp/answer"})})}, {"result", nullptr}};
  return {{"tiles-manifest", {{"version-1", first}, {"version-2", content(manifest, '2')}}},
          {"tiles-journal",
           {{"sweep", swept.dump() + "\n" + json({{"searched", swept["sweep"]["statistics"]}}).dump() + "\n"},
            {"partition", deal.dump() + "\n" + dealt.dump() + "\n"},
            {"finished", moves.dump() + "\n"}}}};
}

}  // namespace kith::fuzz
