// Step 1 of docs/exact-contract.md.
#include "brute_force/real_bound.hpp"

#include <cmath>
#include <limits>

namespace kith::brute_force {
namespace {

// The float64 evaluation is within this relative distance of the real value (sums of squares and of
// magnitudes; inner products and cosines are covered by the slack of the scores), ...
double canonical_error(std::int64_t dim) {
  return (static_cast<double>(dim) + 16) * 0x1p-52;
}

// ... but for squares and products that underflow: half the smallest number each, at most this in all.
constexpr double canonical_underflow = 0x1p-1000;

double real_bound_of(double above, Metric metric, std::int64_t dim) {
  switch (metric) {
    case Metric::sqeuclidean: return above * (1 + canonical_error(dim)) + canonical_underflow;
    case Metric::euclidean: return above * above * (1 + 2 * canonical_error(dim)) + canonical_underflow;
    case Metric::inner_product: return above + canonical_underflow;
    case Metric::manhattan: return above * (1 + canonical_error(dim));
    default: return above;
  }
}

}  // namespace

double real_bound(float bound, Metric metric, std::int64_t dim) {
  return real_bound_of(std::nextafterf(bound, std::numeric_limits<float>::infinity()), metric, dim);
}

double real_bound(double bound, Metric metric, std::int64_t dim) {
  return real_bound_of(std::nextafter(bound, std::numeric_limits<double>::infinity()), metric, dim);
}

}  // namespace kith::brute_force
