#include "recall/calibrate.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "core/sample.hpp"
#include "kith/brute_force.hpp"

namespace kith::recall {
namespace {

constexpr std::int64_t largest_sample = 1000;
constexpr std::int64_t rows_a_query = 4;  // of the rows, at most one in so many
constexpr std::int64_t smallest_sample = 100;
constexpr std::array<std::int64_t, 3> ks = {1, 10, 100};
// Lists of 8, 12, 16, 24, 32, ... 4096.
constexpr std::int64_t shortest_list = 8;
constexpr std::int64_t longest_list_ever = 4096;

// The distances of a query's first k neighbours but itself: the row is left out, or one at the end.
std::vector<double> without_itself(const Neighbors& found, std::int64_t query, std::int64_t row,
                                   std::int64_t k) {
  std::vector<double> distances;
  for (std::int64_t j = 0; j < found.k && static_cast<std::int64_t>(distances.size()) < k; ++j) {
    const std::int64_t index = found.indices_of(query)[static_cast<std::size_t>(j)];
    if (index >= 0 && index != row) distances.push_back(found.distance(query, j));
  }
  return distances;
}

}  // namespace

Sample take_sample(const DatasetView& rows, Metric metric, const Execution& execution) {
  Sample sample;
  const std::int64_t size = std::min(largest_sample, rows.rows / rows_a_query);
  if (size < smallest_sample) return sample;
  sample.rows = sample_rows(rows.rows, size);
  sample.queries = Dataset::allocate(rows.dtype, size, rows.dim);
  const std::size_t row_bytes = static_cast<std::size_t>(rows.dim) * size_of(rows.dtype);
  for (std::int64_t i = 0; i < size; ++i) {
    std::memcpy(static_cast<char*>(sample.queries.mutable_data()) + static_cast<std::size_t>(i) * row_bytes,
                rows.row(sample.rows[static_cast<std::size_t>(i)]), row_bytes);
  }
  sample.k = ks.back();
  sample.exact = knn(rows, sample.queries, sample.k + 1, {metric, Filter::automatic}, execution);
  return sample;
}

RecallCurve measure(const Sample& sample, std::int64_t longest_list, const SearchSample& search) {
  RecallCurve curve;
  if (sample.k == 0) return curve;
  const std::int64_t longest = std::min(longest_list, longest_list_ever);
  std::array<bool, ks.size()> complete{};
  for (std::int64_t step = shortest_list, list = step; list <= longest;
       list = list == step ? step + step / 2 : (step *= 2)) {
    if (complete.back()) break;
    // One neighbour more, in case the row finds itself: a list may be too short for the largest k.
    const std::int64_t k = std::min(sample.k + 1, list);
    const Neighbors found = search(list, k);
    for (std::size_t which = 0; which < ks.size(); ++which) {
      if (ks[which] > list || complete[which]) continue;
      std::vector<double> shares;
      for (std::int64_t q = 0; q < sample.size(); ++q) {
        const std::int64_t row = sample.rows[static_cast<std::size_t>(q)];
        const auto exact = without_itself(sample.exact, q, row, ks[which]);
        if (exact.empty()) continue;  // a row with a NaN
        const auto got = without_itself(found, q, row, ks[which]);
        // Distances are true, so whatever is as near as the k-th is one of the k nearest.
        const auto within = std::ranges::count_if(got, [&](double d) { return d <= exact.back(); });
        shares.push_back(static_cast<double>(within) / static_cast<double>(exact.size()));
      }
      if (shares.empty()) continue;
      curve.queries = static_cast<std::int64_t>(shares.size());
      const RecallEstimate estimate = estimate_recall(shares, ks[which]);
      const auto queries = static_cast<double>(sample.size());
      curve.points.push_back({ks[which], list, estimate, static_cast<double>(found.statistics.hops) / queries,
                              static_cast<double>(found.statistics.distances) / queries});
      complete[which] = estimate.recall == 1;
    }
  }
  std::ranges::sort(curve.points, [](const RecallPoint& a, const RecallPoint& b) {
    return a.k != b.k ? a.k < b.k : a.list_size < b.list_size;
  });
  return curve;
}

}  // namespace kith::recall
