// What codes of filters have in common on every machine: forms of a bound, kinds of rows, limits of values.
// Plain data only.
#pragma once

#include <cstdint>

namespace kith::codes {

/// How a filter arrives at its bound.
enum class Form : std::uint8_t {
  triangle,    ///< dot product, |q' - y'| <= R + e: both Euclidean metrics
  cauchy,      ///< dot product, q.y <= q'.y' + e_q |y| + |q'| e: all metrics but manhattan
  integer,     ///< dot product of u8 or i8 rows as they are: exact
  difference,  ///< float32 sum of squared differences
  absolute,    ///< float32 sum of absolute differences
  none,        ///< no bound
};

/// What codes say of a row, or of a query.
enum class RowKind : std::int32_t {
  regular,  ///< its code and its residual bound its distances
  special,  ///< no bound can speak of it: it is evaluated exactly
  nan,
};

/// Codes of few directions hold the length of the rest in so many values, a half each: it is longer than
/// single coordinates, and one step is to suit all.
inline constexpr int rest_values = 4;

/// A row is special when an entry exceeds this in code space, where the rows' 99th percentile is about 1.
inline constexpr double largest_row_entry = 0x1p12;
/// The difference form has one residual bound for all rows of centred data: far rows would spoil it for the
/// rest.
inline constexpr double largest_centered_entry = 0x1p5;
inline constexpr double largest_query_entry = 0x1p30;
/// Float64 sums and roots are within this of the real ones, relatively: far more than dim / 8 roundings.
inline constexpr double sum_error = 0x1p-30;

}  // namespace kith::codes
