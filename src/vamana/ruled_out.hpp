// How far away RaBitQ's bound must say that a candidate is to need no evaluation. The host and devices
// compile the same operations in the same order, and neither fuses any (-ffp-contract=off, -fmad=false).
#pragma once

#include <cmath>
#include <cstdint>

#include "codes/scalar.hpp"
#include "cuda/host_device.hpp"
#include "kith/metric.hpp"

namespace kith::vamana {

/// From canonical distances to squared distances of scalar codes. These lie in the space that the metric was
/// turned into, one step apart. Leading directions and the ends of the codes' range only bring rows nearer.
/// Rounding moves the difference of two codes by some 1/sqrt(6) along it, of which six are allowed for, and
/// lengthens its square by a sixth a value.
struct RuledOutLimit {
  Metric metric = Metric::sqeuclidean;
  double largest_norm = 0;    ///< inner product: of the rows
  double unit = 1;            ///< of the space the metric was turned into, in steps of codes
  bool raw_integers = false;  ///< rows are their own codes
  double values = 0;          ///< of a code

  RuledOutLimit() = default;
  explicit RuledOutLimit(const codes::ScalarSpace& space)
      : metric(space.metric),
        largest_norm(space.largest_norm),
        unit(space.unit / space.step),
        raw_integers(space.raw_integers()),
        values(static_cast<double>(space.code_dim())) {}

  /// Candidates must be estimated at most this far, less their bound; infinite where none is ruled out.
  /// @param worst a canonical distance @param norm inner product: |q|
  KITH_HOST_DEVICE double of(double worst, double norm) const {
    constexpr double infinity = HUGE_VAL;
    double square = worst;
    if (metric == Metric::euclidean) {
      square = worst * worst;
    } else if (metric == Metric::cosine) {
      square = 2 * worst;
    } else if (metric == Metric::inner_product) {
      // Queries were stretched to the length M of the rows: 2 M^2 - 2 (M / |q|) q.x.
      if (!(norm > 0 && norm < infinity && largest_norm > 0)) return infinity;
      square = 2 * largest_norm * (largest_norm + worst / norm);
    }
    square = square * unit * unit;
    if (square < 0) square = 0;
    if (!(square < infinity)) return infinity;
    if (raw_integers) return square;
    return square + 6 * 0.82 * std::sqrt(square) + values / 6 + 1;
  }
};

}  // namespace kith::vamana
