// Recall and distance ratio.
#include "kith/evaluate.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <fmt/format.h>

#include "core/plural.hpp"
#include "evaluate/interval.hpp"
#include "kith/error.hpp"

namespace kith {
namespace {

// A row of a result and where it stands.
struct Named {
  std::int64_t row, rank;
  friend bool operator<(const Named& a, const Named& b) {
    return a.row != b.row ? a.row < b.row : a.rank < b.rank;
  }
};

}  // namespace

Evaluation evaluate(const Neighbors& result, const Neighbors& truth, std::int64_t k,
                    const std::function<bool()>& cancelled) {
  if (result.queries != truth.queries) {
    throw InvalidArgument(fmt::format("the result has {}, the truth {}; they must be the same",
                                      plural(result.queries, "query", "queries"), truth.queries));
  }
  const std::int64_t widest = std::min(result.k, truth.k);
  if (k < 0 || k > widest) {
    throw InvalidArgument(fmt::format(
        "k is {}; the result holds {} and the truth {} for each query, so k is at least 1 and at most {}", k,
        plural(result.k, "neighbour"), truth.k, widest));
  }
  Evaluation out;
  out.queries = result.queries;
  out.k = k == 0 ? widest : k;
  std::int64_t since_asked = 0;
  const auto ask = [&](std::int64_t work) {
    since_asked += work;
    if (since_asked < (std::int64_t{1} << 22U)) return;
    since_asked = 0;
    if (cancelled && cancelled()) throw Cancelled("evaluate was cancelled");
  };
  const auto has_distances = [&](const Neighbors& n) {
    for (std::int64_t q = 0; q < n.queries; ++q) {
      ask(n.k);
      for (std::int64_t j = 0; j < n.k; ++j) {
        if (std::isnan(n.distance(q, j))) return false;
      }
    }
    return true;
  };
  const bool distances = has_distances(result) && has_distances(truth);

  QuerySpread found, found_with_ties, ratios;
  std::vector<std::int64_t> want;
  std::vector<Named> named;
  for (std::int64_t q = 0; q < out.queries; ++q) {
    ask(8 * out.k);
    want.clear();
    named.clear();
    bool same = true;
    for (std::int64_t j = 0; j < out.k; ++j) {
      const std::int64_t t = truth.indices_of(q)[static_cast<std::size_t>(j)];
      const std::int64_t r = result.indices_of(q)[static_cast<std::size_t>(j)];
      if (t >= 0) want.push_back(t);
      if (r >= 0) named.push_back({r, j});
      same = same && t == r;
    }
    out.exact_queries += same ? 1 : 0;
    std::sort(want.begin(), want.end());
    // A row named twice counts once, where it comes first.
    std::sort(named.begin(), named.end());
    named.erase(std::unique(named.begin(), named.end(), [](Named a, Named b) { return a.row == b.row; }),
                named.end());
    const auto valid = static_cast<std::int64_t>(want.size());
    const double bound = distances && valid > 0 ? truth.distance(q, valid - 1) : 0;
    std::int64_t hits = 0;
    std::int64_t near = 0;
    double ratio_sum = 0;
    std::int64_t ratio_count = 0;
    auto wanted = want.begin();
    for (const auto& [row, rank] : named) {
      wanted = std::lower_bound(wanted, want.end(), row);
      const bool is_true = wanted != want.end() && *wanted == row;
      hits += is_true ? 1 : 0;
      if (!distances) continue;
      if (is_true || result.distance(q, rank) <= bound) ++near;
      if (rank >= valid) continue;
      const double t = truth.distance(q, rank);
      const double d = result.distance(q, rank);
      if (!std::isfinite(t) || !std::isfinite(d) || (t <= 0 && d != t)) continue;
      ratio_sum += t > 0 ? d / t : 1;
      ++ratio_count;
    }
    const auto expected = static_cast<double>(valid);
    found.add(static_cast<double>(hits), expected);
    found_with_ties.add(static_cast<double>(std::min(near, valid)), expected);
    ratios.add(ratio_sum, static_cast<double>(ratio_count));
  }
  const double nothing = std::numeric_limits<double>::quiet_NaN();
  const Interval unknown{nothing, nothing};
  const auto all = static_cast<double>(out.queries);
  out.recall = found.queries() > 0 ? found.mean() : 1;
  out.recall_interval = found.of_share();
  out.recall_with_ties = !distances ? nothing : found.queries() > 0 ? found_with_ties.mean() : 1;
  out.recall_with_ties_interval = distances ? found_with_ties.of_share() : unknown;
  out.distance_ratio = ratios.queries() > 0 ? ratios.mean() : nothing;
  out.distance_ratio_interval = ratios.of_mean();
  if (out.queries > 0) {
    out.exact_share_interval = wilson(static_cast<double>(out.exact_queries) / all, all);
  }
  return out;
}

}  // namespace kith
