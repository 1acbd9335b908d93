// Confidence intervals of a recall, and what a curve of them answers.
#include <algorithm>
#include <cmath>

#include "kith/recall.hpp"

namespace kith {

RecallEstimate estimate_recall(const std::vector<double>& shares, std::int64_t k) {
  RecallEstimate estimate;
  if (shares.empty()) return estimate;
  const auto queries = static_cast<double>(shares.size());
  double sum = 0;
  for (const double share : shares) sum += share;
  const double p = std::clamp(sum / queries, 0.0, 1.0);
  double squares = 0;
  for (const double share : shares) squares += (share - p) * (share - p);
  // As many draws as would spread the mean as much; at least one a query, at most one a neighbour.
  double draws = queries;
  if (squares > 0 && shares.size() > 1) {
    draws = p * (1 - p) * queries * (queries - 1) / squares;
    draws = std::clamp(draws, queries, queries * static_cast<double>(std::max<std::int64_t>(k, 1)));
  }
  constexpr double z = 1.6448536269514722;  // 95 % of the normal distribution lie below
  const double middle = p + z * z / (2 * draws);
  const double width = z * std::sqrt(p * (1 - p) / draws + z * z / (4 * draws * draws));
  const double scale = 1 + z * z / draws;
  estimate.recall = p;
  estimate.lower = std::clamp((middle - width) / scale, 0.0, p);
  estimate.upper = std::clamp((middle + width) / scale, p, 1.0);
  return estimate;
}

const RecallPoint* RecallCurve::reaching(double recall, std::int64_t k) const {
  const RecallPoint* best = nullptr;
  for (const RecallPoint& point : points) {
    if (point.k < k || (best != nullptr && point.k != best->k)) continue;
    if (best == nullptr) best = &point;  // of the smallest k that will do
    if (point.recall.lower >= recall) return &point;
  }
  return nullptr;
}

}  // namespace kith
