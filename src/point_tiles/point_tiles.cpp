// PointTiles: checks, and then partition.cpp, sweep.cpp and answers.cpp.
#include "kith/point_tiles.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "core/large_vector.hpp"
#include "core/parallel.hpp"
#include "core/plural.hpp"
#include "core/search_checks.hpp"
#include "core/visit_dtype.hpp"
#include "io/point_stream.hpp"
#include "kith/any_index.hpp"
#include "point_tiles/answers.hpp"
#include "point_tiles/box.hpp"
#include "point_tiles/folder.hpp"
#include "point_tiles/partition.hpp"
#include "point_tiles/sweep.hpp"
#include "point_tiles/tuning.hpp"

namespace kith {
namespace {

namespace fs = std::filesystem;
using point_tiles::Folder;
using point_tiles::Manifest;

void check_execution(const Execution& execution) {
  for (const Device& device : execution.devices) {
    if (device.kind != Device::Kind::cpu) {
      throw InvalidArgument(fmt::format(
          "point tiles are searched on the CPU, the call names {}; use the device cpu", name(device)));
    }
  }
  if (execution.device_memory_limit != 0) {
    throw InvalidArgument(
        "a limit on GPU memory is for searches on GPUs; point tiles are searched on the CPU");
  }
  (void)resolve_threads(execution);
}

void check_options(const TileSearchOptions& options) {
  if (!is_tree_metric(options.metric)) {
    throw InvalidArgument(fmt::format(
        "the metric {} has no bounding boxes, which tiles need; use sqeuclidean, euclidean or manhattan",
        name(options.metric)));
  }
  const IndexType& type = Indexes::get(options.inside);
  if (type.guarantee != Guarantee::exact) {
    throw InvalidArgument(
        fmt::format("the index {} is approximate, and tiles are searched exactly; use kd_tree, octree or "
                    "brute_force inside",
                    type.name));
  }
  if (!(options.radius >= 0)) {
    throw InvalidArgument(
        fmt::format("a radius of {}; use 0 or more, in units of the metric", options.radius));
  }
}

void check_no_self(const TileSearchOptions& options) {
  if (options.include_self) {
    throw InvalidArgument("include_self is for all_knn, whose queries are rows; these queries are none");
  }
}

void check_width(const TileAnswerOptions& answer, std::int64_t rows) {
  if (answer.index_width == IndexWidth::u32 && rows >= std::int64_t{0xFFFFFFFF}) {
    throw InvalidArgument(fmt::format("{} rows have no numbers of 32 bits; write i64", rows));
  }
}

std::int64_t tile_points_of(const PointTilesParameters& parameters, std::uint64_t row_bytes,
                            const Execution& execution) {
  if (parameters.tile_points < 0) {
    throw InvalidArgument(
        fmt::format("{} points a tile; use 1 or more, or 0 for the default", parameters.tile_points));
  }
  if (parameters.tile_points > 0) return parameters.tile_points;
  return point_tiles::default_tile_points(point_tiles::memory_of(execution),
                                          row_bytes + sizeof(std::int64_t));
}

point_tiles::TileMemory memory_of_tiles(const Manifest& manifest, const TileSearchOptions& options) {
  return {manifest.row_bytes(), manifest.dim, manifest.dtype == Dtype::f64,
          options.inside != BruteForce::index_type.name};
}

template <class F>
decltype(auto) visit_distances(Dtype dtype, F&& f) {
  if (dtype == Dtype::f64) return f.template operator()<double>();
  return f.template operator()<float>();
}

class Clock {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// The tile each query begins in: the nearest box, the first of several. -1: a NaN, no tile at all.
template <class T>
std::vector<std::int32_t> first_tiles(const Manifest& manifest, const DatasetView& queries, Metric metric,
                                      const Execution& execution) {
  std::vector<std::int32_t> tiles(static_cast<std::size_t>(queries.rows));
  constexpr std::int64_t part = 1 << 8;
  parallel_for(execution, (queries.rows + part - 1) / part, [&](std::int64_t p) {
    std::vector<double> point(static_cast<std::size_t>(manifest.dim));
    for (std::int64_t i = p * part; i < std::min(queries.rows, (p + 1) * part); ++i) {
      bool finite = true;
      bool nan = false;
      visit_dtype(manifest.dtype, [&]<class Value>(Value) {
        for (std::int64_t j = 0; j < manifest.dim; ++j) {
          const double value = to_double(static_cast<const Value*>(queries.row(i))[j]);
          point[static_cast<std::size_t>(j)] = value;
          finite = finite && std::isfinite(value);
          nan = nan || std::isnan(value);
        }
      });
      std::int32_t nearest = nan || manifest.tiles.empty() ? -1 : 0;
      T least = std::numeric_limits<T>::infinity();
      for (std::size_t t = 0; finite && t < manifest.tiles.size() && least > 0; ++t) {
        const point_tiles::Tile& tile = manifest.tiles[t];
        if (!tile.has_box()) continue;
        const T far = point_tiles::distance_to_box<T>(metric, manifest.dim, point.data(),
                                                      {tile.lower.data(), tile.upper.data()});
        if (far < least) {
          least = far;
          nearest = static_cast<std::int32_t>(t);
        }
      }
      tiles[static_cast<std::size_t>(i)] = nearest;
    }
  });
  return tiles;
}

// Queries that are in memory, whose answers have the places from `place` on: each in the tile it begins in,
// tiles in order.
// @return how many have a NaN
template <class T>
std::int64_t ask(point_tiles::Sweep<T>& sweep, point_tiles::Answers<T>& answers, const Manifest& manifest,
                 const DatasetView& queries, std::int64_t place, std::int64_t k,
                 const point_tiles::MemoryShares& shares, Metric metric, ProgressCounter& progress,
                 const Execution& execution) {
  const std::vector<std::int32_t> first = first_tiles<T>(manifest, queries, metric, execution);
  std::vector<std::int64_t> order(first.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
    return first[static_cast<std::size_t>(a)] < first[static_cast<std::size_t>(b)];
  });
  const auto tile_of = [&](std::size_t i) { return first[static_cast<std::size_t>(order[i])]; };
  const auto row_bytes = static_cast<std::size_t>(manifest.row_bytes());
  std::size_t at = 0;
  std::int64_t nans = 0;
  const std::vector<std::int64_t> no_rows(static_cast<std::size_t>(k), -1);
  const std::vector<T> nowhere(static_cast<std::size_t>(k), std::numeric_limits<T>::infinity());
  for (; at < order.size() && tile_of(at) < 0; ++at) {
    answers.put(place + order[at], 1, no_rows.data(), nowhere.data());
    nans += manifest.tiles.empty() ? 0 : 1;
  }
  progress.advance(static_cast<std::int64_t>(at));
  std::vector<std::int64_t> places;
  for (std::int64_t t = 0; t < static_cast<std::int64_t>(manifest.tiles.size()); ++t) {
    bool searched = false;
    while (at < order.size() && tile_of(at) == t) {
      std::size_t end = at;
      while (end < order.size() && static_cast<std::int64_t>(end - at) < shares.block_rows &&
             tile_of(end) == t)
        ++end;
      const auto count = static_cast<std::int64_t>(end - at);
      Dataset some = Dataset::allocate(manifest.dtype, count, manifest.dim);
      auto* to = static_cast<std::byte*>(some.mutable_data());
      places.clear();
      for (std::size_t i = at; i < end; ++i, to += row_bytes) {
        std::memcpy(to, queries.row(order[i]), row_bytes);
        places.push_back(place + order[i]);
      }
      sweep.search(t, some.view(), places);
      progress.advance(count);
      at = end;
      searched = true;
    }
    if (!searched) sweep.serve(t);
  }
  return nans;
}

}  // namespace

PointTiles PointTiles::build(const fs::path& folder, std::span<const fs::path> clouds,
                             const PointTilesParameters& parameters, const Execution& execution) {
  check_execution(execution);
  if (clouds.empty()) throw InvalidArgument("no file to build point tiles from; name one or more");
  const auto memory = static_cast<std::uint64_t>(point_tiles::memory_of(execution));
  std::vector<std::unique_ptr<io::PointStream>> parts;
  std::vector<point_tiles::SourceCloud> sources;
  for (const fs::path& cloud : clouds) {
    // The other half is for the buffers of tiles.
    parts.push_back(io::open_point_stream(cloud, memory / 4, {}, execution.cancelled));
    sources.push_back({cloud.string(), parts.back()->rows()});
  }
  const auto cloud = io::concatenate(std::move(parts), clouds);
  const std::uint64_t row_bytes = static_cast<std::uint64_t>(cloud->dim()) * size_of(cloud->dtype());
  point_tiles::partition(*cloud, std::move(sources), folder, tile_points_of(parameters, row_bytes, execution),
                         execution);
  return open(folder);
}

PointTiles PointTiles::build(const fs::path& folder, const DatasetView& rows,
                             const PointTilesParameters& parameters, const Execution& execution) {
  check_execution(execution);
  validate(rows, "dataset");
  if (rows.space != MemorySpace::host) {
    throw InvalidArgument(
        "the rows lie in the memory of a GPU, point tiles are built on the CPU; copy them to the host");
  }
  const auto cloud = io::stream_rows(Dataset::adopt(rows, nullptr));
  const std::uint64_t row_bytes = static_cast<std::uint64_t>(rows.dim) * size_of(rows.dtype);
  point_tiles::partition(*cloud, {{"rows in memory", rows.rows}}, folder,
                         tile_points_of(parameters, row_bytes, execution), execution);
  return open(folder);
}

PointTiles PointTiles::open(const fs::path& folder) {
  return PointTiles(std::make_shared<const Folder>(folder));
}

bool PointTiles::is_at(const fs::path& path) {
  return point_tiles::is_folder_of_tiles(path);
}

void PointTiles::verify(const Execution& execution) const {
  const Manifest& manifest = folder_->manifest();
  ProgressCounter progress(execution, "verify", manifest.rows);
  std::vector<bool> seen(static_cast<std::size_t>(manifest.rows));
  const auto fail = [&](std::size_t tile, const std::string& what) {
    return IoError(fmt::format("'{}' is corrupt: tile {} {}; build the tiles again",
                               (folder_->path() / point_tiles::manifest_name).string(), tile, what));
  };
  for (std::size_t t = 0; t < manifest.tiles.size(); ++t) {
    const point_tiles::Tile& tile = manifest.tiles[t];
    const point_tiles::TileData data = point_tiles::read_tile(*folder_, static_cast<std::int64_t>(t));
    for (std::size_t i = 0; i < data.rows.size(); ++i) {
      const std::int64_t row = data.rows[i];
      if (row < 0 || row >= manifest.rows || (i > 0 && row <= data.rows[i - 1]) ||
          seen[static_cast<std::size_t>(row)]) {
        throw fail(t, fmt::format("has the row {} out of place", row));
      }
      seen[static_cast<std::size_t>(row)] = true;
    }
    visit_dtype(manifest.dtype, [&]<class T>(T) {
      for (std::int64_t i = 0; i < tile.rows; ++i) {
        const T* values = static_cast<const T*>(data.coordinates.view().row(i));
        bool finite = true;
        for (std::int64_t j = 0; j < manifest.dim; ++j) {
          const double value = to_double(values[j]);
          finite = finite && std::isfinite(value);
          if (tile.has_box() && !(value >= tile.lower[static_cast<std::size_t>(j)] &&
                                  value <= tile.upper[static_cast<std::size_t>(j)])) {
            throw fail(
                t, fmt::format("has the row {} outside of its box", data.rows[static_cast<std::size_t>(i)]));
          }
        }
        if (finite != tile.has_box()) throw fail(t, "has no box though its rows are finite");
      }
    });
    progress.advance(tile.rows);
  }
  progress.finish();
}

TileAnswer PointTiles::all_knn(const fs::path& output, std::int64_t k, const TileSearchOptions& options,
                               const TileAnswerOptions& answer, const Execution& execution) const {
  const Clock clock;
  check_execution(execution);
  check_options(options);
  check_k(k);
  const Manifest& manifest = folder_->manifest();
  check_width(answer, manifest.rows);
  const std::int64_t limit = point_tiles::memory_of(execution);
  const point_tiles::MemoryShares shares(manifest, memory_of_tiles(manifest, options), k, limit,
                                         execution.memory_limit > 0);
  return visit_distances(manifest.dtype, [&]<class T>() {
    using Files = point_tiles::AnswersInFiles<T>;
    const std::int64_t bucket = limit / 2 / Files::list_bytes(k, answer.index_width);
    Files files(output, k, tile_sizes(), answer, bucket);
    TileAnswer result;
    {
      point_tiles::Sweep<T> sweep(*folder_, options, k, shares, output, files, execution);
      ProgressCounter progress(execution, "all-knn", manifest.rows);
      point_tiles::ReadAhead ahead(*folder_);
      for (std::int64_t t = 0; t < tiles(); ++t) {
        const point_tiles::TileData data = ahead.take(t);
        sweep.count_read(t);
        files.put_rows(t, data.rows);
        sweep.join(data, files.place(t));
        progress.advance(manifest.tiles[static_cast<std::size_t>(t)].rows);
      }
      sweep.finish();
      progress.finish();
      result.statistics = sweep.statistics();
    }
    result.files = files.finish(execution);
    result.statistics.seconds = clock.seconds();
    return result;
  });
}

std::pair<Neighbors, TileStatistics> PointTiles::search_with_statistics(const DatasetView& queries,
                                                                        std::int64_t k,
                                                                        const TileSearchOptions& options,
                                                                        const Execution& execution) const {
  const Clock clock;
  check_execution(execution);
  check_options(options);
  validate(queries, "queries");
  if (queries.space != MemorySpace::host) {
    throw InvalidArgument(
        "the queries lie in the memory of a GPU, point tiles are searched on the CPU; copy them");
  }
  check_no_self(options);
  check_k(k);
  const Manifest& manifest = folder_->manifest();
  check_queries_fit(queries, manifest.dim, manifest.dtype, "index point_tiles");
  const std::size_t cell = sizeof(std::int64_t) + size_of(distance_dtype(manifest.dtype));
  constexpr std::int64_t order_bytes = 4 + 8;
  const auto answer_values = static_cast<int128>(queries.rows) * k;
  check_answer_memory(answer_values, cell, plural(queries.rows, "query", "queries"), "the answer", execution);
  const std::int64_t held = queries.rows * (k * static_cast<std::int64_t>(cell) + order_bytes);
  const point_tiles::MemoryShares shares(manifest, memory_of_tiles(manifest, options), k,
                                         point_tiles::memory_of(execution), execution.memory_limit > 0, held);
  return visit_distances(manifest.dtype, [&]<class T>() {
    Neighbors out;
    out.queries = queries.rows;
    out.k = k;
    out.indices = large_vector<std::int64_t>(queries.rows * k, execution, -1);
    auto distances = large_vector<T>(queries.rows * k, execution, std::numeric_limits<T>::infinity());
    TileStatistics statistics;
    {
      point_tiles::AnswersInMemory<T> answers(k, out.indices, distances);
      const fs::path spill = fs::temp_directory_path() / "kith-search";
      point_tiles::Sweep<T> sweep(*folder_, options, k, shares, spill, answers, execution);
      ProgressCounter progress(execution, "search", queries.rows);
      const std::int64_t nans =
          ask(sweep, answers, manifest, queries, 0, k, shares, options.metric, progress, execution);
      sweep.finish();
      progress.finish();
      statistics = sweep.statistics();
      statistics.queries = queries.rows;
      statistics.nan_queries = nans;
    }
    out.distances = std::move(distances);
    statistics.seconds = clock.seconds();
    out.statistics.index = type_name;
    out.statistics.filter = "";
    out.statistics.nan_rows = statistics.nan_rows;
    out.statistics.nan_queries = statistics.nan_queries;
    out.statistics.seconds = statistics.seconds;
    return std::pair(std::move(out), statistics);
  });
}

TileAnswer PointTiles::search_tiles(const fs::path& output, const PointTiles& queries, std::int64_t k,
                                    const TileSearchOptions& options, const TileAnswerOptions& answer,
                                    const Execution& execution) const {
  const Clock clock;
  check_execution(execution);
  check_options(options);
  check_no_self(options);
  check_k(k);
  const Manifest& manifest = folder_->manifest();
  const Manifest& asked = queries.folder_->manifest();
  check_width(answer, std::max(manifest.rows, asked.rows));
  if (asked.dim != manifest.dim || asked.dtype != manifest.dtype) {
    throw InvalidArgument(
        fmt::format("the queries are {} of dimension {}, the tiles {} of dimension {}; they must be the same",
                    name(asked.dtype), asked.dim, name(manifest.dtype), manifest.dim));
  }
  const std::int64_t limit = point_tiles::memory_of(execution);
  // Of a tile of queries its rows, their numbers and order, and the tile each begins in.
  const std::int64_t largest = asked.largest_tile();
  const std::int64_t held = memory_of_tiles(asked, options).data(largest) + largest * (4 + 8 + 8);
  const point_tiles::MemoryShares shares(manifest, memory_of_tiles(manifest, options), k, limit,
                                         execution.memory_limit > 0, held);
  return visit_distances(manifest.dtype, [&]<class T>() {
    using Files = point_tiles::AnswersInFiles<T>;
    Files files(output, k, queries.tile_sizes(), answer,
                limit / 2 / Files::list_bytes(k, answer.index_width));
    TileAnswer result;
    {
      point_tiles::Sweep<T> sweep(*folder_, options, k, shares, output, files, execution);
      ProgressCounter progress(execution, "search", asked.rows);
      std::int64_t nans = 0;
      for (std::int64_t t = 0; t < queries.tiles(); ++t) {
        const point_tiles::TileData data = point_tiles::read_tile(*queries.folder_, t);
        files.put_rows(t, data.rows);
        nans += ask(sweep, files, manifest, data.coordinates.view(), files.place(t), k, shares,
                    options.metric, progress, execution);
      }
      sweep.finish();
      progress.finish();
      result.statistics = sweep.statistics();
      result.statistics.queries = asked.rows;
      result.statistics.nan_queries = nans;
    }
    result.files = files.finish(execution);
    result.statistics.seconds = clock.seconds();
    return result;
  });
}

Neighbors PointTiles::search(const DatasetView& queries, std::int64_t k, const TileSearchOptions& options,
                             const Execution& execution) const {
  return search_with_statistics(queries, k, options, execution).first;
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
  return folder_->path();
}

}  // namespace kith
