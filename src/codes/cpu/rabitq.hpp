// The inner loops of RaBitQ (codes/rabitq.hpp), compiled once per instruction set. Plain data only.
#pragma once

#include <cstdint>

namespace kith::codes {

/// How well a row fits a grid; see RabitqKernels::fit.
struct GridFit {
  double product;  ///< sum m_i a_i
  double square;   ///< sum m_i^2
};

/// All sets give the same values: `dots` sums integers, `fit` runs in eight lanes everywhere.
struct RabitqKernels {
  /// Products of codes and a query: out[r] = sum_i u_i q_i. A code has `blocks` blocks of 32 values, each as
  /// `bits` words of 32 bits, lowest first: bit i of word j is bit j of value i. The next code is `stride`
  /// bytes further. The sum of |q_i| (2^bits - 1) must stay below 2^31.
  void (*dots)(const std::uint8_t* codes, std::int64_t stride, std::int64_t blocks, std::int64_t bits,
               const std::int16_t* query, std::int64_t count, std::int32_t* out);
  /// The same for the codes `rows[r]`.
  void (*gathered_dots)(const std::uint8_t* codes, std::int64_t stride, std::int64_t blocks,
                        std::int64_t bits, const std::int16_t* query, const std::uint32_t* rows,
                        std::int64_t count, std::int32_t* out);
  /// Of `count` magnitudes a_i, a multiple of 8, and the middles m_i = min(floor(a_i inverse), top) + 1/2 of
  /// the steps that they fall into.
  GridFit (*fit)(const double* magnitudes, std::int64_t count, double inverse, double top);
};

extern const RabitqKernels rabitq_kernels_portable;
extern const RabitqKernels rabitq_kernels_avx2;
extern const RabitqKernels rabitq_kernels_avx512;
extern const RabitqKernels rabitq_kernels_neon;

/// Those of the active instruction set.
const RabitqKernels& rabitq_kernels();

}  // namespace kith::codes
