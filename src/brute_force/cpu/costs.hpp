// What the automatic choice of codes takes work to cost on this machine.
#pragma once

#include <cstdint>

#include "codes/codes.hpp"
#include "kith/calibration.hpp"
#include "kith/execution.hpp"

namespace kith::brute_force {

/// In the time of a multiply-add of 8-bit codes on AVX-512, on the machine that tuning.hpp was fitted on.
struct CostModel {
  double int8 = 0;  ///< a multiply-add
  double int7 = 0;  ///< of narrow codes
  double fp16 = 0;
  double fp32 = 0;
  double exact_value = 0;  ///< of a row that is evaluated
  double exact_row = 0;    ///< and the row itself
  double directions = 0;   ///< to find leading directions, times dim^3
  double look = 0;         ///< to measure what some of them keep
  double projection = 0;   ///< a value of a row and direction
  std::int64_t difference_dim = 0;
  double byte = 0;               ///< to read a byte of codes that no cache holds; 0: unknown
  std::int64_t cache_bytes = 0;  ///< what a cache holds; 0: unknown

  /// Of one pair: `values` to compare and, where it is kept, `dim` to evaluate.
  /// @param rows of the codes @param queries that look at a row once it is in a cache; 0: many
  double pair(codes::CodeChoice choice, double kept, std::int64_t values, std::int64_t dim, std::int64_t rows,
              std::int64_t queries) const;
};

/// Built-in costs of the active instruction set, or those of a calibration of this machine.
/// @throws IoError when KITH_CALIBRATION names a file that cannot be read
CostModel cost_model(const Execution& execution);

/// A calibration's figures as costs: the built-in ones of AVX-512, each times what its work took here over
/// what it took there.
CostModel cost_model_of(const Calibration& calibration, int threads);

}  // namespace kith::brute_force
