// One byte or half a byte a value, on one scale for all values of all rows: codes whose squared distance is
// an integer.
//
// A row x becomes y = x - mean (x / |x| before that for cosine; (x, sqrt(M^2 - |x|^2)) for inner product, M
// the largest norm, Bachrach et al. 2014), then code = round(y / step) + 128, held to 1..255; with 4 bits,
// round(y / step) + 8, held to 1..15, value 2 j in the low half of byte j and value 2 j + 1 in the high one.
// Rows of u8 and i8 under a Euclidean metric are their own codes of 8 bits. Since the step is common, sum
// (a_i - b_i)^2 of two codes orders pairs as their distances do, within the rounding, and as it is a sum of
// integers it has no rounding of its own: every instruction set and every order of summation gives the same
// value. That is what makes graphs over these codes, and walks through them, the same bits everywhere.
//
// No bound is kept beside a code: what is found by them is re-ranked by the canonical distance.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "codes/cpu/estimate.hpp"
#include "codes/cpu/row_kernels.hpp"
#include "kith/dataset.hpp"
#include "kith/execution.hpp"
#include "kith/metric.hpp"

namespace kith::codes {

/// Longest row that is encoded: 255^2 * (this + 1) stays below 2^31.
inline constexpr std::int64_t largest_scalar_dim = 32768;

/// How many bits and values codes have.
struct ScalarShape {
  int bits = 8;           ///< a value: 8 or 4
  std::int64_t dim = -1;  ///< values: -1 all, 0 as the data ask, else so many leading directions, or all
};

/// The transformation into codes, common to rows and queries. What it holds is all that must be kept to make
/// the same codes again.
struct ScalarSpace {
  Dtype dtype = Dtype::f32;
  Metric metric = Metric::sqeuclidean;
  std::int64_t dim = 0;
  std::vector<double> mean;  ///< code_dim() values; empty for raw integers
  double step = 1;
  double largest_norm = 0;  ///< inner product: M
  int bits = 8;             ///< a value: 8 or 4
  /// Leading directions (codes/leading.hpp) that are encoded in place of all values: y becomes map^T (unit
  /// y).
  std::int64_t leading = 0;  ///< 0: all values
  double unit = 1;           ///< brings values into float32's range
  std::vector<float> map;    ///< [y's dimension, leading]

  /// u8 and i8 rows are their own codes, and estimates their squared distances.
  bool raw_integers() const {
    return bits == 8 && leading == 0 && (dtype == Dtype::u8 || dtype == Dtype::i8) &&
           (metric == Metric::sqeuclidean || metric == Metric::euclidean);
  }
  /// Values of y: of the mean, too.
  std::int64_t full_dim() const { return dim + (metric == Metric::inner_product ? 1 : 0); }
  std::int64_t code_dim() const { return leading > 0 ? leading : full_dim(); }
  /// Bytes a code: code_dim() values and zeros to a whole number of registers.
  std::int64_t code_bytes() const { return (code_dim() * bits + 255) / 256 * 32; }
  /// A code's largest magnitude, and what is added to make it positive.
  int largest_code() const { return bits == 8 ? 127 : 7; }
  int offset() const { return largest_code() + 1; }
};

/// Mean, leading directions and step from a sample of the rows, the largest norm from all of them.
/// @param largest_value rows with a value of a larger magnitude are left out, where a graph takes them as
///   they are
/// @throws Cancelled
ScalarSpace make_scalar_space(const DatasetView& rows, Metric metric, const Execution& execution,
                              ScalarShape shape = {},
                              double largest_value = std::numeric_limits<double>::infinity());

/// The same with codes of so many bits a value: a step anew, mean and directions as they are.
/// @param space of rows that are not their own codes
/// @throws Cancelled
ScalarSpace with_bits(const DatasetView& rows, ScalarSpace space, int bits, const Execution& execution);

/// Bytes that make_scalar_space takes at its peak.
std::uint64_t scalar_space_bytes(std::int64_t dim, ScalarShape shape);

/// What estimates codes of a space: EstimateKernels::gathered, or gathered_4.
decltype(EstimateKernels::gathered) estimates_of(const ScalarSpace& space);

/// How a row fits a space that was made without it.
struct ScalarFit {
  double reach = 0;   ///< its value farthest from the mean, in units of the farthest that has a code
  double length = 0;  ///< inner product: in units of the longest row; 0 for one that is not finite
};

/// Encodes rows and queries, one after the other; a thread has its own.
class ScalarCodec {
 public:
  explicit ScalarCodec(const ScalarSpace& space);

  /// Writes space.code_bytes() bytes. False for a row with a NaN, whose code means nothing. Values beyond
  /// the codes' range, infinities too, take its ends.
  bool encode_row(const void* values, std::uint8_t* code);
  bool encode_query(const void* values, std::uint8_t* code);
  /// NaN for a row with a NaN, 1 for infinities: they take the ends of the range anywhere.
  ScalarFit fit(const void* values);
  /// What a code stands for: space.dim values.
  void decode(const std::uint8_t* code, double* values) const;

 private:
  bool transform(const void* values, bool is_query);
  bool copy_integers(const void* values, std::uint8_t* code) const;
  void project();
  void quantize(std::uint8_t* code);

  const ScalarSpace& space_;
  const RowKernels& kernels_;
  std::vector<double> y_;
  std::vector<float> narrow_, projected_;
  std::vector<std::uint8_t> halves_;  // values of 4 bits, a byte each, and a zero

  friend class ScalarTrainer;
};

}  // namespace kith::codes
