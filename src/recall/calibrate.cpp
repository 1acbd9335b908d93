#include "recall/calibrate.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "core/sample.hpp"

namespace kith::recall {
namespace {

constexpr std::int64_t largest_sample = 1000;
// A graph over the other rows is a little smaller, and finds a little more: by less than the sample's own
// error where the sample is one row in fifty. Fewer than 250 queries would say less than that takes away.
constexpr std::int64_t rows_a_query = 50;
constexpr std::int64_t small_sample = 250;
constexpr std::int64_t fewest_rows_a_query = 16;
constexpr std::int64_t smallest_sample = 50;
constexpr std::int64_t shortest_list = 8;
// Nobody needs to know more of a list than this.
constexpr double sure_of_all = 0.9999;

// The share of a query's k nearest rows that were found; below 0 for one that has none.
double share_found(const Neighbors& exact, const Neighbors& found, std::int64_t query, std::int64_t k) {
  const auto truth = exact.indices_of(query).first(static_cast<std::size_t>(std::min(k, exact.k)));
  const auto valid = std::ranges::count_if(truth, [](std::int64_t row) { return row >= 0; });
  if (valid == 0) return -1;
  const double farthest = exact.distance(query, valid - 1);
  std::int64_t within = 0;
  for (std::int64_t j = 0; j < found.k && within < valid; ++j) {
    // Distances are true, so whatever is as near as the k-th is one of the k nearest.
    if (found.indices_of(query)[static_cast<std::size_t>(j)] < 0 || found.distance(query, j) > farthest)
      break;
    ++within;
  }
  return static_cast<double>(within) / static_cast<double>(valid);
}

bool finds_all(const RecallEstimate& estimate) {
  return estimate.recall == 1 || estimate.lower >= sure_of_all;
}

// The point of a list, or of a shorter one that finds all there is; nullptr where none was measured.
const RecallPoint* point_of(const RecallCurve& curve, std::int64_t k, std::int64_t list_size) {
  const RecallPoint* last = nullptr;
  for (const RecallPoint& point : curve.points) {
    if (point.k == k && point.list_size <= list_size) last = &point;
  }
  return last != nullptr && (last->list_size == list_size || finds_all(last->recall)) ? last : nullptr;
}

}  // namespace

RecallCurve pooled(const RecallCurve& some, double share, const RecallCurve& others) {
  std::set<std::pair<std::int64_t, std::int64_t>> lists;
  for (const RecallCurve* curve : {&some, &others}) {
    for (const RecallPoint& point : curve->points) lists.emplace(point.k, point.list_size);
  }
  RecallCurve out;
  out.queries = some.queries + others.queries;
  for (const auto& [k, list_size] : lists) {
    const RecallPoint* a = point_of(some, k, list_size);
    const RecallPoint* b = point_of(others, k, list_size);
    if (a == nullptr || b == nullptr) continue;
    const auto mean = [&](double of_some, double of_others) {
      return share * of_some + (1 - share) * of_others;
    };
    out.points.push_back({k,
                          list_size,
                          {mean(a->recall.recall, b->recall.recall), mean(a->recall.lower, b->recall.lower),
                           mean(a->recall.upper, b->recall.upper)},
                          mean(a->hops, b->hops),
                          mean(a->distances, b->distances)});
  }
  return out;
}

std::vector<std::int64_t> own_queries(std::int64_t rows) {
  const std::int64_t size = std::min(largest_sample, rows / fewest_rows_a_query);
  return size < smallest_sample ? std::vector<std::int64_t>{} : sample_rows(rows, size);
}

HeldOut hold_out(std::int64_t rows, std::int64_t first, const std::function<bool(std::int64_t)>& eligible) {
  HeldOut held{{}, RowSet(rows)};
  const std::int64_t size = std::min(
      {largest_sample, std::max(rows / rows_a_query, std::min(small_sample, rows / fewest_rows_a_query)),
       rows - first});
  if (size < smallest_sample) return held;
  held.rows = sample_rows(rows - first, size);
  for (std::int64_t& row : held.rows) row += first;
  std::erase_if(held.rows, [&](std::int64_t row) { return !eligible(row); });
  std::vector<std::uint8_t> stays(static_cast<std::size_t>(rows), 1);
  for (const std::int64_t row : held.rows) stays[static_cast<std::size_t>(row)] = 0;
  held.others = RowSet::from_flags(stays);
  return held;
}

std::vector<std::int64_t> list_sizes(std::int64_t nodes) {
  std::vector<std::int64_t> sizes;
  const std::int64_t longest = std::min(nodes, longest_list);
  for (std::int64_t step = shortest_list, list = step; list <= longest;
       list = list == step ? step + step / 2 : (step *= 2)) {
    sizes.push_back(list);
  }
  return sizes;
}

Measured measure(const Neighbors& exact, std::span<const std::int64_t> ks, std::int64_t nodes,
                 const Search& search, double most_distances) {
  std::vector<std::pair<RecallPoint, double>> points;
  std::int64_t measured = 0;
  std::vector<bool> complete(ks.size(), false);
  std::vector<double> lower(ks.size(), 0);
  bool too_long = false;
  const auto queries = static_cast<double>(std::max<std::int64_t>(1, exact.queries));
  for (const std::int64_t list : list_sizes(nodes)) {
    if (std::ranges::find(complete, false) == complete.end()) break;
    if (ks.front() > list) continue;
    for (std::size_t which = 0; which < ks.size(); ++which) {
      if (ks[which] > list || complete[which]) continue;
      // How much of a list is evaluated depends on k: more neighbours would find some of fewer that a search
      // for those alone does not.
      const Neighbors found = search(list, ks[which]);
      const SearchStatistics& statistics = found.statistics;
      std::vector<double> shares;
      for (std::int64_t q = 0; q < exact.queries; ++q) {
        const double share = share_found(exact, found, q, ks[which]);
        if (share >= 0) shares.push_back(share);
      }
      if (shares.empty()) continue;
      measured = static_cast<std::int64_t>(shares.size());
      RecallEstimate estimate = estimate_recall(shares, ks[which]);
      // What a shorter list is sure to find a longer one does, too; one that finds everything says little of
      // the spread.
      estimate.lower = lower[which] = std::min(estimate.recall, std::max(lower[which], estimate.lower));
      points.push_back({{ks[which], list, estimate, static_cast<double>(statistics.hops) / queries,
                         static_cast<double>(statistics.distances) / queries},
                        statistics.seconds > 0 ? queries / statistics.seconds : 0});
      complete[which] = finds_all(estimate);
      too_long = list >= longest_always && points.back().first.distances > most_distances;
    }
    if (too_long) break;
  }
  std::ranges::stable_sort(points, [](const auto& a, const auto& b) { return a.first.k < b.first.k; });
  Measured out;
  out.curve.queries = measured;
  for (const auto& [point, rate] : points) {
    out.curve.points.push_back(point);
    out.queries_per_second.push_back(rate);
  }
  return out;
}

}  // namespace kith::recall
