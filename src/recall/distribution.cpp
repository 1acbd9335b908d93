#include "recall/distribution.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace kith::recall {
namespace {

// P(K > x) of Kolmogorov's distribution.
double kolmogorov_above(double x) {
  if (x < 0.2) return 1;
  double sum = 0;
  for (int j = 1; j <= 100; ++j) {
    const double term = std::exp(-2.0 * j * j * x * x);
    sum += j % 2 == 1 ? term : -term;
    if (term < 1e-17) break;
  }
  return std::clamp(2 * sum, 0.0, 1.0);
}

}  // namespace

Difference compare(std::vector<double> a, std::vector<double> b) {
  if (a.empty() || b.empty()) return {};
  std::ranges::sort(a);
  std::ranges::sort(b);
  const auto na = static_cast<double>(a.size());
  const auto nb = static_cast<double>(b.size());
  Difference difference;
  for (std::size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    const double value = std::min(a[i], b[j]);
    while (i < a.size() && a[i] <= value) ++i;
    while (j < b.size() && b[j] <= value) ++j;
    difference.largest =
        std::max(difference.largest, std::abs(static_cast<double>(i) / na - static_cast<double>(j) / nb));
  }
  const double size = std::sqrt(na * nb / (na + nb));
  difference.p_value = kolmogorov_above((size + 0.12 + 0.11 / size) * difference.largest);
  return difference;
}

double median(std::vector<double> values) {
  if (values.empty()) return std::numeric_limits<double>::quiet_NaN();
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

}  // namespace kith::recall
