// Fewer values a row for filters: the coordinates along some directions and the length of the rest.
//
// With a matrix A whose norm is at most 1, Z(y) = (A y, rest) with rest^2 = |y|^2 - |A y|^2 lengthens no
// distance and shrinks no inner product:
//   |Z(q) - Z(y)| <= |q - y|,   q.y <= Z(q).Z(y),   |Z(y)| = |y|,
// so that every bound from codes of Z(q) and Z(y) holds for q and y (docs/exact-contract.md, step 11).
#pragma once

#include <cstdint>
#include <vector>

#include "codes/cpu/row_kernels.hpp"
#include "codes/form.hpp"
#include "codes/leading.hpp"

namespace kith::codes {

struct Projection {
  /// The bounds on rounding are proved up to here.
  static constexpr std::int64_t largest_dim = 4096;
  static constexpr std::int64_t most_directions = 512;

  std::int64_t dim = 0;         ///< of a row
  std::int64_t directions = 0;  ///< 0: none
  std::int64_t width = 0;       ///< columns of the map, a multiple of 4 panel_columns
  /// [width / panel_columns, dim, panel_columns], its norm at most 1; columns from `directions` on are zero.
  std::vector<double> map;
  /// The same rounded to float32, [width / narrow_panel_columns, dim, narrow_panel_columns].
  std::vector<float> narrow_map;

  /// The map's value for value i of a row and direction j.
  double at(std::int64_t i, std::int64_t j) const { return map[place(i, j)]; }
  double& at(std::int64_t i, std::int64_t j) { return map[place(i, j)]; }
  /// Makes narrow_map of map.
  void round_map();

  std::int64_t values() const { return directions + rest_values; }
  /// Values that `project` writes.
  std::int64_t room() const { return width + rest_values; }
  std::uint64_t bytes() const { return map.size() * sizeof(double) + narrow_map.size() * sizeof(float); }

 private:
  std::size_t place(std::int64_t i, std::int64_t j) const {
    return static_cast<std::size_t>((j / panel_columns * dim + i) * panel_columns + j % panel_columns);
  }
};

/// The first `count` directions; none where their norm cannot be bounded, as with values that are no numbers.
Projection make_projection(const PrincipalDirections& found, std::int64_t count);

/// A map of zeros.
Projection empty_projection(std::int64_t dim, std::int64_t directions);

/// Scales any map, so that its norm is at most 1, and rounds it.
/// False where no bound on its norm is to be had.
bool contract(Projection& projection);

/// Z(y) of each of `rows` rows [rows, dim], `room()` values apart. errors[i] bounds the 2-norm of what was
/// computed less the real Z of row i.
void project(const Projection& projection, const RowKernels& kernels, const double* y, std::int64_t rows,
             double* z, double* errors);

/// The same with products in float32, for rows of which codes of 8 bits are made: in about half the time, and
/// with errors that are larger, but small beside those of such codes. Rows that leave next to no rest are
/// projected as above, since its length would be all error. No magnitude of y exceeds largest_row_entry.
void project_narrow(const Projection& projection, const RowKernels& kernels, const double* y,
                    std::int64_t rows, double* z, double* errors, std::vector<float>& scratch);

}  // namespace kith::codes
