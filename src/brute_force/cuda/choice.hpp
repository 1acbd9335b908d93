// Which filter a dataset gets on GPUs, and why.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "brute_force/backend.hpp"
#include "brute_force/cuda/kernels.hpp"
#include "brute_force/cuda/tuning.hpp"
#include "codes/cuda/codes.hpp"

namespace kith::brute_force {

/// Which filter, and the estimates it was chosen by; see choose.cpp.
struct CudaChoice {
  Filter filter = Filter::none;
  codes::Form form = codes::Form::none;
  std::vector<double> mean;  ///< empty: not centred
  double unit = 1;
  double step = 1;
  double typical_residual = 1e300;  ///< as in cuda::CodeSpace, and so the next two
  double typical_reach = 0;
  double residual_cap = 1e300;
  double half_residual_cap = 1e300;
  bool forced = false;       ///< the caller named the filter
  bool exact_codes = false;  ///< rows are their own codes
  bool fp16_fits = false;    ///< codes of halves are not too long
  bool short_rows = false;   ///< one look at int8 codes is quicker than anything else
  double surplus = 1;        ///< candidates a neighbour that int8 is expected to keep
  double int8_seconds = 0;   ///< expected per 10^9 pairs
  double fp16_seconds = 0;
  double fp32_seconds = 0;

  std::string text() const;
  /// Whether halves may take the place of int8 codes where these keep too much.
  bool may_be_halves() const;
  CudaChoice as_halves() const;
};

/// Chooses by a sample of the rows (host memory) and what the GPUs' policy says of costs. @throws
/// InvalidArgument for a filter that does not fit
CudaChoice choose_cuda_codes(const DatasetView& sample, std::int64_t rows,
                             const BruteForceParameters& parameters, const tuning::Policy& policy);

}  // namespace kith::brute_force
