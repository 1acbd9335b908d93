// The inner loops of encoding, compiled once per instruction set. Plain data only.
#pragma once

#include <cstdint>

namespace kith::codes {

/// Columns of a float64 map that lie side by side.
inline constexpr int panel_columns = 8;
/// Those of a float32 map, and how many values a float32 sum takes in before a float64 sum takes it in.
inline constexpr int narrow_panel_columns = 16;
inline constexpr int narrow_sum_values = 32;

/// What one call of add_outer sums up.
inline constexpr int outer_rows = 4;
inline constexpr int outer_columns = panel_columns;

/// Loops over the `dim` values of one row. Sums run in eight lanes, so instruction sets agree with each other
/// but for nothing: the order is the same everywhere.
struct RowKernels {
  void (*load[6])(const void* row, std::int64_t dim, double* y);  ///< by Dtype
  /// load and center in one, with the largest magnitude (of those that are numbers) and sum_of_squares of y.
  void (*load_centered[6])(const void* row, const double* mean, double unit, std::int64_t dim, double* y,
                           double* largest, double* squares);  ///< by Dtype
  bool (*finite)(const double* y, std::int64_t dim);
  bool (*has_nan)(const double* y, std::int64_t dim);
  void (*center)(double* y, const double* mean, double unit, std::int64_t dim);  ///< (y - mean) * unit
  void (*scale)(double* y, double factor, std::int64_t dim);
  double (*largest)(const double* y, std::int64_t dim);  ///< largest magnitude of finite values
  /// Largest sum of squares of one lane of a block of narrow codes (codes/form.hpp).
  double (*largest_lane)(const double* y, std::int64_t dim);
  double (*sum_of_squares)(const double* y, std::int64_t dim);
  double (*residual_squared)(const double* y, const double* decoded, std::int64_t dim);
  double (*residual_absolute)(const double* y, const double* decoded, std::int64_t dim);
  /// code = y * inverse, clamped to +-127 and rounded; decoded = code * step; bytes = code + offset.
  void (*quantize)(const double* y, double inverse, double step, int offset, std::int64_t dim,
                   double* decoded, unsigned char* bytes);
  /// bytes = y / step, clamped to +-largest, a NaN to -largest, and rounded, + offset.
  void (*quantize_by_step)(const double* y, double step, double largest, int offset, std::int64_t dim,
                           unsigned char* bytes);
  /// stored = byte ^ flip, where flip makes signed bytes unsigned (0x80) or leaves them alone (0); sums of
  /// what the bytes stand for and of its squares. @param dim at most 32,768, so that no sum overflows
  void (*store_integers)(const unsigned char* row, unsigned char flip, std::int64_t dim,
                         unsigned char* stored, std::int32_t* sum, std::int32_t* squares);
  void (*round_to_float)(const double* y, std::int64_t dim, float* out, double* decoded);
  double (*dot)(const double* x, const double* y, std::int64_t dim);
  /// The dot products of x with four others, with dot's bits.
  void (*dot_four)(const double* x, const double* const* others, std::int64_t dim, double* products);
  void (*add_scaled)(double* y, double factor, const double* x, std::int64_t dim);  ///< y += factor * x
  /// sums[a, b] += row[i + a] * row[j + b] for each of `count` rows in turn, a < outer_rows, b <
  /// outer_columns; every product and sum rounded.
  /// @param sums rows `stride` values apart
  void (*add_outer)(double* sums, std::int64_t stride, const double* const* rows, std::size_t count,
                    std::int64_t i, std::int64_t j);
  /// z[j] = sum over i of y[i] * map[i, j] in float32, i ascending, every product and sum rounded.
  /// @param map [dim, count], count a multiple of 32
  void (*project)(const float* map, const float* y, std::int64_t dim, std::int64_t count, float* z);
  /// A product with a map in float64 for each of `rows` rows [rows, dim], whose results are `stride` values
  /// apart; fused where the instruction set can, so that bits may differ between them.
  /// @param map [panels, dim, panel_columns], panels a multiple of 4
  void (*project_rows)(const double* map, const double* y, std::int64_t rows, std::int64_t dim,
                       std::int64_t panels, std::int64_t stride, double* z);
  /// The same in float32, `narrow_sum_values` products at a time, whose sums are summed in float64.
  /// @param map [panels, dim, narrow_panel_columns]
  void (*project_rows_narrow)(const float* map, const float* y, std::int64_t rows, std::int64_t dim,
                              std::int64_t panels, std::int64_t stride, double* z);
};

extern const RowKernels row_kernels_portable;
extern const RowKernels row_kernels_avx2;
extern const RowKernels row_kernels_avx512;
extern const RowKernels row_kernels_neon;

/// Those of the active instruction set.
const RowKernels& row_kernels();

}  // namespace kith::codes
