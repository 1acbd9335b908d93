// Which filter a dataset gets on GPUs, and why.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "brute_force/backend.hpp"
#include "brute_force/cuda/kernels.hpp"
#include "brute_force/cuda/tuning.hpp"
#include "codes/codes.hpp"
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
  std::int64_t coded_values = 0;  ///< values of a code that the step was fitted to
  double sample_distance = 0;     ///< within which nine in ten rows of a sample have another one
  double half_residual_cap = 1e300;
  bool forced = false;       ///< the caller named the filter
  bool exact_codes = false;  ///< rows are their own codes
  bool fp16_fits = false;    ///< codes of halves are not too long
  bool short_rows = false;   ///< one look at int8 codes is quicker than anything else
  double surplus = 1;        ///< candidates a neighbour that int8 is expected to keep
  double int8_seconds = 0;   ///< expected per 10^9 pairs
  double fp16_seconds = 0;
  double fp32_seconds = 0;
  /// int8 codes may hold what it makes of the rows in place of all their values; null: all values.
  std::shared_ptr<const codes::Projection> projection;
  double largest_rest = 0;  ///< as in cuda::CodeSpace
  bool fine = false;        ///< as in cuda::CodeSpace

  std::int64_t directions() const { return projection == nullptr ? 0 : projection->directions; }
  /// Values of a code of rows of dimension `dim`.
  std::int64_t values(std::int64_t dim) const { return projection == nullptr ? dim : projection->values(); }
  std::string text() const;
  /// The same with a longer step of int8 codes: fewer values lie beyond their range.
  CudaChoice widened(double by) const;
  /// Whether halves may take the place of int8 codes where these keep too much.
  bool may_be_halves() const;
  CudaChoice as_halves() const;
};

/// Chooses by a sample of the rows (host memory) and what the GPUs' policy says of costs; codes of up to
/// `longest` bytes. @throws InvalidArgument for a filter that does not fit
CudaChoice choose_cuda_codes(const DatasetView& sample, std::int64_t rows,
                             const BruteForceParameters& parameters, const tuning::Policy& policy,
                             std::int64_t longest = cuda::largest_code_bytes);

/// The step of int8 codes that suits rows in code space, `dim` values each, and what goes with it.
/// @return distances of some of them to the nearest other one, ascending
std::vector<double> fit_step(CudaChoice& choice, const std::vector<double>& rows, std::int64_t dim);

/// Seconds of the look at 10^9 pairs of int8 codes of so many values.
double int8_look_seconds(const tuning::Policy& policy, std::int64_t values);

/// Codes along leading directions, found from a sample (host memory).
class CudaDirections {
 public:
  /// Finds at most `most`, or as many as the spread of the variance may be worth (0). @throws Cancelled
  CudaDirections(Dataset sample, Metric metric, const CudaChoice& all_values, std::int64_t most,
                 const Execution& execution);

  /// Whether the shape of the data and the filter allow for any.
  static bool are_possible(const CudaChoice& all_values, std::int64_t dim);
  /// Whether the variance of a few rows is spread over few directions, and so many queries may earn what
  /// finding these and encoding along them takes. 0: an index.
  static bool are_worth_a_look(const CudaChoice& all_values, const DatasetView& few, Metric metric,
                               std::int64_t rows, std::int64_t expected_queries,
                               const tuning::Policy& policy);

  /// The least number that leaves little of the variance out; 0: none does.
  std::int64_t first() const { return first_; }
  /// How many there are.
  std::int64_t most() const { return found_.count(); }
  /// Codes along so many of them; without a projection where that cannot be.
  CudaChoice along(std::int64_t count, const tuning::Policy& policy) const;

 private:
  Dataset sample_;
  CudaChoice all_values_;
  codes::CodeSpace space_;
  codes::PrincipalDirections found_;
  std::int64_t first_ = 0;
};

}  // namespace kith::brute_force
