// Filter kernels: which of 64 rows may be among the neighbours of a query?
//
// Rows are encoded in tiles of 64: four panels of 16 rows, so that one vector register (or two, or four)
// holds one value of 16 rows. Layouts, contiguous within a tile:
//   int8        [step][panel][16 rows][4 values]   one step is four values of a row, as uint8; of narrow
//   codes
//               (codes/form.hpp) the lane biases of all blocks follow the bytes of a query
//   fp16, fp32  [value][panel][16 rows]
// A kernel compares one tile with many queries and leaves a 64-bit mask per query; a set bit means that
// the bound cannot rule the row out. Plain data only: the files of each instruction set include this.
#pragma once

#include <cstdint>

namespace kith {

inline constexpr int tile_rows = 64;
inline constexpr int panel_rows = 16;

/// One tile. The scalars hold 64 values each; those that a kernel does not use may be null.
struct Tile {
  const void* codes;
  std::int64_t steps;        ///< int8: groups of four values; others: values
  const float* scale;        ///< x' = scale * code
  const float* h;            ///< half squared norm, rounded so that the bound holds
  const float* g;            ///< norm (Cauchy form only)
  const float* e;            ///< norm of the residual x - x'
  const std::int32_t* bias;  ///< integer added to the dot product, or null
};

/// Queries as the kernels read them, in arrays of one entry a query.
struct TileQueries {
  const void* codes;          ///< int8 or float rows
  std::int64_t stride_bytes;  ///< from one query's codes to the next
  const std::int32_t* bias;   ///< integer added to the dot product
  const float* h_weight;
  const float* g_weight;
  const float* e_weight;
  const float* threshold;  ///< dot forms keep score >= threshold, difference forms distance <= threshold
  const std::int32_t* integer_threshold;
};

/// masks[i] for the queries first + i, i < count.
using TileFunction = void (*)(const Tile& tile, const TileQueries& queries, std::int64_t first,
                              std::int64_t count, std::uint64_t* masks);

/// values[i] of row rows[i]: 2 q.y - norm, of codes of `width` values, a multiple of 16 (codes/fine.hpp).
using FineFunction = void (*)(const std::int16_t* codes, const std::int32_t* norms, std::int64_t width,
                              const std::int16_t* query, const std::int64_t* rows, std::int64_t count,
                              std::int32_t* values);

/// One function a filter form.
struct FilterKernels {
  TileFunction int8_triangle;         ///< score = scale * dot + e * e_weight - h * h_weight
  TileFunction int8_cauchy;           ///< the same + g * g_weight
  TileFunction int8_narrow_triangle;  ///< narrow codes
  TileFunction int8_narrow_cauchy;
  TileFunction int8_integer;  ///< dot + bias >= integer_threshold: no rounding anywhere
  TileFunction fp16_triangle;
  TileFunction fp16_cauchy;
  TileFunction fp32_triangle;
  TileFunction fp32_cauchy;
  TileFunction int8_absolute;  ///< sum |q - x| of the bytes <= integer_threshold
  TileFunction fp16_absolute;  ///< sum |q - x| <= threshold
  TileFunction fp32_squared;   ///< sum (q - x)^2 <= threshold
  TileFunction fp32_absolute;  ///< sum |q - x| <= threshold
  FineFunction fine;
};

/// In plain C++, for instruction sets that have none of their own.
void fine_values_portable(const std::int16_t* codes, const std::int32_t* norms, std::int64_t width,
                          const std::int16_t* query, const std::int64_t* rows, std::int64_t count,
                          std::int32_t* values);

extern const FilterKernels filter_kernels_portable;
extern const FilterKernels filter_kernels_avx2;
extern const FilterKernels filter_kernels_avx_vnni;
extern const FilterKernels filter_kernels_avx512_vnni;
extern const FilterKernels filter_kernels_neon;
extern const FilterKernels filter_kernels_neon_i8mm;

}  // namespace kith
