// Normals and outliers of tiles back into the files of points: found into a file beside the output first.
#include <memory>
#include <string>

#include <fmt/format.h>

#include "point_output.hpp"
#include "point_tiles/journal.hpp"
#include "stream.hpp"
#include "unpacked.hpp"

namespace kith::cli {
namespace {

nlohmann::json task_of(const Neighborhood& near, const std::optional<std::vector<double>>& viewpoint,
                       const std::string& tiles) {
  return {{"call", "normals"},
          {"tiles", tiles},
          {"k", near.k},
          {"radius", near.radius},
          {"viewpoint", viewpoint ? nlohmann::json(*viewpoint) : nlohmann::json()}};
}

}  // namespace

// What the file read has beside coordinates and the file written will lack.
void note_what_is_lost(const Common& common, const Source& points, const std::string& output) {
  const bool packed = is_packed(shown(points.path)) && !points.format;  // its attributes are not unpacked
  if (packed || (points.format ? *points.format : guess_format(points.path)) == FileFormat::las) {
    const char* remedy = reader_of(shown(points.path)) == Reader::e57
                             ? "convert it to LAS, which keeps them, and name that"
                             : "write .las or .laz to keep them";
    note(common, fmt::format("of the attributes of {} only x, y and z are written to {}; {}",
                             shown(points.path), shown_output(output), remedy));
    return;
  }
  for (const auto& [key, value] : inspect(points.path, points.format).details) {
    if ((key != "properties" && key != "fields") || value == "x y z") continue;
    note(common, fmt::format("of {} in {} ({}) only x, y and z are written to {}", key, shown(points.path),
                             value, shown_output(output)));
  }
}

namespace {

// Of LAZ and E57 that tiles were made of coordinates alone are read as of others: unpacked.
std::vector<std::string*> coordinates_wanted(std::vector<PointTarget>& targets) {
  std::vector<std::string*> paths;
  for (PointTarget& target : targets) {
    if (target.way == PointTarget::Way::coordinates && !target.read_as) paths.push_back(&target.readable);
  }
  return paths;
}

// What the run before has noted. @return false where it is nothing that a run notes
bool outliers_from(const nlohmann::json& noted, std::int64_t rows, TileOutliers& found) {
  using point_tiles::member;
  try {
    found.outliers = point_tiles::whole(member(noted, "outliers"), "outliers", 0, rows);
    found.alone = point_tiles::whole(member(noted, "alone"), "alone", 0, found.outliers);
    // As text, which holds a NaN as well.
    found.mean = point_tiles::real(member(noted, "mean"), "mean");
    found.deviation = point_tiles::real(member(noted, "deviation"), "deviation");
    found.threshold = point_tiles::real(member(noted, "threshold"), "threshold");
    return true;
  } catch (const point_tiles::BadRecord&) {
    found = {};
    return false;
  }
}

void note_what_is_lost(const Common& common, const std::vector<PointTarget>& targets) {
  for (const PointTarget& target : targets) {
    if (target.way != PointTarget::Way::coordinates) continue;
    Source source;
    source.path = target.readable;
    source.format = target.read_as;
    kith::cli::note_what_is_lost(common, source, target.path.string());
  }
}

}  // namespace

// The normals of tiles into a file beside the output, and from there into the points' files.
TileAnswer normals_with_points(const Common& common, const PointsWanted& wanted, const PointTiles& tiles,
                               const Neighborhood& near, const std::optional<std::vector<double>>& viewpoint,
                               const TileSearchOptions& search, const Execution& execution) {
  auto targets = plan_targets(files_of(tiles, wanted.clouds), wanted.output, wanted.format);
  Intermediate between(wanted.output, ".kith-normals.npy", task_of(near, viewpoint, fingerprint_of(tiles)));
  TileAnswer answer;
  if (const auto before = between.finished()) {
    answer.statistics = tile_statistics(tiles);
  } else {
    answer = tiles.normals(between.path(), near, viewpoint, search, {}, execution);
  }
  between.finish(nullptr);
  write_through(between, [&] {
    const UnpackedClouds unpacked(common, coordinates_wanted(targets), wanted.output, "");
    const auto values = io::open_point_stream(between.path(), 0);
    io::PointChanges changes;
    changes.values = values.get();
    write_targets(common, targets, changes);
    note_what_is_lost(common, targets);
  });
  answer.files.clear();
  for (const PointTarget& target : targets) answer.files.push_back(target.path);
  return answer;
}

// The flags of tiles into a file beside the output, and the points that remain from file to file.
TileOutliers outliers_with_points(const Common& common, const PointsWanted& wanted, const PointTiles& tiles,
                                  const Neighborhood& near, double ratio, const TileSearchOptions& search,
                                  const Execution& execution) {
  auto targets = plan_targets(files_of(tiles, wanted.clouds), wanted.output, wanted.format);
  const std::string between_suffix = ".kith-outliers.npy";
  Intermediate between(wanted.output, between_suffix,
                       {{"call", "outliers"},
                        {"tiles", fingerprint_of(tiles)},
                        {"k", near.k},
                        {"radius", near.radius},
                        {"ratio", ratio},
                        {"metric", name(search.metric)}});
  TileOutliers found;
  if (const auto before = between.finished(); before && outliers_from(*before, tiles.rows(), found)) {
    found.statistics = tile_statistics(tiles);
  } else {
    TileOutlierFiles files;
    files.outlier = between.path();
    found = tiles.outliers(files, near, ratio, search, execution);
  }
  between.finish({{"outliers", found.outliers},
                  {"alone", found.alone},
                  {"mean", fmt::format("{}", found.mean)},
                  {"deviation", fmt::format("{}", found.deviation)},
                  {"threshold", fmt::format("{}", found.threshold)}});
  write_through(between, [&] {
    const UnpackedClouds unpacked(common, coordinates_wanted(targets), wanted.output, "");
    io::PointChanges changes;
    changes.dropped = flags_of(between.path(), tiles.rows());
    write_targets(common, targets, changes);
    note_what_is_lost(common, targets);
  });
  return found;
}

}  // namespace kith::cli
