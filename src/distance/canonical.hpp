// The canonical distance: the one definition every index, filter and device must agree with to the bit.
//
// Values are converted to float64 (exact for every dtype). With d = dim and eight lanes l = 0..7:
//   lane[l]  = 0; for i = l, l+8, l+16, ... < d:  lane[l] = step(lane[l], i)
//   step     = fma(q_i - x_i, q_i - x_i, lane)   sqeuclidean, euclidean
//              fma(q_i, x_i, lane)               inner_product, and the three sums of cosine
//              lane + |q_i - x_i|                manhattan
//   sum      = ((lane0+lane4) + (lane2+lane6)) + ((lane1+lane5) + (lane3+lane7))
// The result is sum; sqrt(sum); 0 - sum; 1 - qx / (sqrt(qq) * sqrt(xx)) clamped to [0, 2], or 1 when qq or
// xx is 0 (NaN when the other is NaN); sum. It is rounded once to the result type. Zero-padding does not
// change it.
#pragma once

#include <cstdint>
#include <vector>

#include "kith/dataset.hpp"
#include "kith/metric.hpp"

namespace kith {

/// Rows as the kernels see them. Plain data: the kernel files must not pull in shared inline functions.
struct CanonicalRows {
  const void* data;
  std::int64_t stride_bytes;
  std::int64_t dim;
};

/// A query in float64, zero-padded to a multiple of 8, and sqrt(q.q) for cosine.
struct CanonicalQuery {
  const double* values;
  double norm;
};

/// out[i] = canonical distance (before the rounding to the result type) of the query and row ids[i].
using CanonicalFunction = void (*)(const CanonicalRows& rows, const CanonicalQuery& query,
                                   const std::int64_t* ids, std::int64_t count, double* out);

/// The kernel of the active instruction set. All sets give the same bits.
CanonicalFunction canonical_function(Dtype dtype, Metric metric);

/// Length of a padded query.
constexpr std::int64_t canonical_padded(std::int64_t dim) {
  return (dim + 7) / 8 * 8;
}

/// Converts one row to float64 into `out` (canonical_padded(dim) values) and computes its norm where the
/// metric needs it.
CanonicalQuery prepare_canonical_query(const void* row, Dtype dtype, std::int64_t dim, Metric metric,
                                       double* out);

inline CanonicalRows canonical_rows(const DatasetView& view) {
  return {view.data, view.row_stride * static_cast<std::int64_t>(size_of(view.dtype)), view.dim};
}

}  // namespace kith
