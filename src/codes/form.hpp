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

/// Narrow int8 codes, for instruction sets whose byte products saturate 16 bits: a row's are seven bits wide,
/// so that the sum of two products fits. Values 0 and 1 of every four are summed in one 16-bit lane, 2 and 3
/// in another, over blocks of so many fours; in the 2-norm a lane of a block is at most so long, a row's and
/// a query's, that by Cauchy and Schwarz its sum fits as well (docs/exact-contract.md, step 5).
inline constexpr int narrow_offset = 64;
inline constexpr int narrow_largest = 63;
inline constexpr std::int64_t narrow_block = 18;  // 64 directions and the rest in one
inline constexpr int narrow_row_lane = 130;
inline constexpr int narrow_query_lane = 252;
static_assert(2 * (narrow_offset + narrow_largest) * 127 <= 32767);
static_assert(narrow_row_lane * narrow_query_lane <= 32767);

/// A row is special when an entry exceeds this in code space, where the rows' 99th percentile is about 1.
inline constexpr double largest_row_entry = 0x1p12;
/// The difference form has one residual bound for all rows of centred data: far rows would spoil it for the
/// rest.
inline constexpr double largest_centered_entry = 0x1p5;
inline constexpr double largest_query_entry = 0x1p30;
/// Float64 sums and roots are within this of the real ones, relatively: far more than dim / 8 roundings.
inline constexpr double sum_error = 0x1p-30;

}  // namespace kith::codes
