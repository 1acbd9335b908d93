// Whether lists pay: by clusters in a sample first, then by what lists of all rows leave out.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

#include "brute_force/cpu/filter.hpp"
#include "brute_force/cpu/partition.hpp"
#include "brute_force/cpu/tuning.hpp"
#include "core/parallel.hpp"
#include "core/sample.hpp"
#include "distance/canonical.hpp"
#include "select_k/top_k.hpp"

namespace kith::brute_force {
namespace {

// Costs are in the unit of CostModel.
double cost_to_make(const CostModel& costs, const DatasetView& data) {
  const double branches = std::sqrt(static_cast<double>(usual_lists(data.rows)));
  const double compared = 2 * std::max(32.0, branches) * costs.fp32;
  return static_cast<double>(data.rows) * static_cast<double>(data.dim) *
             (compared + tuning::cost_of_list_row) +
         tuning::cost_of_k_means;
}

// What a query looks at, on average.
struct Visited {
  double rows = 0;
  double lists = 0;
};

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

// By some of the rows.
Visited visited_by_some(const Partition& partition, const DatasetView& data, std::int64_t count,
                        const Execution& execution) {
  const std::vector<std::int64_t> queries = sample_rows(data.rows, tuning::queries_of_a_trial);
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

}  // namespace

ListChoice::ListChoice(const DatasetView& data, const codes::CodeSpace& chosen,
                       const codes::CodeSpace& of_lists, std::int64_t expected_queries,
                       const Execution& execution)
    : data_(data),
      of_lists_(of_lists),
      expected_queries_(expected_queries),
      execution_(execution),
      costs_(cost_model(execution)),
      cost_of_all_rows_(
          costs_.pair(chosen.choice, 0, chosen.values(), chosen.dim, data.rows, expected_queries) *
          static_cast<double>(data.rows)) {}

bool ListChoice::may_pay() const {
  if (lacked_by_lists(of_lists_) != nullptr || data_.dim < tuning::fewest_listed_dim ||
      data_.rows < tuning::fewest_listed_rows) {
    return false;
  }
  const std::uint64_t bytes = partition_bytes(of_lists_, data_.rows, usual_lists(data_.rows));
  if (execution_.memory_limit > 0 && bytes > execution_.memory_limit) return false;
  return repaid(0) && share_of_a_sample() <= tuning::clustered_share;
}

bool ListChoice::pays(const Partition& partition) const {
  const auto count = static_cast<std::int64_t>(tuning::typical_k_along);
  const Visited visited = visited_by_some(partition, data_, count, without_progress(execution_));
  const auto dim = static_cast<double>(data_.dim);
  const double compared = costs_.pair(of_lists_.choice, 0, data_.dim, data_.dim, 1, 0) * visited.rows;
  const double cost = compared * tuning::cost_of_listed_row +
                      tuning::cost_of_query_code * dim * visited.lists +
                      costs_.fp32 * dim * static_cast<double>(partition.lists());
  return cost < cost_of_all_rows_ * tuning::worthwhile_lists && repaid(cost);
}

// The share of a sample's rows that lie in lists which its own rows may not leave out.
double ListChoice::share_of_a_sample() const {
  const std::vector<std::int64_t> ids = sample_rows(data_.rows, tuning::rows_of_a_trial);
  const std::size_t bytes = static_cast<std::size_t>(data_.dim) * kith::size_of(data_.dtype);
  std::vector<std::byte> rows;
  for (const std::int64_t row : ids) {
    const auto* from = static_cast<const std::byte*>(data_.row(row));
    rows.insert(rows.end(), from, from + bytes);
  }
  const DatasetView sample(rows.data(), data_.dtype, std::ssize(ids), data_.dim, data_.dim);
  // The rank in the sample that stands for a usual rank in the data.
  const double share = static_cast<double>(sample.rows) / static_cast<double>(data_.rows);
  const std::int64_t rank = std::max<std::int64_t>(1, std::llround(tuning::typical_k_along * share));
  // Milliseconds: waking other threads for every step of it takes longer.
  Execution alone = without_progress(execution_);
  alone.threads = 1;
  const auto partition = make_partition(sample, of_lists_, {}, tuning::lists_of_a_sample, alone);
  const Visited visited = visited_by_some(*partition, sample, rank, without_progress(execution_));
  return visited.rows / static_cast<double>(sample.rows);
}

bool ListChoice::repaid(double cost_of_a_query) const {
  if (expected_queries_ == 0) return true;
  return (cost_of_all_rows_ - cost_of_a_query) * static_cast<double>(expected_queries_) >
         cost_to_make(costs_, data_);
}

}  // namespace kith::brute_force
