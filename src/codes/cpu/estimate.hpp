// Distances of codes of one byte or half a byte a value (codes/scalar.hpp), compiled once per instruction
// set. Plain data only.
#pragma once

#include <cstdint>

namespace kith::codes {

/// Sums of squared differences of a query's code and codes of rows.
struct EstimateKernels {
  /// out[i] = distance of `query` and the code `rows[i]` of `codes`, each `bytes` long (a multiple of 32).
  /// The codes of rows to come are fetched ahead.
  void (*gathered)(const std::uint8_t* codes, std::int64_t bytes, const std::uint8_t* query,
                   const std::uint32_t* rows, std::int64_t count, std::int32_t* out);
  /// The same for codes of two values a byte.
  void (*gathered_4)(const std::uint8_t* codes, std::int64_t bytes, const std::uint8_t* query,
                     const std::uint32_t* rows, std::int64_t count, std::int32_t* out);
};

extern const EstimateKernels estimate_kernels_portable;
extern const EstimateKernels estimate_kernels_avx2;
extern const EstimateKernels estimate_kernels_avx512;
extern const EstimateKernels estimate_kernels_neon;

/// Those of the active instruction set. All sets give the same values.
const EstimateKernels& estimate_kernels();

}  // namespace kith::codes
