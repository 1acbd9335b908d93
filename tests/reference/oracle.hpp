// The float64 oracle: what exact means, in straight loops. Written from the contract
// (docs/exact-contract.md) and from nothing in src/.
#pragma once

#include <cstdint>
#include <vector>

#include "kith/metric.hpp"

namespace kith::reference {

/// A matrix in float64, row-major, contiguous; every dtype widens to it without loss.
struct Matrix {
  std::int64_t rows = 0;
  std::int64_t dim = 0;
  std::vector<double> values;

  const double* row(std::int64_t i) const { return values.data() + i * dim; }
  double* row(std::int64_t i) { return values.data() + i * dim; }
};

/// One query's answers in order: pairs of (distance, index), without padding.
struct Answer {
  std::vector<double> distances;
  std::vector<std::int64_t> indices;
};

/// The canonical distance in float64, before it is rounded to the result type.
double distance(const double* query, const double* row, std::int64_t dim, Metric metric);

/// The k nearest rows of one query, or fewer; distances rounded to float32 where `single` is set.
/// Rows with a NaN and pairs without a distance (inf - inf) are left out; a NaN query has no answer.
Answer nearest(const Matrix& dataset, const double* query, std::int64_t k, Metric metric, bool single);

}  // namespace kith::reference
