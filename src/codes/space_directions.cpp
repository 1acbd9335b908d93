// How the variance of a code space's rows is spread, and the directions that hold most of it.
#include <algorithm>
#include <cmath>

#include "codes/codes.hpp"
#include "codes/transform.hpp"
#include "core/parallel.hpp"
#include "core/sample.hpp"

namespace kith::codes {
namespace {

constexpr std::int64_t rows_for_pairs = 128;
// Any directions will do, and more of these hold little more of the variance.
constexpr int iterations = 3;

std::int64_t rows_for_directions(std::int64_t dim) {
  return std::clamp<std::int64_t>(2 * dim, 2048, 4096);
}

// Few rows are no work for several threads.
Execution alone() {
  Execution one;
  one.threads = 1;
  return one;
}

// Sampled rows in code space, those that a filter speaks of.
std::vector<double> sample_of(const DatasetView& data, const CodeSpace& space, std::int64_t count,
                              const Execution& execution, double limit = largest_row_entry) {
  const RowKernels& kernels = row_kernels();
  const std::vector<std::int64_t> ids = sample_rows(data.rows, count);
  const auto dim = static_cast<std::size_t>(data.dim);
  std::vector<double> rows(ids.size() * dim);
  std::vector<char> regular(ids.size());
  constexpr std::int64_t rows_a_task = 64;
  const std::int64_t tasks = (std::ssize(ids) + rows_a_task - 1) / rows_a_task;
  constexpr std::int64_t little = 1 << 19;  // values, for which it takes longer to wake other threads
  parallel_for(std::ssize(rows) < little ? alone() : execution, tasks, [&](std::int64_t task) {
    const std::int64_t end = std::min(std::ssize(ids), (task + 1) * rows_a_task);
    for (std::int64_t i = task * rows_a_task; i < end; ++i) {
      const auto at = static_cast<std::size_t>(i);
      double* y = rows.data() + at * dim;
      double error = 0;
      const RowKind kind = load_to_code_space(space, kernels, data.row(ids[at]), y, limit, error);
      regular[at] = kind == RowKind::regular ? 1 : 0;
    }
  });
  std::size_t kept = 0;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (regular[i] == 0) continue;
    if (kept != i) std::copy_n(rows.data() + i * dim, dim, rows.data() + kept * dim);
    ++kept;
  }
  rows.resize(kept * dim);
  return rows;
}

}  // namespace

double spread_of(const DatasetView& data, const CodeSpace& space) {
  const RowKernels& kernels = row_kernels();
  const std::vector<double> rows = sample_of(data, space, rows_for_pairs, alone());
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
  return principal_directions(sample_of(data, space, rows_for_directions(data.dim), execution), data.dim,
                              most, execution, iterations);
}

ProjectedSample projected_sample(const DatasetView& data, const CodeSpace& space, std::int64_t most) {
  constexpr std::int64_t group = 8;  // rows that share the map's way through the cache
  const Projection& projection = *space.projection;
  const std::vector<double> rows = sample_of(data, space, most, alone());
  ProjectedSample sample;
  sample.rows = std::ssize(rows) / data.dim;
  sample.room = projection.room();
  sample.z.resize(static_cast<std::size_t>(sample.rows * sample.room));
  sample.errors.resize(static_cast<std::size_t>(sample.rows));
  std::vector<float> scratch;
  for (std::int64_t first = 0; first < sample.rows; first += group) {
    project_narrow(projection, row_kernels(), rows.data() + first * data.dim,
                   std::min(group, sample.rows - first), sample.z.data() + first * sample.room,
                   sample.errors.data() + first, scratch);
  }
  return sample;
}

std::vector<double> rests_of(const DatasetView& data, const CodeSpace& space, std::int64_t count) {
  constexpr std::int64_t group = 8;  // rows that share the map's way through the cache
  const RowKernels& kernels = row_kernels();
  const std::vector<double> rows = sample_of(data, space, count, alone(), largest_query_entry);
  const Projection& projection = *space.projection;
  std::vector<double> z(static_cast<std::size_t>(group * projection.room()));
  std::vector<double> rests;
  const std::int64_t sampled = std::ssize(rows) / data.dim;
  for (std::int64_t first = 0; first < sampled; first += group) {
    const std::int64_t together = std::min(group, sampled - first);
    double errors[group];
    project(projection, kernels, rows.data() + first * data.dim, together, z.data(), errors);
    for (std::int64_t i = 0; i < together; ++i) {
      const double rest = z[static_cast<std::size_t>(i * projection.room() + projection.directions)] * 2;
      const double* y = rows.data() + (first + i) * data.dim;
      const double whole =
          space.choice.form == Form::triangle ? 1 : std::sqrt(kernels.sum_of_squares(y, data.dim));
      rests.push_back(rest > 0 ? rest / whole : 0);
    }
  }
  std::sort(rests.begin(), rests.end());
  return rests;
}

std::uint64_t directions_bytes(std::int64_t dim, std::int64_t most) {
  // The sample; a map, its float32 copy, and the rows that its norm is bounded by.
  const auto sample = static_cast<std::uint64_t>(rows_for_directions(dim) * dim);
  return leading_bytes(dim, most) + (sample + 3 * static_cast<std::uint64_t>(dim * most)) * sizeof(double);
}

}  // namespace kith::codes
