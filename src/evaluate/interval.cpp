#include "evaluate/interval.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace kith {

Interval wilson(double p, double draws, double z) {
  const double middle = p + z * z / (2 * draws);
  const double width = z * std::sqrt(p * (1 - p) / draws + z * z / (4 * draws * draws));
  const double scale = 1 + z * z / draws;
  return {std::clamp((middle - width) / scale, 0.0, p), std::clamp((middle + width) / scale, p, 1.0)};
}

double QuerySpread::variance() const {
  if (queries_ < 2) return 0;
  const double p = mean();
  const double squares = squares_ - 2 * p * mixed_ + p * p * whole_squares_;
  // Sums of products that cancel are exact to some parts in 10^16 of the largest: less is no spread.
  if (!(squares > 1e-14 * (squares_ + p * p * whole_squares_))) return 0;
  return squares * queries_ / (queries_ - 1) / (wholes_ * wholes_);
}

Interval QuerySpread::of_share(double z) const {
  if (queries_ == 0) return {};
  const double p = std::clamp(mean(), 0.0, 1.0);
  double draws = queries_;
  const double spread = variance();
  if (spread > 0) draws = std::clamp(p * (1 - p) / spread, queries_, std::max(queries_, wholes_));
  return wilson(p, draws, z);
}

Interval QuerySpread::of_mean() const {
  constexpr double nothing = std::numeric_limits<double>::quiet_NaN();
  if (queries_ < 2) return {nothing, nothing};
  const double width = z_95 * std::sqrt(variance());
  return {mean() - width, mean() + width};
}

}  // namespace kith
