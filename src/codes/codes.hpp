// Compressed copies of the rows with a certified error, from which a filter bounds the true distance.
//
// Every row x becomes y = (x - mean) * unit (x / |x| for cosine) in float64, then y' = scale * code. The
// residual norm e = |y - y'| is computed in float64 and rounded up, so that for the query q likewise
//   triangle:  |q - y| >= |q' - y'| - e_q - e                         (sqeuclidean, euclidean)
//   Cauchy:    q.y <= q'.y' + e_q |y| + |q'| e                        (all but manhattan)
// hold for any data. In place of y the codes may have fewer values (projection.hpp). Rounding of the float32
// arithmetic that evaluates them is covered by enlarging e, h and g beforehand (docs/exact-contract.md has
// the proof). Rows that no bound can speak of (infinite, far above the rest) are `special` and always
// evaluated exactly; rows with a NaN are left out.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "codes/form.hpp"
#include "codes/projection.hpp"
#include "core/aligned_buffer.hpp"
#include "kith/dataset.hpp"
#include "kith/execution.hpp"
#include "kith/filter.hpp"
#include "kith/metric.hpp"

namespace kith::codes {

/// Longest row whose int8 products cannot overflow 32 bits.
inline constexpr std::int64_t largest_int8_dim = 32768;
/// Longest row that is encoded at all: the float64 sums behind the bounds allow for this many roundings.
inline constexpr std::int64_t largest_dim = std::int64_t{1} << 22;

/// What to encode into.
struct CodeChoice {
  Filter filter = Filter::none;  ///< int8, fp16, fp32, or none
  Form form = Form::triangle;
  bool narrow = false;  ///< int8: rows of seven bits (form.hpp)
};

/// The transformation into code space, common to rows and queries.
struct CodeSpace {
  Dtype dtype = Dtype::f32;
  Metric metric = Metric::sqeuclidean;
  CodeChoice choice;
  std::int64_t dim = 0;
  std::vector<double> mean;  ///< empty: not centred
  double unit = 1;           ///< a power of two that brings the rows near 1
  /// Dot forms may encode what it makes of y in place of y itself; null: y.
  std::shared_ptr<const Projection> projection;

  /// Values of a code.
  std::int64_t values() const { return projection == nullptr ? dim : projection->values(); }
  /// u8 and i8 rows are their own codes.
  bool raw_integers() const {
    return choice.filter == Filter::int8 && !choice.narrow && (dtype == Dtype::u8 || dtype == Dtype::i8) &&
           projection == nullptr;
  }
  /// Relative error of one float32 score: rounding of the scalars and, for fp16 and fp32, of the sum.
  double rounding() const;
  std::int64_t steps() const { return choice.filter == Filter::int8 ? (values() + 3) / 4 : values(); }
  std::int64_t bytes_per_tile() const;
  /// Narrow codes: blocks, each with two 16-bit numbers behind a query's code.
  std::int64_t blocks() const { return choice.narrow ? (steps() + narrow_block - 1) / narrow_block : 0; }
  /// A query's code row: four int8, or one float, a step.
  std::int64_t query_stride_bytes() const { return (steps() + blocks()) * 4; }
};

/// The encoded rows. Position in the codes = row number; `valid` says which rows the filter speaks for.
struct Codes {
  Codes() = default;
  /// Takes the memory, leaves the values undefined. @throws OutOfMemory
  Codes(const CodeSpace& code_space, std::int64_t row_count);

  CodeSpace space;
  std::int64_t rows = 0;
  std::int64_t tiles = 0;
  AlignedBuffer<unsigned char> codes;
  AlignedBuffer<float> scale, h, g, e;
  AlignedBuffer<std::int32_t> bias;
  std::vector<std::uint64_t> valid;   ///< a bit a row
  std::vector<std::int64_t> special;  ///< rows to evaluate exactly, ascending
  std::int64_t nan_rows = 0;
  double largest_residual = 0;  ///< difference and absolute form: max of e over valid rows

  std::uint64_t bytes() const;
};

/// An encoded query and the scalars its thresholds are made of.
struct QueryCode {
  RowKind kind = RowKind::regular;
  double scale = 1;     ///< q' = scale * code
  double norm_sq = 0;   ///< |q|^2 in code space (of q' for the triangle form)
  double norm = 0;      ///< |q'|
  double residual = 0;  ///< e_q, rounded up
  std::int32_t bias = 0;
};

/// Bytes that encoding `rows` rows takes.
std::uint64_t code_bytes(const CodeSpace& space, std::int64_t rows);

/// Mean and unit from a strided sample of the data.
CodeSpace make_code_space(const DatasetView& data, Metric metric, CodeChoice choice);

/// Over how many directions the rows' variance is spread: (sum l)^2 / sum l^2 for the eigenvalues l of their
/// covariance (the participation ratio), estimated from pairs of a small sample. `space` has no projection.
double spread_of(const DatasetView& data, const CodeSpace& space);

/// The space as a projection needs it: u8 and i8 rows that are their own codes get mean, unit, and a form
/// whose bounds have residuals.
CodeSpace real_valued(const DatasetView& data, const CodeSpace& space);

/// The directions of a space's rows, from a sample.
/// @throws Cancelled
PrincipalDirections directions_of(const DatasetView& data, const CodeSpace& space, std::int64_t most,
                                  const Execution& execution);
/// How far some of the rows or queries lie off the directions of a space, which has a projection: the length
/// of the rest, for cosine and inner product its share of the whole length. Ascending; without those that no
/// filter speaks of.
std::vector<double> rests_of(const DatasetView& data, const CodeSpace& space, std::int64_t count);

/// Bytes that it takes at its peak, maps made of it included.
std::uint64_t directions_bytes(std::int64_t dim, std::int64_t most);

/// True when the two choices share mean and unit, so that one space serves both.
bool same_space(Metric metric, Dtype dtype, CodeChoice a, CodeChoice b);

/// Encodes all rows of `data` (or those listed in `ids`, in that order) in parallel.
/// @throws OutOfMemory, Cancelled
Codes encode_rows(const DatasetView& data, const CodeSpace& space, const Execution& execution,
                  const std::vector<std::int64_t>* ids = nullptr);

struct Scratch;  // transform.hpp

/// Encodes one query, given in float64, into `out` (query_stride_bytes() bytes). `scratch`: made for this
/// space.
QueryCode encode_query(const CodeSpace& space, const double* values, void* out, Scratch& scratch);

/// Whether the active instruction set multiplies narrow codes faster than others.
bool prefers_narrow();

/// Which forms a metric and dtype allow, the natural filter first.
std::vector<CodeChoice> possible_codes(Dtype dtype, Metric metric, std::int64_t dim);

}  // namespace kith::codes
