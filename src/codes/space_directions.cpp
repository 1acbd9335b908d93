// How the variance of a code space's rows is spread, and the directions that hold most of it.
#include <algorithm>
#include <cmath>

#include "codes/codes.hpp"
#include "codes/transform.hpp"
#include "core/sample.hpp"

namespace kith::codes {
namespace {

constexpr std::int64_t rows_for_pairs = 128;

std::int64_t rows_for_directions(std::int64_t dim) {
  return std::clamp<std::int64_t>(2 * dim, 2048, 4096);
}

// Sampled rows in code space, those that a filter speaks of.
std::vector<double> sample_of(const DatasetView& data, const CodeSpace& space, std::int64_t count,
                              double limit = largest_row_entry) {
  const RowKernels& kernels = row_kernels();
  std::vector<double> rows;
  std::vector<double> y(static_cast<std::size_t>(data.dim));
  for (const std::int64_t i : sample_rows(data.rows, count)) {
    kernels.load[static_cast<int>(data.dtype)](data.row(i), data.dim, y.data());
    double error = 0;
    if (to_code_space(space, kernels, y.data(), limit, error) != RowKind::regular) continue;
    rows.insert(rows.end(), y.begin(), y.end());
  }
  return rows;
}

}  // namespace

double spread_of(const DatasetView& data, const CodeSpace& space) {
  const RowKernels& kernels = row_kernels();
  const std::vector<double> rows = sample_of(data, space, rows_for_pairs);
  const auto count = static_cast<std::int64_t>(rows.size()) / data.dim;
  double squares = 0;  // of products of different rows: their mean is the sum of squared eigenvalues
  double norms = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const double* row = rows.data() + i * data.dim;
    norms += kernels.sum_of_squares(row, data.dim);
    for (std::int64_t j = 0; j < i; ++j) {
      const double product = kernels.dot(row, rows.data() + j * data.dim, data.dim);
      squares += product * product;
    }
  }
  const auto n = static_cast<double>(count);
  const double mean_square = squares / (n * (n - 1) / 2);
  const double mean_norm = norms / n;
  const double spread = mean_norm * mean_norm / mean_square;
  return std::isfinite(spread) ? spread : static_cast<double>(data.dim);
}

CodeSpace real_valued(const DatasetView& data, const CodeSpace& space) {
  if (!space.raw_integers()) return space;
  CodeChoice choice = space.choice;
  if (choice.form == Form::integer) {
    choice.form = space.metric == Metric::inner_product ? Form::cauchy : Form::triangle;
  }
  choice.narrow = prefers_narrow();
  CodeSpace real = make_code_space(data, space.metric, {Filter::fp16, choice.form});
  real.choice = choice;
  return real;
}

PrincipalDirections directions_of(const DatasetView& data, const CodeSpace& space, std::int64_t most,
                                  const Execution& execution) {
  return principal_directions(sample_of(data, space, rows_for_directions(data.dim)), data.dim, most,
                              execution);
}

std::vector<double> rests_of(const DatasetView& data, const CodeSpace& space, std::int64_t count) {
  const RowKernels& kernels = row_kernels();
  const std::vector<double> rows = sample_of(data, space, count, largest_query_entry);
  const Projection& projection = *space.projection;
  std::vector<double> z(static_cast<std::size_t>(projection.room()));
  std::vector<double> rests;
  for (const double* y = rows.data(); y != rows.data() + rows.size(); y += data.dim) {
    double error = 0;
    project(projection, kernels, y, 1, z.data(), &error);
    const double rest = z[static_cast<std::size_t>(projection.directions)] * 2;
    const double whole =
        space.choice.form == Form::triangle ? 1 : std::sqrt(kernels.sum_of_squares(y, data.dim));
    rests.push_back(rest > 0 ? rest / whole : 0);
  }
  std::sort(rests.begin(), rests.end());
  return rests;
}

std::uint64_t directions_bytes(std::int64_t dim, std::int64_t most) {
  // Vectors grow by doubling; a map, and the rows that its norm is bounded by.
  const auto sample = static_cast<std::uint64_t>(rows_for_directions(dim) * dim) * 3;
  return leading_bytes(dim, most) + (sample + 2 * static_cast<std::uint64_t>(dim * most)) * sizeof(double);
}

}  // namespace kith::codes
