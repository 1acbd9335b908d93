// From a canonical distance back to a real one.
#pragma once

#include <cstdint>

#include "kith/metric.hpp"

namespace kith::brute_force {

/// A real number that no true distance can exceed when its canonical value, rounded to the result type, is at
/// most `bound`: squared for sqeuclidean and euclidean, the distance itself for the other metrics. +inf:
/// unknown.
double real_bound(float bound, Metric metric, std::int64_t dim);
double real_bound(double bound, Metric metric, std::int64_t dim);

}  // namespace kith::brute_force
