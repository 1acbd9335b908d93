// Whether lists pay: by clusters in a sample first, then by what lists of all rows leave out.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "brute_force/cpu/costs.hpp"
#include "brute_force/cpu/filter.hpp"
#include "brute_force/cpu/partition.hpp"
#include "brute_force/cpu/tuning.hpp"
#include "core/parallel.hpp"
#include "core/sample.hpp"
#include "distance/canonical.hpp"
#include "select_k/top_k.hpp"

namespace kith::brute_force {
namespace {

// A query's cost, in the unit of CostModel, before its filter keeps anything.
double cost_of_all_rows(const CostModel& costs, const codes::CodeSpace& space, std::int64_t rows,
                        std::int64_t queries) {
  return costs.pair(space.choice, 0, space.values(), space.dim, rows, queries) * static_cast<double>(rows);
}

double cost_of_lists(const CostModel& costs, const codes::CodeSpace& space, double rows, double visited,
                     std::int64_t lists) {
  const auto dim = static_cast<double>(space.dim);
  return costs.pair(space.choice, 0, space.dim, space.dim, 1, 0) * rows * tuning::cost_of_listed_row +
         tuning::cost_of_query_code * dim * visited + costs.fp32 * dim * static_cast<double>(lists);
}

double cost_to_make(const CostModel& costs, const DatasetView& data, std::int64_t lists) {
  const double compared = 2 * std::max(32.0, std::sqrt(static_cast<double>(lists))) * costs.fp32;
  return static_cast<double>(data.rows) * static_cast<double>(data.dim) *
             (compared + tuning::cost_of_list_row) +
         tuning::cost_of_k_means;
}

// Rows of some of its own to search for, and how far they must look, by a sample.
class Trial {
 public:
  Trial(const DatasetView& data, const codes::CodeSpace& space, const Execution& execution)
      : data_(data),
        space_(space),
        execution_(execution),
        sample_(sample_rows(data.rows, tuning::rows_of_a_trial)) {
    // The rank in the sample that stands for a usual rank in the data.
    const double share = static_cast<double>(sample_.size()) / static_cast<double>(data.rows);
    rank_ = std::max<std::int64_t>(1, std::llround(tuning::typical_k_along * share));
  }

  /// The share of the sample's rows that lie in lists which its own queries may not leave out.
  double share_of_the_sample() {
    const codes::Duplicates none;
    std::vector<std::byte> rows;
    const std::size_t bytes = static_cast<std::size_t>(data_.dim) * kith::size_of(data_.dtype);
    for (const std::int64_t row : sample_) {
      const auto* from = static_cast<const std::byte*>(data_.row(row));
      rows.insert(rows.end(), from, from + bytes);
    }
    const DatasetView sample(rows.data(), data_.dtype, std::ssize(sample_), data_.dim, data_.dim);
    // Milliseconds: waking other threads for every step of it takes longer.
    Execution alone = quiet();
    alone.threads = 1;
    const auto partition = make_partition(sample, space_, none, tuning::lists_of_a_sample, alone);
    const Visited visited = visit(*partition, sample, rank_);
    return visited.rows / static_cast<double>(sample.rows);
  }

  struct Visited {
    double rows = 0;
    double lists = 0;
  };

  /// What a query of some rows of `data` looks at, when it knows its bound from the start.
  Visited visit(const Partition& partition, const DatasetView& data, std::int64_t rank) const {
    const std::vector<std::int64_t> queries = sample_rows(data.rows, tuning::queries_of_a_trial);
    std::vector<Visited> each(queries.size());
    parallel_for(quiet(), std::ssize(queries), [&](std::int64_t i) {
      each[static_cast<std::size_t>(i)] =
          visited_by(partition, data, queries[static_cast<std::size_t>(i)], rank);
    });
    Visited mean;
    for (const Visited& its : each) {
      mean.rows += its.rows / static_cast<double>(each.size());
      mean.lists += its.lists / static_cast<double>(each.size());
    }
    return mean;
  }

 private:
  Execution quiet() const { return without_progress(execution_); }

  // Looks through lists in the order of a search, for the row's own neighbours.
  Visited visited_by(const Partition& partition, const DatasetView& data, std::int64_t row,
                     std::int64_t rank) const {
    std::vector<double> values(static_cast<std::size_t>(canonical_padded(data.dim)));
    const CanonicalQuery query =
        prepare_canonical_query(data.row(row), data.dtype, data.dim, space_.metric, values.data());
    ListDistances distances(partition);
    Visited visited;
    const bool regular = std::none_of(values.begin(), values.begin() + data.dim,
                                      [](double value) { return std::isnan(value); }) &&
                         distances.look(values.data());
    if (!regular) return {static_cast<double>(data.rows), static_cast<double>(partition.lists())};
    std::vector<std::pair<double, std::int64_t>> order;
    for (std::int64_t list = 0; list < partition.lists(); ++list)
      order.emplace_back(distances.least(list), list);
    std::sort(order.begin(), order.end());
    TopK<double> nearest(rank + 1);  // the row itself is one
    std::vector<double> found;
    for (const auto& [least, list] : order) {
      if (least > distances.reach(real_bound(nearest.bound(), space_.metric, data.dim))) break;
      const std::int64_t size = partition.size_of(list);
      visited.rows += static_cast<double>(size);
      visited.lists += 1;
      // Enough is known where nothing is left out.
      if (visited.rows > static_cast<double>(data.rows) / 2) break;
      found.resize(static_cast<std::size_t>(size));
      canonical_function(data.dtype, space_.metric)(canonical_rows(data), query, partition.rows_of(list),
                                                    size, found.data());
      for (std::int64_t j = 0; j < size; ++j) {
        if (!std::isnan(found[static_cast<std::size_t>(j)]))
          nearest.offer(found[static_cast<std::size_t>(j)], partition.rows_of(list)[j]);
      }
    }
    return visited;
  }

  const DatasetView& data_;
  const codes::CodeSpace& space_;
  const Execution& execution_;
  std::vector<std::int64_t> sample_;
  std::int64_t rank_ = 1;
};

// What all searches to come save, beside what making lists costs.
class Balance {
 public:
  Balance(const DatasetView& data, const codes::CodeSpace& chosen, std::int64_t expected_queries,
          const Execution& execution)
      : costs_(cost_model(execution)),
        queries_(expected_queries),
        all_(cost_of_all_rows(costs_, chosen, data.rows, expected_queries)),
        making_(cost_to_make(costs_, data, usual_lists(data.rows))) {}

  bool may_be_positive() const { return repaid(0); }
  bool is_positive(const codes::CodeSpace& of_lists, const Trial::Visited& visited,
                   std::int64_t lists) const {
    const double cost = cost_of_lists(costs_, of_lists, visited.rows, visited.lists, lists);
    return cost < all_ * tuning::worthwhile_lists && repaid(cost);
  }

 private:
  bool repaid(double a_query) const {
    return queries_ == 0 || (all_ - a_query) * static_cast<double>(queries_) > making_;
  }

  CostModel costs_;
  std::int64_t queries_;
  double all_, making_;
};

}  // namespace

bool lists_may_pay(const DatasetView& data, const codes::CodeSpace& chosen, const codes::CodeSpace& of_lists,
                   std::int64_t expected_queries, const Execution& execution) {
  const char* why = nullptr;
  if (!may_have_lists(of_lists, &why) || data.dim < tuning::fewest_listed_dim ||
      data.rows < tuning::fewest_listed_rows) {
    return false;
  }
  const std::uint64_t bytes = partition_bytes(of_lists, data.rows, usual_lists(data.rows));
  if (execution.memory_limit > 0 && bytes > execution.memory_limit) return false;
  return Balance(data, chosen, expected_queries, execution).may_be_positive() &&
         Trial(data, of_lists, execution).share_of_the_sample() <= tuning::clustered_share;
}

bool lists_pay(const Partition& partition, const DatasetView& data, const codes::CodeSpace& chosen,
               const codes::CodeSpace& of_lists, std::int64_t expected_queries, const Execution& execution) {
  const Trial::Visited visited =
      Trial(data, of_lists, execution)
          .visit(partition, data, static_cast<std::int64_t>(tuning::typical_k_along));
  return Balance(data, chosen, expected_queries, execution).is_positive(of_lists, visited, partition.lists());
}

}  // namespace kith::brute_force
