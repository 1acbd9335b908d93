// Confidence intervals of a recall, and what a curve of them answers.
#include <algorithm>

#include "evaluate/interval.hpp"
#include "kith/recall.hpp"

namespace kith {

RecallEstimate estimate_recall(const std::vector<double>& shares, std::int64_t k) {
  if (shares.empty()) return {};
  const auto each = static_cast<double>(std::max<std::int64_t>(k, 1));
  QuerySpread spread;
  for (const double share : shares) spread.add(share * each, each);
  const Interval interval = spread.of_share(z_99);
  return {std::clamp(spread.mean(), 0.0, 1.0), interval.lower, interval.upper};
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
