// int8 codes along leading directions (docs/exact-contract.md, step 11): which there are, and codes along
// some.
#include <algorithm>
#include <cmath>
#include <utility>

#include "brute_force/cuda/choice.hpp"
#include "brute_force/directions.hpp"
#include "codes/projection.hpp"
#include "codes/transform.hpp"

namespace kith::brute_force {

namespace {

std::int64_t most_directions(std::int64_t dim) {
  return std::min(dim / 2, codes::Projection::most_directions);
}

// The code space of the choice, as the host knows it, with a form whose bounds have residuals.
codes::CodeSpace space_of(const DatasetView& sample, Metric metric, const CudaChoice& choice) {
  codes::CodeSpace space;
  space.dtype = sample.dtype;
  space.metric = metric;
  space.choice = {Filter::int8, choice.form};
  space.dim = sample.dim;
  space.mean = choice.mean;
  space.unit = choice.unit;
  return codes::real_valued(sample, space);
}

}  // namespace

bool CudaDirections::are_possible(const CudaChoice& all_values, std::int64_t dim) {
  return all_values.filter == Filter::int8 && dim <= codes::Projection::largest_dim;
}

bool CudaDirections::are_worth_a_look(const CudaChoice& all_values, const DatasetView& few, Metric metric,
                                      std::int64_t rows, std::int64_t expected_queries,
                                      const tuning::Policy& policy) {
  const auto d = static_cast<double>(few.dim);
  const auto n = static_cast<double>(rows);
  if (!are_possible(all_values, few.dim) || few.dim < tuning::fewest_reduced_dim) return false;
  if (expected_queries > 0) {
    // Half of the look may be saved; what is looked for may not be found.
    const double saved =
        int8_look_seconds(policy, few.dim) / 2 * 1e-9 * n * static_cast<double>(expected_queries);
    if (saved <
        tuning::find_seconds * d * d * d + tuning::project_seconds * n * d * 128 * tuning::most_tries) {
      return false;
    }
  }
  return codes::spread_of(few, space_of(few, metric, all_values)) <= d * tuning::largest_spread;
}

CudaDirections::CudaDirections(Dataset sample, Metric metric, const CudaChoice& all_values, std::int64_t most,
                               const Execution& execution)
    : sample_(std::move(sample)),
      all_values_(all_values),
      space_(space_of(sample_.view(), metric, all_values)) {
  const DatasetView& rows = sample_.view();
  std::int64_t count = std::min(most, rows.dim);
  if (most == 0) {
    const double spread = codes::spread_of(rows, space_);
    const auto enough =
        static_cast<std::int64_t>(tuning::directions_of_spread * spread) + 2 * tuning::step_of_directions;
    count =
        std::min(most_directions(rows.dim), enough) / tuning::step_of_directions * tuning::step_of_directions;
  }
  found_ = codes::directions_of(rows, space_, count, execution);
  double share = 0;
  for (std::int64_t j = 0; j < found_.count() && first_ == 0; ++j) {
    share += found_.shares[static_cast<std::size_t>(j)];
    const bool whole = (j + 1 + codes::rest_values) % tuning::step_of_directions == 0;
    if (whole && share >= tuning::first_share) first_ = j + 1;
  }
}

CudaChoice CudaDirections::along(std::int64_t count, const tuning::Policy& policy) const {
  CudaChoice choice = all_values_;
  auto projection = std::make_shared<codes::Projection>(codes::make_projection(found_, count));
  if (projection->directions == 0) return choice;
  codes::CodeSpace space = space_;
  space.projection = projection;
  choice.form = space.choice.form;
  choice.mean = space.mean;
  choice.unit = space.unit;
  choice.exact_codes = false;
  choice.projection = std::move(projection);
  choice.fine = true;

  // What a sample of the rows becomes.
  const std::int64_t dim = space.dim;
  const std::int64_t values = space.values();
  const codes::RowKernels& kernels = codes::row_kernels();
  const auto room = static_cast<std::size_t>(space.projection->room());
  std::vector<double> y(static_cast<std::size_t>(dim));
  std::vector<double> z(room);
  std::vector<double> rows;
  const std::int64_t every = std::max<std::int64_t>(1, sample_.rows() / tuning::code_sample_rows);
  for (std::int64_t i = 0; i < sample_.rows(); i += every) {
    kernels.load[static_cast<int>(space.dtype)](sample_.view().row(i), dim, y.data());
    double error = 0;
    const codes::RowKind kind =
        codes::to_code_space(space, kernels, y.data(), codes::largest_row_entry, error);
    if (kind != codes::RowKind::regular) continue;
    codes::project(*space.projection, kernels, y.data(), 1, z.data(), &error);
    rows.insert(rows.end(), z.begin(), z.begin() + values);
  }
  (void)fit_step(choice, rows, values);
  choice.int8_seconds = int8_look_seconds(policy, values);
  choice.largest_rest = largest_rest(sample_.view(), space);
  return choice;
}

}  // namespace kith::brute_force
