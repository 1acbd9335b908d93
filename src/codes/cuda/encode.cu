// Encoding rows and queries on the GPU, a group of threads each. Everything is float64; the sums may be taken
// in any order, as the factor 1 + 2^-30 on residuals and norms covers it (docs/exact-contract.md, step 3).
#include "codes/cuda/codes.hpp"

#include <algorithm>

#include <cuda_fp16.h>
#include <math_constants.h>

#include "codes/cuda/encode_query.cuh"
#include "cuda/launch.hpp"
#include "cuda/runtime.hpp"
#include "cuda/visit_element.cuh"

namespace kith::codes::cuda {

using namespace kith::cuda;

namespace {

constexpr int block_threads = 256;
// Queries up to which a block encodes one, and values from which on.
constexpr std::int64_t most_by_blocks = 64;
constexpr std::int64_t least_by_blocks = 128;

// Largest float below 2^31 bits compare like integers when both are positive.
__device__ void raise(float* where, double value) {
  const float up = __double2float_ru(value);
  // Most values are no news: a read is cheaper than an atomic.
  if (up > *reinterpret_cast<volatile float*>(where)) {
    atomicMax(reinterpret_cast<int*>(where), __float_as_int(up));
  }
}

// What is added to the bias of a row whose residual is beyond the typical one, an integer: no less than a
// query's threshold would fall by, were that residual the largest of all.
__device__ double extra_bias(double residual, const CodeSpace& space) {
  const double beyond = residual - space.typical_residual;
  if (space.half || space.form == Form::integer || !(beyond > 0)) return 0;
  const double most = space.form == Form::triangle
                          ? beyond * (space.typical_reach + 0.5 * (residual + space.typical_residual))
                          : beyond * space.typical_reach;
  return ceil(most * (1 + 0x1p-30)) + 1;
}

template <class T, int G>
__global__ void encode_rows_kernel(const T* data, std::int64_t stride, std::int64_t first, std::int64_t rows,
                                   std::int64_t shard_rows, CodeSpace space, RowCodes out) {
  const int lane = static_cast<int>(threadIdx.x) % G;
  const std::int64_t group = (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / G;
  if (group >= rows) return;  // whole warps: `rows` is a multiple of the tile
  const std::int64_t at = first + group;
  const bool exists = at < shard_rows;
  const std::int64_t id = exists && out.order != nullptr ? out.order[at] : at;
  const T* row = data + (exists ? at : first) * stride;
  const std::int64_t tiles = (shard_rows + code_tile_rows - 1) / code_tile_rows;
  const std::int64_t tile = at % tiles;
  const std::int64_t position = tile * code_tile_rows + at / tiles;
  const int width = static_cast<int>(space.shape.row_bytes());

  Look look{};
  if (exists) look = look_at<G>(row, space.dim, space.metric, lane);
  // The y that the coordinates are of.
  if (exists && space.map != nullptr && space.metric == Metric::cosine) {
    look.inverse = out.coordinates.inverse[group];
  }
  bool special = look.infinite;
  double norm_sq = 0;
  if (exists && !look.nan && !special && !space.raw_integers) {
    double largest = 0;
    for (std::int64_t i = lane; i < space.dim; i += G) {
      const double y = in_code_space(row, i, space, look);
      largest = fmax(largest, fabs(y));
      norm_sq += y * y;
    }
    group_max_and_sum<G>(largest, norm_sq);
    special = space.metric == Metric::cosine
                  ? look.squares != 0 && (look.squares < 0x1p-900 || look.squares > 0x1p900)
                  : !(largest <= largest_row_entry);
    // A row whose squares vanish one and all is not a zero row for certain.
    if (space.metric == Metric::cosine && look.squares == 0) {
      double any = 0;
      for (std::int64_t i = lane; i < space.dim; i += G) any = fmax(any, fabs(widen(row[i])));
      special = group_max<G>(any) > 0;
    }
  }
  const bool regular = exists && !look.nan && !special;
  Along a{};
  if (space.map != nullptr && regular) {
    a = along<G>(space, out.coordinates.values + group * space.map_width, norm_sq, lane);
  }

  const double inverse = 1 / space.step;
  double residual_sq = 0;
  double half_sq = 0;
  int code_sq = 0;
  int code_sum = 0;
  double fine_residual_sq = 0;
  const double fine_step = space.step / CodeSpace::finer;
  for (int base = lane * 4; base < width; base += G * 4) {
    std::uint32_t packed = 0;
    if (space.half) {
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const int i = base / 2 + j;
        if (!regular || i >= space.dim) continue;
        const double y = in_code_space(row, i, space, look);
        const __half code = __double2half(y);
        const auto value = static_cast<double>(__half2float(code));
        residual_sq += (y - value) * (y - value);
        half_sq += value * value;
        packed |= static_cast<std::uint32_t>(__half_as_ushort(code)) << (16 * j);
      }
    } else {
      FineCodes fine{};
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int i = base + j;
        int code = 0;
        if (regular && i < space.values()) {
          if (space.raw_integers) {
            code = static_cast<int>(widen(row[i])) - space.offset();
          } else {
            const double y = coded_value(row, i, space, look, a);
            code = static_cast<int>(rint(fmin(fmax(y * inverse, -127.0), 127.0)));
            const double error = y - code * space.step;
            residual_sq += error * error;
            if (out.fine != nullptr) fine.set(j, y, fine_step, inverse * CodeSpace::finer);
          }
        }
        code_sq += code * code;
        code_sum += code;
        packed |= static_cast<std::uint32_t>(code & 255) << (8 * j);
      }
      if (out.fine != nullptr && exists && base < space.fine_stride()) {
        *reinterpret_cast<short4*>(out.fine + id * space.fine_stride() + base) = fine.packed;
        fine_residual_sq += fine.residual_sq;
      }
    }
    *reinterpret_cast<std::uint32_t*>(out.codes + space.shape.offset(position, base, code_tile_rows)) =
        packed;
  }
  residual_sq = group_sum<G>(residual_sq);
  half_sq = group_sum<G>(half_sq);
  code_sq = group_sum<G>(code_sq);
  code_sum = group_sum<G>(code_sum);
  fine_residual_sq = group_sum<G>(fine_residual_sq);
  if (lane != 0) return;
  const double norm = sqrt(norm_sq);
  const double error = space_error(space, norm) + a.error;
  const double residual = (sqrt(residual_sq) * (1 + sum_error) + error) / space.step * (1 + sum_error);
  const double extra = extra_bias(residual, space);
  if (!regular || (!space.raw_integers && !(residual <= space.residual_cap && extra <= most_extra_bias))) {
    out.bias[position] = space.half ? __float_as_int(no_half_row) : no_row;
    if (!exists) return;
    if (look.nan) {
      atomicAdd(out.counts, 1ULL);
    } else {
      const unsigned long long slot = atomicAdd(out.counts + 1, 1ULL);
      if (slot < out.special_room) out.special[slot] = static_cast<std::uint32_t>(id);
    }
    return;
  }
  if (space.half) {
    out.bias[position] = space.form == Form::triangle
                             ? __float_as_int(__double2float_ru(-0.5 * half_sq * (1 - sum_error)))
                             : 0;
  } else {
    out.bias[position] =
        (space.form == Form::triangle ? -(code_sq / 2)
                                      : (space.form == Form::integer ? space.offset() * code_sum : 0)) +
        static_cast<int>(extra);
  }
  if (space.raw_integers) return;
  if (extra == 0) raise(out.largest + largest_of::typical_residuals, residual);
  raise(out.largest + largest_of::residuals, residual);
  raise(out.largest + largest_of::norms, norm * (1 + sum_error) + error);
  if (out.fine != nullptr) {
    raise(out.largest + largest_of::fine_residuals,
          (sqrt(fine_residual_sq) * (1 + sum_error) + error) / fine_step * (1 + sum_error));
  }
}

// float32 rows: copies, counts NaN rows, and for float64 data finds the special ones and the residual.
template <class T, int G>
__global__ void float_rows_kernel(const T* data, std::int64_t stride, std::int64_t first, std::int64_t rows,
                                  CodeSpace space, RowCodes out) {
  const int lane = static_cast<int>(threadIdx.x) % G;
  const std::int64_t group = (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / G;
  const bool exists = group < rows;
  const std::int64_t at = first + (exists ? group : 0);
  const T* row = data + at * stride;
  double nan = 0;
  double infinite = 0;
  double largest = 0;
  double norm = 0;
  double residual = 0;
  const Look look{};
  for (std::int64_t i = lane; i < space.dim; i += G) {
    const double x = widen(row[i]);
    if (isnan(x)) nan = 1;
    if constexpr (sizeof(T) == 8) {
      if (isinf(x)) infinite = 1;
      const double y = in_code_space(row, i, space, look);
      const auto code = static_cast<float>(y);
      largest = fmax(largest, fabs(y));
      norm += space.form == Form::absolute ? fabs(y) : y * y;
      const double error = y - static_cast<double>(code);
      residual += space.form == Form::absolute ? fabs(error) : error * error;
      if (exists && out.floats != nullptr) out.floats[at * space.dim + i] = code;
    } else {
      if (exists && out.floats != nullptr) out.floats[at * space.dim + i] = static_cast<float>(x);
    }
  }
  nan = group_max<G>(nan);
  bool special = false;
  if constexpr (sizeof(T) == 8) {
    infinite = group_max<G>(infinite);
    largest = group_max<G>(largest);
    norm = group_sum<G>(norm);
    residual = group_sum<G>(residual);
    special = infinite > 0 || !(largest <= largest_centered_entry);
    if (exists && (nan > 0 || special) && out.floats != nullptr) {
      for (std::int64_t i = lane; i < space.dim; i += G) out.floats[at * space.dim + i] = CUDART_NAN_F;
    }
  }
  if (lane != 0 || !exists) return;
  if (nan > 0) {
    atomicAdd(out.counts, 1ULL);
  } else if (special) {
    const unsigned long long slot = atomicAdd(out.counts + 1, 1ULL);
    if (slot < out.special_room) out.special[slot] = static_cast<std::uint32_t>(at);
  } else if constexpr (sizeof(T) == 8) {
    const double error = 0x1p-1000 + 0x1p-52 * 1.001 * (space.form == Form::absolute ? norm : sqrt(norm));
    const double root = space.form == Form::absolute ? residual : sqrt(residual);
    raise(out.largest_residual, root * (1 + sum_error) + error);
  }
}

// What a block is about to read is then in the first-level cache. A kernel that is launched next may begin
// with reading more than the memory brings in the meantime.
template <class T>
__device__ inline void read_ahead(const T* row, const CodeSpace& space) {
  double all = 0;
  for (std::int64_t i = threadIdx.x; i < space.dim; i += blockDim.x) {
    all += widen(row[i]);
    if (space.mean != nullptr) all += space.mean[i];
  }
  asm volatile("" ::"d"(all));
  __syncthreads();
}
__device__ inline void read_ahead(const double* coordinates, std::int64_t count) {
  double all = 0;
  for (std::int64_t i = threadIdx.x; i < count; i += blockDim.x) all += coordinates[i];
  asm volatile("" ::"d"(all));
  __syncthreads();
}

// G threads a query: a warp, or a block where queries are few. A block goes as far as it can without
// coordinates while these are made: by project_few_kernel, which begins when all before it is done.
template <int G, class T>
__global__ void encode_queries_kernel(const T* data, std::int64_t stride, std::int64_t queries,
                                      CodeSpace space, QueryCodes out) {
  const std::int64_t q = (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / G;
  const bool by_block = G > 32 && q < queries;
  const bool late = by_block && space.map != nullptr;
  if (!late) {
    wait_for_previous();
    if (by_block) read_ahead(data + q * stride, space);
    let_next_launch();
  }
  encode_query<G>(data, stride, q, queries, q, space, out, [&] {
    if (!late) return;
    wait_for_previous();
    read_ahead(out.coordinates.values + q * space.map_width, space.map_width);
    let_next_launch();
  });
  if (q < queries && threadIdx.x % G == 0) start_query<T>(q, out);
}

// Rows whose coordinates, if any, are there.
void encode_these(const void* data, std::int64_t stride, std::int64_t first, std::int64_t rows,
                  std::int64_t shard_rows, const CodeSpace& space, const RowCodes& out, cudaStream_t stream) {
  visit_element(space.dtype, [&]<class T>(T /*tag*/) {
    const auto* values = static_cast<const T*>(data);
    const bool wide = space.dim > 48;
    const std::int64_t per_block = block_threads / (wide ? 32 : 8);
    const auto blocks = static_cast<unsigned>((rows + per_block - 1) / per_block);
    if (space.tiled()) {
      if (wide) {
        encode_rows_kernel<T, 32>
            <<<blocks, block_threads, 0, stream>>>(values, stride, first, rows, shard_rows, space, out);
      } else {
        encode_rows_kernel<T, 8>
            <<<blocks, block_threads, 0, stream>>>(values, stride, first, rows, shard_rows, space, out);
      }
    } else if (wide) {
      float_rows_kernel<T, 32><<<blocks, block_threads, 0, stream>>>(values, stride, first, rows, space, out);
    } else {
      float_rows_kernel<T, 8><<<blocks, block_threads, 0, stream>>>(values, stride, first, rows, space, out);
    }
    check_launch("encode_rows");
  });
}

}  // namespace

void encode_rows(const void* data, std::int64_t stride, std::int64_t first, std::int64_t rows,
                 std::int64_t shard_rows, const CodeSpace& space, const RowCodes& out, cudaStream_t stream) {
  if (rows <= 0) return;
  if (space.map == nullptr) return encode_these(data, stride, first, rows, shard_rows, space, out, stream);
  // As many at a time as there is room for coordinates. What fills up the last tile has none.
  const std::int64_t row_bytes = stride * static_cast<std::int64_t>(size_of(space.dtype));
  for (std::int64_t at = first; at < first + rows; at += out.coordinates.rows) {
    const std::int64_t count = std::min(out.coordinates.rows, first + rows - at);
    project(static_cast<const char*>(data) + at * row_bytes, stride, std::min(count, shard_rows - at), space,
            out.coordinates, stream);
    encode_these(data, stride, at, count, shard_rows, space, out, stream);
  }
}

void encode_queries(const void* data, std::int64_t stride, std::int64_t queries, const CodeSpace& space,
                    const QueryCodes& out, cudaStream_t stream) {
  if (queries <= 0) return;
  if (space.map != nullptr) project(data, stride, queries, space, out.coordinates, stream);
  visit_element(space.dtype, [&]<class T>(T /*tag*/) {
    const std::int64_t padded = (queries + out.tile - 1) / out.tile * out.tile;
    const auto* values = static_cast<const T*>(data);
    if (queries <= most_by_blocks && space.dim >= least_by_blocks) {
      int device = 0;
      KITH_CUDA(cudaGetDevice(&device));
      launch_early(encode_queries_kernel<block_threads, T>, dim3(static_cast<unsigned>(padded)),
                   block_threads, 0, device, stream, values, stride, queries, space, out);
    } else {
      const auto blocks = static_cast<unsigned>((padded + block_threads / 32 - 1) / (block_threads / 32));
      encode_queries_kernel<32><<<blocks, block_threads, 0, stream>>>(values, stride, queries, space, out);
    }
    check_launch("encode_queries");
  });
}

}  // namespace kith::codes::cuda
