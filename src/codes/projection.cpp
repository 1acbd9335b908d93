#include "codes/projection.hpp"

#include <algorithm>
#include <cmath>

#include "codes/cpu/row_kernels.hpp"
#include "codes/form.hpp"

namespace kith::codes {
Projection empty_projection(std::int64_t dim, std::int64_t directions) {
  Projection projection;
  projection.dim = dim;
  projection.directions = directions;
  constexpr std::int64_t columns = 4 * panel_columns;  // project_rows takes four panels at a time
  projection.width = (directions + columns - 1) / columns * columns;
  projection.map.assign(static_cast<std::size_t>(dim * projection.width), 0.0);
  return projection;
}

void Projection::round_map() {
  narrow_map.assign(map.size(), 0.0F);
  for (std::int64_t i = 0; i < dim; ++i) {
    for (std::int64_t j = 0; j < directions; ++j) {
      const std::int64_t row = j / narrow_panel_columns * dim + i;
      narrow_map[static_cast<std::size_t>(row * narrow_panel_columns + j % narrow_panel_columns)] =
          static_cast<float>(at(i, j));
    }
  }
}

bool contract(Projection& projection) {
  const std::int64_t count = projection.directions;
  // Directions as rows, for their products.
  std::vector<double> rows(static_cast<std::size_t>(count * projection.dim));
  for (std::int64_t j = 0; j < count; ++j) {
    for (std::int64_t i = 0; i < projection.dim; ++i) {
      rows[static_cast<std::size_t>(j * projection.dim + i)] = projection.at(i, j);
    }
  }
  const RowKernels& kernels = row_kernels();
  double largest = 0;
  double norm_sq = 0;
  for (std::int64_t j = 0; j < count; ++j) {
    const double* row = rows.data() + j * projection.dim;
    double sum = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      sum += std::fabs(kernels.dot(row, rows.data() + i * projection.dim, projection.dim));
    }
    if (!std::isfinite(sum)) return false;
    norm_sq = std::max(norm_sq, sum);
    largest = std::max(largest, kernels.sum_of_squares(row, projection.dim));
  }
  if (!(norm_sq > 0 && largest <= 2)) return false;
  norm_sq = norm_sq * (1 + 0x1p-40) + static_cast<double>(count) * 0x1p-40;
  const double factor = (1 - 0x1p-30) / std::sqrt(norm_sq);
  kernels.scale(projection.map.data(), factor, static_cast<std::int64_t>(projection.map.size()));
  projection.round_map();
  return true;
}

Projection make_projection(const PrincipalDirections& found, std::int64_t count) {
  Projection projection;
  if (count < 1 || count > std::min(found.count(), Projection::most_directions) ||
      found.dim > Projection::largest_dim) {
    return projection;
  }
  projection = empty_projection(found.dim, count);
  const std::vector<double> map = rotated_map(found, count);
  for (std::int64_t i = 0; i < found.dim; ++i) {
    for (std::int64_t j = 0; j < count; ++j) {
      projection.at(i, j) = map[static_cast<std::size_t>(i * count + j)];
    }
  }
  if (!contract(projection)) return {};
  return projection;
}

namespace {

// Puts the rest beside a row's coordinates, which are wrong by less than `rounding` |y| / 2 + `underflow`.
// Returns the error of both.
double add_rest(const Projection& projection, const RowKernels& kernels, double norm_sq, double rounding,
                double underflow, double* its) {
  const double slack = rounding * norm_sq + underflow;
  const double rest = std::sqrt(std::max(0.0, norm_sq - kernels.sum_of_squares(its, projection.directions)));
  std::fill_n(its + projection.directions, rest_values, rest / 2);
  const double limit = std::sqrt(slack);
  const double of_rest = rest > limit ? slack / rest : limit;
  return (of_rest + rounding * std::sqrt(norm_sq) + underflow) * (1 + sum_error);
}

}  // namespace

void project(const Projection& projection, const RowKernels& kernels, const double* y, std::int64_t rows,
             double* z, double* errors) {
  const std::int64_t dim = projection.dim;
  kernels.project_rows(projection.map.data(), y, rows, dim, projection.width / panel_columns,
                       projection.room(), z);
  const double rounding =
      (static_cast<double>(dim) + 16) * std::sqrt(static_cast<double>(projection.directions)) * 0x1p-51;
  for (std::int64_t i = 0; i < rows; ++i) {
    const double norm_sq = kernels.sum_of_squares(y + i * dim, dim);
    errors[i] = add_rest(projection, kernels, norm_sq, rounding, 0x1p-1000, z + i * projection.room());
  }
}

void project_narrow(const Projection& projection, const RowKernels& kernels, const double* y,
                    std::int64_t rows, double* z, double* errors, std::vector<float>& scratch) {
  const std::int64_t dim = projection.dim;
  const std::int64_t panels = projection.width / narrow_panel_columns;
  scratch.resize(static_cast<std::size_t>(rows * dim));
  std::transform(y, y + rows * dim, scratch.begin(), [](double x) { return static_cast<float>(x); });
  kernels.project_rows_narrow(projection.narrow_map.data(), scratch.data(), rows, dim, panels,
                              projection.room(), z);
  const double rounding =
      (narrow_sum_values + 8) * std::sqrt(static_cast<double>(projection.directions)) * 0x1p-23;
  constexpr double worthwhile = 0x1p-10;  // of the length: codes of eight bits err by several times that
  for (std::int64_t i = 0; i < rows; ++i) {
    const double norm_sq = kernels.sum_of_squares(y + i * dim, dim);
    double* its = z + i * projection.room();
    errors[i] = add_rest(projection, kernels, norm_sq, rounding, 0x1p-100, its);
    // The length of a short rest is the difference of two long ones.
    if (errors[i] > worthwhile * std::sqrt(norm_sq))
      project(projection, kernels, y + i * dim, 1, its, errors + i);
  }
}

}  // namespace kith::codes
