// PointTiles' answers in memory, of queries from outside and of the rows of some tiles.
#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "core/large_vector.hpp"
#include "core/plural.hpp"
#include "core/search_checks.hpp"
#include "kith/error.hpp"
#include "kith/point_tiles.hpp"
#include "point_tiles/answers.hpp"
#include "point_tiles/asking.hpp"
#include "point_tiles/checks.hpp"
#include "point_tiles/partition.hpp"
#include "point_tiles/radius_lists.hpp"

namespace kith {
namespace {

namespace fs = std::filesystem;
using point_tiles::Folder;
using point_tiles::Manifest;
using point_tiles::MemoryShares;
using point_tiles::Question;

// Of a query its order, and the tile it begins in.
constexpr std::int64_t order_bytes = 4 + 8;

template <class T>
TileStatistics ask_all(const Folder& folder, const Question& question, const MemoryShares& shares,
                       const DatasetView& queries, const char* stage, point_tiles::Answers<T>& answers,
                       const Execution& execution) {
  const auto start = std::chrono::steady_clock::now();
  point_tiles::Sweep<T> sweep(folder, question, shares, fs::temp_directory_path() / "kith-search", false,
                              answers, execution);
  ProgressCounter progress(execution, stage, queries.rows);
  const std::int64_t nans = point_tiles::ask(sweep, answers, folder.manifest(), question, queries, 0,
                                             shares.block_rows, progress, execution);
  sweep.finish(0, [](std::uint64_t) {});
  progress.finish();
  TileStatistics statistics = sweep.statistics();
  statistics.queries = queries.rows;
  statistics.nan_queries = nans;
  statistics.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return statistics;
}

SearchStatistics as_search(const TileStatistics& statistics) {
  SearchStatistics out;
  out.index = PointTiles::type_name;
  out.nan_rows = statistics.nan_rows;
  out.nan_queries = statistics.nan_queries;
  out.seconds = statistics.seconds;
  return out;
}

}  // namespace

std::pair<Neighbors, TileStatistics> PointTiles::search_with_statistics(const DatasetView& queries,
                                                                        std::int64_t k,
                                                                        const TileSearchOptions& options,
                                                                        const Execution& given) const {
  const Execution execution = point_tiles::checked(given);
  point_tiles::check_options(options);
  point_tiles::check_no_self(options);
  const Question question = point_tiles::nearest_of(k, options);
  const Manifest& manifest = folder_->manifest();
  point_tiles::check_queries(manifest, queries);
  const std::size_t cell = sizeof(std::int64_t) + size_of(distance_dtype(manifest.dtype));
  check_answer_memory(static_cast<int128>(queries.rows) * k, cell, plural(queries.rows, "query", "queries"),
                      "the answer", execution);
  const std::int64_t held = queries.rows * (k * static_cast<std::int64_t>(cell) + order_bytes);
  const MemoryShares shares(manifest, question, execution, held);
  return point_tiles::visit_distances(manifest.dtype, [&]<class T>() {
    Neighbors out;
    out.queries = queries.rows;
    out.k = k;
    out.indices = large_vector<std::int64_t>(queries.rows * k, execution, -1);
    auto distances = large_vector<T>(queries.rows * k, execution, std::numeric_limits<T>::infinity());
    point_tiles::NearestInMemory<T> answers(k, out.indices, distances);
    const TileStatistics statistics =
        ask_all<T>(*folder_, question, shares, queries, "search", answers, execution);
    out.distances = std::move(distances);
    out.statistics = as_search(statistics);
    return std::pair(std::move(out), statistics);
  });
}

Neighbors PointTiles::search(const DatasetView& queries, std::int64_t k, const TileSearchOptions& options,
                             const Execution& execution) const {
  return search_with_statistics(queries, k, options, execution).first;
}

std::pair<Neighbors, std::vector<std::int64_t>> PointTiles::all_knn_of_tiles(std::int64_t first,
                                                                             std::int64_t last,
                                                                             std::int64_t k,
                                                                             const TileSearchOptions& options,
                                                                             const Execution& given) const {
  const Execution execution = point_tiles::checked(given);
  point_tiles::check_options(options);
  if (first < 0 || last < first || last > tiles()) {
    throw InvalidArgument(fmt::format("tiles {} to {} of {}; use 0 to {}, the last one excluded", first, last,
                                      tiles(), tiles()));
  }
  const Question question = point_tiles::nearest_of(k, options);
  const Manifest& manifest = folder_->manifest();
  std::int64_t rows = 0;
  std::int64_t largest = 0;
  for (std::int64_t t = first; t < last; ++t) {
    rows += manifest.tiles[static_cast<std::size_t>(t)].rows;
    largest = std::max(largest, manifest.tiles[static_cast<std::size_t>(t)].rows);
  }
  const std::size_t cell = sizeof(std::int64_t) + size_of(distance_dtype(manifest.dtype));
  check_answer_memory(static_cast<int128>(rows) * k, cell, plural(rows, "row"), "the answer", execution);
  const std::int64_t tile = point_tiles::memory_of_tiles(manifest, question, false).data(largest);
  const std::int64_t held = rows * (k * static_cast<std::int64_t>(cell) + 8) + tile;
  const MemoryShares shares(manifest, question, execution, held);
  return point_tiles::visit_distances(manifest.dtype, [&]<class T>() {
    const auto start = std::chrono::steady_clock::now();
    Neighbors out;
    out.queries = rows;
    out.k = k;
    out.indices = large_vector<std::int64_t>(rows * k, execution, -1);
    auto distances = large_vector<T>(rows * k, execution, std::numeric_limits<T>::infinity());
    std::vector<std::int64_t> numbers;
    numbers.reserve(static_cast<std::size_t>(rows));
    point_tiles::NearestInMemory<T> answers(k, out.indices, distances);
    point_tiles::Sweep<T> sweep(*folder_, question, shares, fs::temp_directory_path() / "kith-search", false,
                                answers, execution);
    ProgressCounter progress(execution, "all-kNN", rows);
    for (std::int64_t t = first; t < last; ++t) {
      // Not by the sweep's reader, which would go on to tiles that may not be needed.
      point_tiles::TileData data = point_tiles::read_tile(*folder_, t);
      const std::int64_t count = data.rows.size();
      const auto place = static_cast<std::int64_t>(numbers.size());
      numbers.insert(numbers.end(), data.rows.begin(), data.rows.end());
      sweep.join({std::move(data), nullptr, nullptr}, place);
      progress.advance(count);
    }
    // Of the others only those that somebody waits for.
    for (std::int64_t t = last; t < tiles(); ++t) sweep.serve(t);
    sweep.finish(0, [](std::uint64_t) {});
    progress.finish();
    TileStatistics statistics = sweep.statistics();
    statistics.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    out.distances = std::move(distances);
    out.statistics = as_search(statistics);
    return std::pair(std::move(out), std::move(numbers));
  });
}

RadiusNeighbors PointTiles::radius_search(const DatasetView& queries, double radius,
                                          const RadiusOptions& how_many, const TileSearchOptions& options,
                                          const Execution& given) const {
  const Execution execution = point_tiles::checked(given);
  point_tiles::check_options(options);
  const Question question = point_tiles::within_of(radius, how_many.max_neighbors, rows(), options);
  point_tiles::check_sorted(how_many, {});
  const Manifest& manifest = folder_->manifest();
  point_tiles::check_queries(manifest, queries);
  // Half of what is left is for the answer, whose size nobody knows.
  constexpr std::int64_t a_list = 64;
  const std::int64_t offsets = queries.rows * (order_bytes + a_list);
  const std::int64_t budget = (point_tiles::memory_of(execution) - offsets) / 2;
  const MemoryShares shares(manifest, question, execution, std::max<std::int64_t>(0, budget) + offsets);
  return point_tiles::visit_distances(manifest.dtype, [&]<class T>() {
    point_tiles::RadiusInMemory<T> answers(queries.rows, budget);
    const TileStatistics statistics =
        ask_all<T>(*folder_, question, shares, queries, "radius search", answers, execution);
    RadiusNeighbors out = answers.take();
    out.statistics = as_search(statistics);
    return out;
  });
}

std::vector<std::int64_t> PointTiles::count_within(const DatasetView& queries, double radius,
                                                   const TileSearchOptions& options,
                                                   const Execution& given) const {
  const Execution execution = point_tiles::checked(given);
  point_tiles::check_options(options);
  const Question question = point_tiles::count_of(radius, options);
  const Manifest& manifest = folder_->manifest();
  point_tiles::check_queries(manifest, queries);
  const MemoryShares shares(manifest, question, execution, queries.rows * (order_bytes + 8));
  auto counts = large_vector<std::int64_t>(queries.rows, execution);
  point_tiles::visit_distances(manifest.dtype, [&]<class T>() {
    point_tiles::Counts<T> answers(counts);
    (void)ask_all<T>(*folder_, question, shares, queries, "count", answers, execution);
  });
  return counts;
}

}  // namespace kith
