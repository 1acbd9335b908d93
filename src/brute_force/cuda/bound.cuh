// From "no answer is farther than this" to the numbers the GPU's kernels compare with. Derived in
// docs/exact-contract.md, step 9; all roundings go the safe way.
#pragma once

#include <cstdint>

#include <math_constants.h>

#include "brute_force/cuda/kernels.hpp"

namespace kith::brute_force::cuda {

/// Keeps every row that is not special or NaN.
__device__ inline QueryBound open_bound(const CodeSpace& space) {
  if (space.tiled()) return {0, CUDART_INF, 0};
  return {CUDART_INF, 0, 0};
}

/// Keeps nothing.
__device__ inline QueryBound closed_bound(const CodeSpace& space) {
  if (space.tiled()) return {CUDART_INF, 0, 0};
  return {-1, 0, 0};
}

/// What the product of int8 codes and the row's bias must reach, given RowCodes::largest.
__device__ inline std::int32_t threshold(const QueryBound& bound, const CodeTest& test,
                                         const float* largest) {
  // Biases make up for residuals beyond the typical ones, for queries within their reach.
  const bool within = (test.form == codes::Form::triangle ? bound.c1 : bound.c2) <= test.reach;
  const double residual = largest[within ? largest_of::typical_residuals : largest_of::residuals];
  const double norm = largest[largest_of::norms];
  double limit;
  if (test.form == codes::Form::triangle) {
    const double reach = bound.c1 + residual;
    limit = bound.c0 - 0.5 * reach * reach * (1 + 0x1p-40) - 0x1p-10;
  } else {
    const double slack =
        bound.c1 == CUDART_INF ? CUDART_INF : (bound.c1 * norm + bound.c2 * residual) * (1 + 0x1p-40);
    limit = bound.c0 - fabs(bound.c0) * 0x1p-40 - slack - 0x1p-10;
    if (bound.c0 == CUDART_INF) limit = CUDART_INF;
  }
  if (!(limit > keep_all)) return keep_all;  // a NaN keeps all
  return limit >= 2147483647.0 ? 2147483647 : static_cast<std::int32_t>(floor(limit));
}

/// The same for half codes: products are summed in float32, wrong by test.rounding of their largest partial
/// sum.
__device__ inline float half_threshold(const QueryBound& bound, const CodeTest& test, const float* largest) {
  const double residual = largest[largest_of::residuals];
  const double norm = largest[largest_of::norms];
  const double code_norm = (norm + residual) * (1 + 0x1p-20);
  double limit;
  if (test.form == codes::Form::triangle) {
    const double reach = bound.c1 + residual;
    limit = bound.c0 - 0.5 * reach * reach * (1 + 0x1p-40) -
            test.rounding * (bound.c2 * code_norm + 0.5 * code_norm * code_norm) - 0x1p-60;
  } else {
    const double slack = bound.c1 == CUDART_INF ? CUDART_INF
                                                : (bound.c1 * norm + bound.c2 * residual) * (1 + 0x1p-40) +
                                                      test.rounding * bound.c2 * code_norm;
    limit = bound.c0 - fabs(bound.c0) * 0x1p-40 - slack - 0x1p-60;
  }
  if (bound.c0 == CUDART_INF) return CUDART_INF_F;
  if (!(limit > keep_all_halves)) return keep_all_halves;  // a NaN keeps all
  return __double2float_rd(limit);
}

/// A float as an integer that orders like it; -0 is +0.
__device__ inline std::int32_t ordered(float value) {
  const int bits = __float_as_int(__fadd_rn(value, 0.0F));
  return bits < 0 ? bits ^ 0x7fffffff : bits;
}

__device__ inline double next_above(double x) {
  if (x == CUDART_INF) return x;
  if (x == 0) return __longlong_as_double(1);
  const long long bits = __double_as_longlong(x);
  return __longlong_as_double(x > 0 ? bits + 1 : bits - 1);
}
__device__ inline double next_above(float x) {
  if (x == CUDART_INF_F) return CUDART_INF;
  if (x == 0) return __int_as_float(1);
  const int bits = __float_as_int(x);
  return __int_as_float(x > 0 ? bits + 1 : bits - 1);
}

/// A real number that no true distance exceeds whose canonical value rounds to at most `bound`; squared for
/// the Euclidean metrics. See brute_force/real_bound.cpp.
template <class R>
__device__ inline double real_bound(R bound, const CodeSpace& space) {
  const double above = next_above(bound);
  const double error = (static_cast<double>(space.dim) + 16) * 0x1p-52;
  switch (space.metric) {
    case Metric::sqeuclidean: return above * (1 + error) + 0x1p-1000;
    case Metric::euclidean: return above * above * (1 + 2 * error) + 0x1p-1000;
    case Metric::inner_product: return above + 0x1p-1000;
    case Metric::manhattan: return above * (1 + error);
    default: return above;
  }
}

/// The bound of a query whose k-th distance so far is `distance`.
template <class R>
__device__ inline QueryBound make_bound(R distance, const CodeSpace& space, const QueryScalars& q,
                                        const float* maxima) {
  const double real = real_bound(distance, space);
  if (!isfinite(real)) return open_bound(space);
  constexpr double more = 1 + 0x1p-40;
  switch (space.form) {
    case codes::Form::triangle:
      return {q.code_sq / 2 * (space.half ? 1 - 0x1p-30 : 1),
              (sqrt(real) * space.unit * more + q.residual) / space.step * more,
              space.half ? q.norm * more : 0};
    case codes::Form::integer: {
      const double offset = space.offset();
      return {-real - offset * q.code_sum - offset * offset * static_cast<double>(space.dim), 0, 0};
    }
    case codes::Form::cauchy: {
      const double scaled = real * space.unit * space.unit;
      const double target =
          space.metric == Metric::cosine ? (1 - real) - 0x1p-40 : -scaled - fabs(scaled) * 0x1p-40;
      const double size = q.scale * space.step;
      const double residual = q.residual + 0x1p-28 * (q.norm + q.residual);
      return {target / size, residual / size * more, q.norm / q.scale * more};
    }
    default: {
      const double rounding = 0x1p-21 + 1.01 * (2 * static_cast<double>(space.dim) + 16) * 0x1p-24;
      const double length = space.form == codes::Form::difference ? sqrt(real) : real;
      const double all = static_cast<double>(*maxima);
      const double limit = length * space.unit * more + q.residual + all;
      const double test =
          (space.form == codes::Form::difference ? limit * limit : limit) * (1 + 2 * rounding) + 0x1p-120;
      return {__double2float_ru(test), 0, 0};
    }
  }
}

/// What a value adds to the sum that the float32 filters compare.
template <bool squared>
__device__ inline float add_difference(float sum, float q, float x) {
  const float difference = __fsub_rn(q, x);
  return squared ? __fmaf_rn(difference, difference, sum) : __fadd_rn(sum, fabsf(difference));
}

/// The order of a candidate: 0 for the largest score. Scores are int8 products with their bias, or minus the
/// bits of a float32 sum, which order like the sum itself.
__device__ inline std::uint32_t order_of(std::int32_t score) {
  return static_cast<std::uint32_t>(2147483647) - static_cast<std::uint32_t>(score);
}
__device__ inline std::uint64_t make_candidate(std::int32_t score, std::uint32_t row) {
  return static_cast<std::uint64_t>(order_of(score)) << 32U | row;
}
__device__ inline std::int32_t float_score(float sum) {
  return -__float_as_int(sum);
}

/// The largest order that a row within the bound can have; `maxima` as in Batch.
__device__ inline std::uint32_t order_cut(const QueryBound& bound, const CodeSpace& space,
                                          const float* maxima) {
  if (space.int8()) return order_of(threshold(bound, space.test(), maxima + 1));
  if (space.half) return order_of(ordered(half_threshold(bound, space.test(), maxima + 1)));
  return order_of(float_score(static_cast<float>(bound.c0)));
}

/// Makes of space and scalars what bounds of fine codes are made of.
__device__ inline void make_fine(CodeSpace& space, QueryScalars& q) {
  space.step /= CodeSpace::finer;
  if (space.form == codes::Form::cauchy) q.scale /= CodeSpace::finer;
  q.residual = q.fine_residual;
  q.norm = q.fine_norm;
}

/// Estimates of fine codes are smaller the nearer a row seems: |c_q - c|^2 in the triangle form, -c_q.c in
/// the Cauchy form, integers below 2^42. No row within the distance that a bound was made of has a larger
/// one.
__device__ inline double fine_limit(const QueryBound& bound, codes::Form form, const float* maxima) {
  const double residual = maxima[1 + largest_of::fine_residuals];
  const double norm = maxima[1 + largest_of::norms];
  double limit;
  if (form == codes::Form::triangle) {
    const double reach = bound.c1 + residual;
    limit = reach * reach * (1 + 0x1p-40) + 0x1p-10;
  } else {
    const double slack =
        bound.c1 == CUDART_INF ? CUDART_INF : (bound.c1 * norm + bound.c2 * residual) * (1 + 0x1p-40);
    limit = fabs(bound.c0) * 0x1p-40 + slack + 0x1p-10 - bound.c0;
  }
  return isnan(limit) ? CUDART_INF : limit;
}

/// The order of an estimate of fine codes; those of rows that `fine_limit` keeps are at most its own.
__device__ inline std::uint32_t fine_order(double estimate) {
  const std::uint32_t bits = __float_as_uint(__double2float_rd(estimate));
  return (bits & 0x80000000U) != 0 ? ~bits : bits | 0x80000000U;
}

}  // namespace kith::brute_force::cuda
