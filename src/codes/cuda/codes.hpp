// Codes on the GPU: how rows and queries become int8, half or float32, and what is known about the error.
//
// int8: one step (scale) for all rows, c = round(y / step) clamped to +-127, in tiles of 256 rows. A tile's
// chunk of `width` bytes a row is stored exactly as the kernels hold it in shared memory: rows one after the
// other, 16-byte units exchanged by the row number so that eight rows of one column never share a bank. Two
// integers a row would be enough for any bound: the product of the codes, exact in int32, and a bias. The
// residuals |y - step c| of most rows enter as their maximum, in units of the step, so that the test of a
// pair is one integer comparison; what a row's residual is beyond that enters through its bias.
//
// half: c = y rounded to half precision, in the same tiles, two bytes a value. Products are summed in float32
// by the tensor cores, with a bound on the error; the bias is a float.
//
// int8 codes may hold fewer values than the rows: the coordinates along leading directions and the length of
// the rest (codes/projection.hpp), which project.cu finds beforehand.
//
// float32: the rows themselves where the element type is exact in float32; for float64 rows (y - mean) *
// unit, rounded, with one residual bound for all.
#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

#include "codes/form.hpp"
#include "cuda/host_device.hpp"
#include "kith/dtype.hpp"
#include "kith/metric.hpp"

namespace kith::codes::cuda {

/// Rows of a tile of int8 codes.
inline constexpr int code_tile_rows = 256;
/// Row j of tile t: t + j * tiles, so that tiles are samples of the shard; with lists a place in their order.
KITH_HOST_DEVICE inline std::int64_t row_of(std::int64_t tile, std::int64_t j, std::int64_t tiles) {
  return tile + j * tiles;
}
/// Longest code of a row in bytes: the queries of a block must fit into shared memory.
inline constexpr std::int64_t largest_code_bytes = 6144;
/// Bias of a row that no filter may keep (padding, NaN, special): below every threshold, far from overflow.
inline constexpr std::int32_t no_row = -(1 << 30);
/// Smallest threshold: keeps every row but those.
inline constexpr std::int32_t keep_all = -(1 << 29);
/// The same for half codes, whose scores are floats.
inline constexpr float no_half_row = -0x1p120F;
inline constexpr float keep_all_halves = -0x1p100F;
/// A row's residual beyond the typical one may add so much to its bias; else it is special.
inline constexpr double most_extra_bias = 0x1p20;
/// The same as largest_query_entry for half codes.
inline constexpr double largest_half_query_entry = 0x1p12;

/// Bytes of an encoded row as it is stored.
struct CodeShape {
  int width = 32;  ///< bytes of a row in a chunk: 32, 64 or 128
  int chunks = 1;
  int steps = 1;  ///< groups of 32 bytes that hold anything

  /// For codes of `bytes` bytes in all: a value's bytes times the dimension.
  static CodeShape of(std::int64_t bytes) {
    CodeShape shape;
    shape.steps = static_cast<int>((bytes + 31) / 32);
    shape.width = bytes <= 32 ? 32 : (bytes <= 64 ? 64 : 128);
    shape.chunks = static_cast<int>((bytes + shape.width - 1) / shape.width);
    return shape;
  }
  KITH_HOST_DEVICE std::int64_t row_bytes() const { return static_cast<std::int64_t>(width) * chunks; }

  /// Where byte `column` of a row lies, tiles of `tile` rows.
  KITH_HOST_DEVICE std::int64_t offset(std::int64_t row, int column, int tile) const {
    const auto in_tile = static_cast<int>(row % tile);
    const int at = column % width;
    return first_of(row / tile, in_tile, tile) + static_cast<std::int64_t>(column / width) * tile * width +
           ((at / 16 ^ swap(in_tile)) * 16 + at % 16);
  }
  /// Where the bytes of a tile's row begin that it has in the first chunk; those of the next are tile * width
  /// farther. Unit u of 16 bytes is the one at u ^ swap.
  KITH_HOST_DEVICE std::int64_t first_of(std::int64_t which, int in_tile, int tile) const {
    return (which * chunks * tile + in_tile) * width;
  }
  KITH_HOST_DEVICE int swap(int in_tile) const { return (in_tile * width >> 7) & (width / 16 - 1); }
};

/// What makes a threshold of a query's bound, beside the rows' maxima; see bound.cuh.
struct CodeTest {
  Form form = Form::none;
  bool half = false;
  double reach = 0;     ///< the largest reach of a query that the rows' biases speak for
  double rounding = 0;  ///< half: share of |q'| |y'| that the sum of products may be wrong by
};

/// The transformation into code space, common to rows and queries; passed to kernels by value.
struct CodeSpace {
  Form form = Form::none;
  Metric metric = Metric::sqeuclidean;
  Dtype dtype = Dtype::f32;
  std::int64_t dim = 0;
  const double* mean = nullptr;  ///< device memory, or null
  double unit = 1;
  double step = 1;
  double typical_residual = 1e300;  ///< in steps; a larger one is made up for by the row's bias, ...
  double typical_reach = 0;         ///< ... for queries that reach no farther than this (in steps)
  double residual_cap =
      1e300;          ///< rows with a larger residual (in steps) are special: they would loosen all bounds
  bool half = false;  ///< codes are halves, the step is 1
  bool raw_integers = false;  ///< u8 (minus 128) and i8 rows are their own codes
  CodeShape shape;
  /// Leading directions that int8 codes are made along, or null: device memory, [map_rows(dim), map_width].
  const double* map = nullptr;
  std::int64_t map_width = 0;  ///< a multiple of 32; columns from `directions` on are zero
  std::int64_t directions = 0;
  /// Whether there are fine codes as well, of two bytes a value, by which candidates are tried once more.
  bool fine = false;
  double largest_rest = 0;  ///< queries whose rest is longer lie off the directions; see QueryCodes::off

  /// Fine codes are this much finer.
  static constexpr int finer = 64;
  static constexpr int largest_fine = 32767;
  /// Values of a fine code as it is stored.
  KITH_HOST_DEVICE std::int64_t fine_stride() const { return (values() + 7) / 8 * 8; }

  /// Values of a code.
  KITH_HOST_DEVICE std::int64_t values() const { return map == nullptr ? dim : directions + rest_values; }
  /// Whether rows have codes in tiles, for the tensor cores.
  KITH_HOST_DEVICE bool tiled() const {
    return form == Form::triangle || form == Form::cauchy || form == Form::integer;
  }
  KITH_HOST_DEVICE bool int8() const { return tiled() && !half; }
  KITH_HOST_DEVICE CodeTest test() const {
    // 26 units of 2^-25 for each 16 products, and as much again as one float32 addition.
    const std::int64_t blocks = (values() + 15) / 16;
    return {form, half, typical_reach, (static_cast<double>(blocks) * 26 * 0x1p-25 + 0x1p-23) * 1.01};
  }
  /// What is taken from a raw integer to make it a code.
  KITH_HOST_DEVICE int offset() const { return raw_integers && dtype == Dtype::u8 ? 128 : 0; }
};

/// Places in RowCodes::largest.
namespace largest_of {
inline constexpr int typical_residuals = 0;  ///< residuals (in steps) that no bias makes up for
inline constexpr int norms = 1;              ///< |y|
inline constexpr int residuals = 2;          ///< residuals of all rows that are not special
inline constexpr int fine_residuals = 3;     ///< of fine codes, in their steps
inline constexpr int count = 4;
}  // namespace largest_of

/// Columns and rows of a map as kernels read it.
inline std::int64_t map_width(std::int64_t directions) {
  return (directions + 31) / 32 * 32;
}
inline std::int64_t map_rows(std::int64_t dim) {
  return (dim + 15) / 16 * 16;
}

/// Room for coordinates of some rows or queries along the directions; device memory.
struct Coordinates {
  double* values = nullptr;   ///< [rows, map_width]
  double* inverse = nullptr;  ///< cosine: 1 / |x| of each
  std::int64_t rows = 0;

  static std::int64_t doubles(std::int64_t rows, std::int64_t width) { return rows * (width + 1); }
  static Coordinates in(double* memory, std::int64_t rows, std::int64_t width) {
    return {memory, memory + rows * width, rows};
  }
};

/// What encoding the rows writes; all device memory.
struct RowCodes {
  std::uint8_t* codes = nullptr;  ///< image of int8 or half codes
  std::int32_t* bias = nullptr;   ///< a row: -floor(|c|^2 / 2), 128 sum(c), or 0: added to the product; see
                                  ///< bound.cuh. half: a float's bits
  float* largest = nullptr;       ///< of all rows, rounded up; see largest_of
  float* floats = nullptr;        ///< float32 rows, or null where the rows are used as they are
  float* largest_residual = nullptr;  ///< one value: float32 rows of float64 data
  std::uint32_t* special = nullptr;   ///< rows to evaluate exactly, `special_room` of them
  std::uint32_t special_room = 0;
  unsigned long long* counts = nullptr;  ///< [0] NaN rows, [1] special rows
  std::int16_t* fine = nullptr;          ///< fine codes, row after row of the shard
  const std::uint32_t* order = nullptr;  ///< the row that is encoded at a place; null: that of its number
  Coordinates coordinates;               ///< along directions: of as many rows as are encoded at once
};

/// A query's scalars.
struct QueryScalars {
  double scale = 1;      ///< q' = scale * code
  double code_sq = 0;    ///< |code|^2
  double code_sum = 0;   ///< sum of the code
  double norm = 0;       ///< |q'|, rounded up
  double residual = 0;   ///< e_q, rounded up
  double canonical = 0;  ///< sqrt(q.q) in the canonical order: cosine
  double fine_norm = 0;  ///< norm and residual of the fine code
  double fine_residual = 0;
  RowKind kind = RowKind::regular;
};

/// What encoding the queries writes; all device memory.
struct QueryCodes {
  double* values = nullptr;  ///< [queries, padded to 8]
  std::int64_t padded = 0;
  std::uint8_t* codes = nullptr;  ///< image of their codes in tiles of `tile` queries
  int tile = 16;
  float* floats = nullptr;  ///< [queries, float_stride]
  std::int64_t float_stride = 0;
  QueryScalars* scalars = nullptr;
  unsigned long long* nan_queries = nullptr;
  unsigned long long* off = nullptr;  ///< queries that lie off the directions are counted here, if not null
  Coordinates coordinates;            ///< along directions: of all queries
  std::int16_t* fine = nullptr;       ///< [queries, fine_stride]
  void* best = nullptr;               ///< a query: set to +inf (double for f64, else float), where not null
};

/// Rows [first, first + rows) of a shard; `data` is the shard's first row, readable from the device.
void encode_rows(const void* data, std::int64_t stride, std::int64_t first, std::int64_t rows,
                 std::int64_t shard_rows, const CodeSpace& space, const RowCodes& out, cudaStream_t stream);

/// Coordinates along the space's directions of `rows` rows or queries, at most as many as there is room for.
void project(const void* data, std::int64_t stride, std::int64_t rows, const CodeSpace& space,
             const Coordinates& out, cudaStream_t stream);

void encode_queries(const void* data, std::int64_t stride, std::int64_t queries, const CodeSpace& space,
                    const QueryCodes& out, cudaStream_t stream);

}  // namespace kith::codes::cuda
