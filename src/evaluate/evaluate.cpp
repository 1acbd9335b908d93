// Recall and distance ratio.
#include "kith/evaluate.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <fmt/format.h>

#include "core/plural.hpp"
#include "kith/error.hpp"

namespace kith {

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
  // Long lists take the time of their square.
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

  std::int64_t expected = 0;
  std::int64_t found = 0;
  std::int64_t found_with_ties = 0;
  double ratio_sum = 0;
  std::int64_t ratio_count = 0;
  std::vector<std::int64_t> want;
  for (std::int64_t q = 0; q < out.queries; ++q) {
    want.clear();
    bool same = true;
    for (std::int64_t j = 0; j < out.k; ++j) {
      const std::int64_t t = truth.indices_of(q)[static_cast<std::size_t>(j)];
      if (t >= 0) want.push_back(t);
      same = same && t == result.indices_of(q)[static_cast<std::size_t>(j)];
    }
    out.exact_queries += same ? 1 : 0;
    expected += static_cast<std::int64_t>(want.size());
    std::sort(want.begin(), want.end());
    const auto valid = static_cast<std::int64_t>(want.size());
    const double bound = distances && valid > 0 ? truth.distance(q, valid - 1) : 0;
    std::int64_t near = 0;
    std::vector<std::int64_t> seen;
    for (std::int64_t j = 0; j < out.k; ++j) {
      const std::int64_t r = result.indices_of(q)[static_cast<std::size_t>(j)];
      ask(1 + static_cast<std::int64_t>(seen.size()));
      // A row named twice counts once.
      if (r < 0 || std::find(seen.begin(), seen.end(), r) != seen.end()) continue;
      seen.push_back(r);
      const bool is_true = std::binary_search(want.begin(), want.end(), r);
      found += is_true ? 1 : 0;
      if (distances && (is_true || result.distance(q, j) <= bound)) ++near;
      if (distances && j < valid) {
        const double t = truth.distance(q, j);
        const double d = result.distance(q, j);
        if (std::isfinite(t) && std::isfinite(d)) {
          if (t > 0) {
            ratio_sum += d / t;
            ++ratio_count;
          } else if (d == t) {
            ratio_sum += 1;
            ++ratio_count;
          }
        }
      }
    }
    found_with_ties += std::min(near, valid);
  }
  const double nothing = std::numeric_limits<double>::quiet_NaN();
  out.recall = expected > 0 ? static_cast<double>(found) / static_cast<double>(expected) : 1;
  out.recall_with_ties = !distances     ? nothing
                         : expected > 0 ? static_cast<double>(found_with_ties) / static_cast<double>(expected)
                                        : 1;
  out.distance_ratio = ratio_count > 0 ? ratio_sum / static_cast<double>(ratio_count) : nothing;
  return out;
}

}  // namespace kith
