// Normals and outliers of tiles back into the files of points: found into a file beside the output first.
#include <memory>
#include <string>

#include <fmt/format.h>

#include "point_output.hpp"
#include "stream.hpp"

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
  for (const auto& [key, value] : inspect(points.path, points.format).details) {
    if ((key != "properties" && key != "fields") || value == "x y z") continue;
    note(common, fmt::format("of {} in {} ({}) only x, y and z are written to {}", key, shown(points.path),
                             value, shown_output(output)));
  }
}

// The normals of tiles into a file beside the output, and from there into the points' files.
TileAnswer normals_with_points(const Common& common, const PointsWanted& wanted, const PointTiles& tiles,
                               const Neighborhood& near, const std::optional<std::vector<double>>& viewpoint,
                               const TileSearchOptions& search, const Execution& execution) {
  const auto targets = plan_targets(files_of(tiles, wanted.clouds), wanted.output, wanted.format);
  Intermediate between(wanted.output, ".kith-normals.npy", task_of(near, viewpoint, fingerprint_of(tiles)));
  TileAnswer answer;
  if (const auto before = between.finished()) {
    answer.statistics = tile_statistics(tiles);
  } else {
    answer = tiles.normals(between.path(), near, viewpoint, search, {}, execution);
  }
  between.finish(nullptr);
  write_through(between, [&] {
    const auto values = io::open_point_stream(between.path(), 0);
    io::PointChanges changes;
    changes.values = values.get();
    write_targets(common, targets, changes);
  });
  answer.files.clear();
  for (const PointTarget& target : targets) answer.files.push_back(target.path);
  return answer;
}

// The flags of tiles into a file beside the output, and the points that remain from file to file.
TileOutliers outliers_with_points(const Common& common, const PointsWanted& wanted, const PointTiles& tiles,
                                  const Neighborhood& near, double ratio, const TileSearchOptions& search,
                                  const Execution& execution) {
  const CloudFiles clouds = files_of(tiles, wanted.clouds);
  const auto targets = plan_targets(clouds, wanted.output, wanted.format);
  const std::string between_suffix = ".kith-outliers.npy";
  Intermediate between(wanted.output, between_suffix,
                       {{"call", "outliers"},
                        {"tiles", fingerprint_of(tiles)},
                        {"k", near.k},
                        {"radius", near.radius},
                        {"ratio", ratio},
                        {"metric", name(search.metric)}});
  TileOutliers found;
  if (const auto before = between.finished()) {
    found.statistics = tile_statistics(tiles);
    found.outliers = before->at("outliers").get<std::int64_t>();
    found.alone = before->at("alone").get<std::int64_t>();
    // As text, which holds a NaN as well.
    found.mean = std::stod(before->at("mean").get<std::string>());
    found.deviation = std::stod(before->at("deviation").get<std::string>());
    found.threshold = std::stod(before->at("threshold").get<std::string>());
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
    io::PointChanges changes;
    changes.dropped = flags_of(between.path(), tiles.rows());
    write_targets(common, targets, changes);
  });
  if (targets.front().way == PointTarget::Way::coordinates) {
    for (const std::string& cloud : clouds.readable) {
      Source source;
      source.path = cloud;
      note_what_is_lost(common, source, wanted.output);
    }
  }
  return found;
}

}  // namespace kith::cli
