// What lists leave out, tried on rows: of a sample before any are made, and of all rows afterwards.
#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "brute_force/partition.hpp"
#include "brute_force/real_bound.hpp"
#include "core/parallel.hpp"
#include "core/sample.hpp"
#include "distance/canonical.hpp"
#include "select_k/top_k.hpp"

namespace kith::brute_force {
namespace {

constexpr std::int64_t queries_of_a_trial = 32;
/// Fewer than clusters would hold several each, and leave little out: of 100 clusters 32 lists left out half,
/// 128 left out 0.9.
constexpr std::int64_t lists_of_a_sample = 128;
/// Longer rows are divided by all threads together: waking them for every step takes some milliseconds.
constexpr std::int64_t short_row = 256;
/// Rows of a sample in clusters look at this share of it at most.
constexpr double clustered_share = 0.4;

// Looks through lists in the order of a search, for so many neighbours of a row of the data.
Visited visited_by(const Partition& partition, const DatasetView& data, std::int64_t row,
                   std::int64_t count) {
  const Metric metric = partition.space.metric;
  std::vector<double> values(static_cast<std::size_t>(canonical_padded(data.dim)));
  const CanonicalQuery query =
      prepare_canonical_query(data.row(row), data.dtype, data.dim, metric, values.data());
  ListDistances distances(partition);
  if (distances.look(values.data()) != codes::RowKind::regular)
    return {static_cast<double>(data.rows), static_cast<double>(partition.lists())};
  std::vector<std::pair<double, std::int64_t>> order;
  for (std::int64_t list = 0; list < partition.lists(); ++list)
    order.emplace_back(distances.least(list), list);
  std::sort(order.begin(), order.end());
  Visited visited;
  TopK<double> nearest(count + 1);  // the row itself is one
  std::vector<double> found;
  for (const auto& [least, list] : order) {
    if (least > distances.reach(real_bound(nearest.bound(), metric, data.dim))) break;
    const std::int64_t size = partition.size_of(list);
    visited.rows += static_cast<double>(size);
    visited.lists += 1;
    // Enough is known where nothing is left out.
    if (visited.rows > static_cast<double>(data.rows) / 2) break;
    found.resize(static_cast<std::size_t>(size));
    canonical_function(data.dtype, metric)(canonical_rows(data), query, partition.rows_of(list), size,
                                           found.data());
    for (std::int64_t j = 0; j < size; ++j) {
      if (!std::isnan(found[static_cast<std::size_t>(j)]))
        nearest.offer(found[static_cast<std::size_t>(j)], partition.rows_of(list)[j]);
    }
  }
  return visited;
}

std::optional<bool> forced;

}  // namespace

void force_lists(std::optional<bool> go) {
  forced = go;
}

std::optional<bool> lists_forced() {
  return forced;
}

Visited visited_by_some(const Partition& partition, const DatasetView& data, std::int64_t count,
                        const Execution& execution) {
  const std::vector<std::int64_t> queries = sample_rows(data.rows, queries_of_a_trial);
  std::vector<Visited> each(queries.size());
  parallel_for(execution, std::ssize(queries), [&](std::int64_t i) {
    each[static_cast<std::size_t>(i)] =
        visited_by(partition, data, queries[static_cast<std::size_t>(i)], count);
  });
  Visited mean;
  for (const Visited& its : each) {
    mean.rows += its.rows / static_cast<double>(each.size());
    mean.lists += its.lists / static_cast<double>(each.size());
  }
  return mean;
}

bool lie_in_clusters(const DatasetView& sample, std::int64_t rows, const codes::CodeSpace& space,
                     const Execution& execution) {
  if (sample.rows == 0) return false;
  // The rank in the sample that stands for a usual rank in the data.
  const double share = static_cast<double>(sample.rows) / static_cast<double>(rows);
  const std::int64_t rank =
      std::max<std::int64_t>(1, std::llround(static_cast<double>(tried_neighbours) * share));
  const Execution quiet = without_progress(execution);
  Execution those = quiet;
  if (sample.dim < short_row) those.threads = 1;
  const auto partition = make_partition(sample, space, {}, lists_of_a_sample, those);
  const Visited visited = visited_by_some(*partition, sample, rank, quiet);
  return visited.rows <= clustered_share * static_cast<double>(sample.rows);
}

}  // namespace kith::brute_force
