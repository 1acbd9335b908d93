// PointTiles: folders, what they hold. Answers are in calls_in_memory.cpp and calls_in_files.cpp.
#include "kith/point_tiles.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <sys/stat.h>

#include "core/plural.hpp"
#include "io/point_stream.hpp"
#include "point_tiles/checks.hpp"
#include "point_tiles/folder.hpp"
#include "point_tiles/partition.hpp"
#include "point_tiles/tuning.hpp"

namespace kith {
namespace {

namespace fs = std::filesystem;
using point_tiles::Folder;

std::int64_t checked(const PointTilesParameters& parameters) {
  if (parameters.tile_points != 0 && parameters.tile_points < point_tiles::tuning::least_tile) {
    throw InvalidArgument(fmt::format("{} points a tile; use {} or more, or 0 for the default",
                                      parameters.tile_points, point_tiles::tuning::least_tile));
  }
  return parameters.tile_points;
}

void check_number(const char* what, std::size_t given, std::size_t clouds) {
  if (given == 0 || given == clouds) return;
  throw InvalidArgument(fmt::format("{} of {}, and {}; give one for each, or none", what, given,
                                    plural(static_cast<std::int64_t>(clouds), "file")));
}

std::optional<FileFormat> format_of(const PointTilesParameters& parameters, std::size_t cloud) {
  return parameters.formats.empty() ? std::nullopt : parameters.formats[cloud];
}

// The file as it is now. What came through a pipe is no file that another run finds again, nor is one whose
// time is 0: so programs mark what they write for this call alone.
point_tiles::SourceCloud source_of(const fs::path& cloud, std::int64_t rows,
                                   std::optional<FileFormat> format) {
  point_tiles::SourceCloud source{cloud.string(), rows};
  source.format = format;
  struct stat status {};
  if (::stat(cloud.c_str(), &status) == 0 && S_ISREG(status.st_mode) &&
      !cloud.string().starts_with("/proc/")) {
    source.bytes = static_cast<std::uint64_t>(status.st_size);
    source.modified = std::int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec;
  }
  return source;
}

// A cloud in files: build(stream, sources, execution).
template <class Build>
auto of_files(std::span<const fs::path> clouds, const PointTilesParameters& parameters,
              const Execution& given, const Build& build) {
  const Execution execution = point_tiles::checked_on_cpu(given, "point tiles are made");
  if (clouds.empty()) throw InvalidArgument("no file to build point tiles from; name one or more");
  const auto memory = static_cast<std::uint64_t>(point_tiles::memory_of(execution));
  std::vector<std::unique_ptr<io::PointStream>> parts;
  std::vector<point_tiles::SourceCloud> sources;
  check_number("formats", parameters.formats.size(), clouds.size());
  check_number("sources", parameters.sources.size(), clouds.size());
  for (std::size_t i = 0; i < clouds.size(); ++i) {
    const auto format = format_of(parameters, i);
    // The other half is for the buffers of tiles.
    parts.push_back(io::open_point_stream(clouds[i], memory / 4, format, execution.cancelled));
    // A name of what was unpacked says its format.
    parameters.sources.empty() || parameters.sources[i] == clouds[i]
        ? sources.push_back(source_of(clouds[i], parts.back()->rows(), format))
        : sources.push_back(source_of(parameters.sources[i], parts.back()->rows(), {}));
  }
  const auto cloud = io::concatenate(std::move(parts), clouds);
  return build(*cloud, std::move(sources), execution);
}

// PointTiles of a folder that is open.
struct Opened : PointTiles {
  explicit Opened(std::shared_ptr<const Folder> folder) : PointTiles(std::move(folder)) {}
};

}  // namespace

PointTiles PointTiles::build(const fs::path& folder, std::span<const fs::path> clouds,
                             const PointTilesParameters& parameters, const Execution& given) {
  of_files(clouds, parameters, given,
           [&](io::PointStream& cloud, std::vector<point_tiles::SourceCloud> sources, const Execution& how) {
             point_tiles::partition(cloud, std::move(sources), folder, checked(parameters), how);
           });
  return open(folder);
}

PointTiles point_tiles::build_behind(const fs::path& folder, std::span<const fs::path> clouds,
                                     const PointTilesParameters& parameters, const Execution& given) {
  return of_files(
      clouds, parameters, given,
      [&](io::PointStream& cloud, std::vector<point_tiles::SourceCloud> sources, const Execution& how) {
        return Opened(partition_behind(cloud, std::move(sources), folder, kith::checked(parameters), how));
      });
}

PointTiles PointTiles::build(const fs::path& folder, const DatasetView& rows,
                             const PointTilesParameters& parameters, const Execution& given) {
  const Execution execution = point_tiles::checked_on_cpu(given, "point tiles are made");
  validate(rows, "dataset");
  if (rows.space != MemorySpace::host) {
    throw InvalidArgument(
        "the rows lie in the memory of a GPU, point tiles are built on the CPU; copy them to the host");
  }
  const auto cloud = io::stream_rows(Dataset::adopt(rows, nullptr));
  point_tiles::partition(*cloud, {{"rows in memory", rows.rows}}, folder, checked(parameters), execution);
  return open(folder);
}

PointTiles PointTiles::open(const fs::path& folder) {
  return PointTiles(std::make_shared<const Folder>(folder));
}

bool PointTiles::is_built_from(const fs::path& folder, std::span<const fs::path> clouds,
                               const PointTilesParameters& parameters) {
  if (!is_at(folder)) return false;
  const Folder there(folder);
  const auto& sources = there.manifest().sources;
  if (sources.size() != clouds.size()) return false;
  check_number("formats", parameters.formats.size(), clouds.size());
  for (std::size_t i = 0; i < sources.size(); ++i) {
    if (sources[i].modified == 0) return false;
    if (sources[i] != source_of(clouds[i], sources[i].rows, format_of(parameters, i))) return false;
  }
  return parameters.tile_points == 0 || parameters.tile_points == there.manifest().tile_points;
}

bool PointTiles::is_at(const fs::path& path) {
  return point_tiles::is_folder_of_tiles(path);
}

std::int64_t PointTiles::rows() const noexcept {
  return folder_->manifest().rows;
}
std::int64_t PointTiles::dim() const noexcept {
  return folder_->manifest().dim;
}
Dtype PointTiles::dtype() const noexcept {
  return folder_->manifest().dtype;
}
std::int64_t PointTiles::tiles() const noexcept {
  return static_cast<std::int64_t>(folder_->manifest().tiles.size());
}
std::int64_t PointTiles::tile_points() const noexcept {
  return folder_->manifest().tile_points;
}
std::int64_t PointTiles::nan_rows() const noexcept {
  return folder_->manifest().nan_rows;
}
std::vector<std::int64_t> PointTiles::tile_sizes() const {
  std::vector<std::int64_t> sizes;
  for (const point_tiles::Tile& tile : folder_->manifest().tiles) sizes.push_back(tile.rows);
  return sizes;
}
std::vector<double> PointTiles::bounds() const {
  std::vector<double> bounds;
  const auto d = static_cast<std::size_t>(dim());
  for (const point_tiles::Tile& tile : folder_->manifest().tiles) {
    if (!tile.has_box()) continue;
    if (bounds.empty()) {
      bounds = tile.lower;
      bounds.insert(bounds.end(), tile.upper.begin(), tile.upper.end());
    }
    for (std::size_t j = 0; j < d; ++j) {
      bounds[j] = std::min(bounds[j], tile.lower[j]);
      bounds[d + j] = std::max(bounds[d + j], tile.upper[j]);
    }
  }
  return bounds;
}
std::uint64_t PointTiles::bytes() const noexcept {
  return folder_->bytes();
}
const fs::path& PointTiles::folder() const noexcept {
  folder_->wait();
  return folder_->path();
}

}  // namespace kith
