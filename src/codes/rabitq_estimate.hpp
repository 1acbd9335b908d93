// RaBitQ's estimate and its bound, from a code's factors and the product of its bits with a query's. The host
// and devices compile the same operations in the same order, and neither fuses any (-ffp-contract=off,
// -fmad=false): the same bits.
#pragma once

#include <cmath>
#include <cstdint>

#include "core/rounding.hpp"
#include "cuda/host_device.hpp"

namespace kith::codes {

/// Ahead of the bits of a code.
struct RabitqFactors {
  float square;  ///< |y|^2
  float scale;   ///< |y|^2 / <v, y>
  float spread;  ///< |y| tan(v, y) / sqrt(D - 1), rounded up
};

/// Of a query, beside its values in 16 bits.
struct RabitqQuery {
  double step = 0;      ///< of its values
  double shift = 0;     ///< taken off each product: (2^bits - 1) / 2 times the sum of its values
  double offset = 0;    ///< inner product: <q, mean>
  double norm = 0;      ///< |r|
  double residual = 0;  ///< |r - step values|
};

/// About <y, r>. @param dot of the code's bits and the query's values
KITH_HOST_DEVICE inline double rabitq_product(const RabitqFactors& code, const RabitqQuery& query,
                                              std::int32_t dot) {
  return code.scale * (query.step * (dot - query.shift));
}

/// The squared distance.
KITH_HOST_DEVICE inline float rabitq_distance(const RabitqFactors& code, const RabitqQuery& query,
                                              std::int32_t dot) {
  return static_cast<float>(query.norm * query.norm + code.square - 2 * rabitq_product(code, query, dot));
}

/// Of float32 factors, of the result, and of the doubles in between.
inline constexpr double rabitq_rounding = 0x1p-21;

/// How far the product may be off. @param deviations t of the bound @param dim D
KITH_HOST_DEVICE inline double rabitq_error(const RabitqFactors& code, const RabitqQuery& query,
                                            double deviations, std::int64_t dim) {
  const double square = code.square;
  const double spread = code.spread;
  // The length of v |y|^2 / <v, y>, which the estimate is a product with: |y| / cos(v, y).
  const double length = std::sqrt(square + spread * spread * static_cast<double>(dim - 1));
  return deviations * spread * query.norm + length * query.residual + rabitq_rounding * length * query.norm;
}

/// The bound of the squared distance.
KITH_HOST_DEVICE inline float rabitq_bound(const RabitqFactors& code, const RabitqQuery& query,
                                           double deviations, std::int64_t dim) {
  const double square = code.square;
  const double bound = 2 * rabitq_error(code, query, deviations, dim) +
                       rabitq_rounding * (query.norm * query.norm + square) + 0x1p-120;
#ifdef __CUDA_ARCH__
  return __double2float_ru(bound);
#else
  return round_up<float>(bound);
#endif
}

}  // namespace kith::codes
