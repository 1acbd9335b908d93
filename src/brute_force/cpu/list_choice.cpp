// Whether lists pay: by clusters in a sample first, then by what lists of all rows leave out.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "brute_force/cpu/list_choice.hpp"
#include "brute_force/cpu/tuning.hpp"
#include "core/parallel.hpp"
#include "core/sample.hpp"

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
  if (!repaid(0)) return false;
  const std::vector<std::int64_t> ids = sample_rows(data_.rows, rows_of_a_trial);
  const std::size_t row_bytes = static_cast<std::size_t>(data_.dim) * kith::size_of(data_.dtype);
  std::vector<std::byte> rows;
  for (const std::int64_t row : ids) {
    const auto* from = static_cast<const std::byte*>(data_.row(row));
    rows.insert(rows.end(), from, from + row_bytes);
  }
  const DatasetView sample(rows.data(), data_.dtype, std::ssize(ids), data_.dim, data_.dim);
  return lie_in_clusters(sample, data_.rows, of_lists_, execution_);
}

bool ListChoice::pays(const Partition& partition) const {
  const Visited visited = visited_by_some(partition, data_, tried_neighbours, without_progress(execution_));
  const auto dim = static_cast<double>(data_.dim);
  const double compared = costs_.pair(of_lists_.choice, 0, data_.dim, data_.dim, 1, 0) * visited.rows;
  const double cost = compared * tuning::cost_of_listed_row +
                      tuning::cost_of_query_code * dim * visited.lists +
                      costs_.fp32 * dim * static_cast<double>(partition.lists());
  return cost < cost_of_all_rows_ * tuning::worthwhile_lists && repaid(cost);
}

bool ListChoice::repaid(double cost_of_a_query) const {
  if (expected_queries_ == 0) return true;
  return (cost_of_all_rows_ - cost_of_a_query) * static_cast<double>(expected_queries_) >
         cost_to_make(costs_, data_);
}

}  // namespace kith::brute_force
