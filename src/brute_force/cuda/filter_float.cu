// The float32 filter on the CUDA cores: sums of squared or absolute differences, compared with a threshold a
// query. Infinite values give what they give in the canonical distance; a NaN is never kept.
//
// Low dimension: a thread holds a few rows in registers and all queries of the block pass by in shared
// memory, a broadcast each. Rows are read once for up to `query_batch` queries. Higher dimension: blocks of
// 128 rows x 64 queries, values staged in shared memory, 8 x 4 sums a thread.
#include <math_constants.h>

#include "brute_force/cuda/bound.cuh"
#include "brute_force/cuda/kernels.hpp"
#include "brute_force/cuda/tuning.hpp"
#include "cuda/launch.hpp"
#include "cuda/runtime.hpp"

namespace kith::brute_force::cuda {
namespace {

constexpr int tile_rows = tuning::float_tile_rows;
constexpr int threads = 256;  // of the kernel for high dimension
// Threads of the kernel for dimension D: few that hold many rows, as long as the registers allow it.
template <int D>
constexpr int low_threads = D <= 4 ? 128 : 256;
constexpr int query_batch = 128;

__device__ inline void keep(const Candidates& out, std::int64_t q, std::int64_t row, float sum) {
  const std::uint32_t at = atomicAdd(out.counts + q, 1U);
  if (at < out.room) {
    out.entries[q * out.room + at] = make_candidate(float_score(sum), static_cast<std::uint32_t>(row));
  }
}

// D: dimension rounded up to 1, 2, 3, 4, 8 or 16; `queries` are padded to it with zeros.
template <int D, bool squared>
__global__ void __launch_bounds__(low_threads<D>) low_dimension_kernel(FloatFilter f) {
  constexpr int T = low_threads<D>;
  constexpr int R = tile_rows / T;
  constexpr int Q = D + 1 <= 4 ? 4 : (D + 1 <= 8 ? 8 : (D == 8 ? 12 : 20));  // values, threshold, padding
  __shared__ __align__(16) float queries[query_batch][Q];
  const std::int64_t tile = f.stage.tile(blockIdx.x);
  const std::int64_t base = tile * tile_rows + threadIdx.x;
  float x[R][D];
#pragma unroll
  for (int r = 0; r < R; ++r) {
    const std::int64_t row = base + r * T;
    const float* from = f.rows + row * f.row_stride;
    if (D >= 4 && f.dim == D && f.row_stride % 4 == 0 && reinterpret_cast<std::uintptr_t>(f.rows) % 16 == 0) {
#pragma unroll
      for (int i = 0; i < D; i += 4) {
        float4 v = make_float4(CUDART_NAN_F, 0, 0, 0);
        if (row < f.shard_rows) v = *reinterpret_cast<const float4*>(from + i);
        x[r][i] = v.x;
        if (i + 1 < D) x[r][i + 1] = v.y;
        if (i + 2 < D) x[r][i + 2] = v.z;
        if (i + 3 < D) x[r][i + 3] = v.w;
      }
    } else {
#pragma unroll
      for (int i = 0; i < D; ++i) x[r][i] = row < f.shard_rows ? (i < f.dim ? from[i] : 0.0F) : CUDART_NAN_F;
    }
  }
  const std::int64_t from = f.query_count * blockIdx.y / gridDim.y;
  const std::int64_t to = f.query_count * (blockIdx.y + 1) / gridDim.y;
  for (std::int64_t first = from; first < to; first += query_batch) {
    const int count = static_cast<int>(to - first < query_batch ? to - first : query_batch);
    __syncthreads();
    for (int i = threadIdx.x; i < count * (D + 1); i += T) {
      const int q = i / (D + 1);
      const int j = i % (D + 1);
      queries[q][j] =
          j < D ? f.queries[(first + q) * f.query_stride + j] : static_cast<float>(f.bounds[first + q].c0);
    }
    __syncthreads();
#pragma unroll 2
    for (int q = 0; q < count; ++q) {
      float value[Q];
#pragma unroll
      for (int i = 0; i < Q; i += 4) {
        const float4 v = *reinterpret_cast<const float4*>(&queries[q][i]);
        value[i] = v.x;
        value[i + 1] = v.y;
        value[i + 2] = v.z;
        value[i + 3] = v.w;
      }
      float sum[R];
      float smallest = CUDART_INF_F;
#pragma unroll
      for (int r = 0; r < R; ++r) {
        sum[r] = 0;
#pragma unroll
        for (int i = 0; i < D; ++i) sum[r] = add_difference<squared>(sum[r], value[i], x[r][i]);
        smallest = fminf(smallest, sum[r]);
      }
      if (smallest <= value[D]) {
#pragma unroll
        for (int r = 0; r < R; ++r) {
          if (sum[r] <= value[D]) keep(f.out, first + q, base + r * T, sum[r]);
        }
      }
    }
  }
}

template <bool squared>
__global__ void __launch_bounds__(threads) high_dimension_kernel(FloatFilter f) {
  constexpr int BR = 128;
  constexpr int BQ = 64;
  constexpr int BK = 16;
  __shared__ float rows[BK][BR + 4];
  __shared__ float queries[BK][BQ + 4];
  const std::int64_t base =
      f.stage.tile(blockIdx.x / (tile_rows / BR)) * tile_rows + blockIdx.x % (tile_rows / BR) * BR;
  if (base >= f.shard_rows) return;
  const int tr = static_cast<int>(threadIdx.x) % 16;
  const int tq = static_cast<int>(threadIdx.x) / 16;
  for (std::int64_t first = static_cast<std::int64_t>(blockIdx.y) * BQ; first < f.query_count;
       first += static_cast<std::int64_t>(gridDim.y) * BQ) {
    float sum[4][8] = {};
    for (std::int64_t k = 0; k < f.dim; k += BK) {
      __syncthreads();
      for (int i = threadIdx.x; i < BR * BK; i += threads) {
        const std::int64_t row = base + i / BK;
        const std::int64_t at = k + i % BK;
        const float padding = row < f.shard_rows ? 0.0F : CUDART_NAN_F;
        rows[i % BK][i / BK] = row < f.shard_rows && at < f.dim ? f.rows[row * f.row_stride + at] : padding;
      }
      for (int i = threadIdx.x; i < BQ * BK; i += threads) {
        const std::int64_t q = first + i / BK;
        const std::int64_t at = k + i % BK;
        queries[i % BK][i / BK] = q < f.query_count && at < f.dim ? f.queries[q * f.query_stride + at] : 0.0F;
      }
      __syncthreads();
#pragma unroll
      for (int i = 0; i < BK; ++i) {
        float x[8];
        float y[4];
#pragma unroll
        for (int r = 0; r < 8; ++r) x[r] = rows[i][tr + r * 16];
#pragma unroll
        for (int q = 0; q < 4; ++q) y[q] = queries[i][tq * 4 + q];
#pragma unroll
        for (int q = 0; q < 4; ++q) {
#pragma unroll
          for (int r = 0; r < 8; ++r) sum[q][r] = add_difference<squared>(sum[q][r], y[q], x[r]);
        }
      }
    }
#pragma unroll
    for (int q = 0; q < 4; ++q) {
      const std::int64_t query = first + tq * 4 + q;
      if (query >= f.query_count) continue;
      const auto threshold = static_cast<float>(f.bounds[query].c0);
#pragma unroll
      for (int r = 0; r < 8; ++r) {
        if (sum[q][r] <= threshold) keep(f.out, query, base + tr + r * 16, sum[q][r]);
      }
    }
  }
}

template <bool squared>
void launch(const FloatFilter& f, int device, cudaStream_t stream) {
  const auto tiles = static_cast<unsigned>(f.stage.count);
  if (f.dim > 16) {
    const unsigned blocks = tiles * (tile_rows / 128);
    const std::int64_t query_tiles = (f.query_count + 63) / 64;
    const std::int64_t wanted = processors(device) * 8 / blocks + 1;
    high_dimension_kernel<squared>
        <<<dim3(blocks, static_cast<unsigned>(wanted < query_tiles ? wanted : query_tiles)), threads, 0,
           stream>>>(f);
  } else {
    // Enough blocks for the chip; each reads its rows again, so no more than that.
    const std::int64_t wanted = (std::int64_t{processors(device)} * 12 + tiles - 1) / tiles;
    const std::int64_t most = (f.query_count + 15) / 16;
    const dim3 grid(tiles, static_cast<unsigned>(wanted < most ? wanted : most));
    switch (float_query_stride(f.dim)) {
      case 1: low_dimension_kernel<1, squared><<<grid, low_threads<1>, 0, stream>>>(f); break;
      case 2: low_dimension_kernel<2, squared><<<grid, low_threads<2>, 0, stream>>>(f); break;
      case 3: low_dimension_kernel<3, squared><<<grid, low_threads<3>, 0, stream>>>(f); break;
      case 4: low_dimension_kernel<4, squared><<<grid, low_threads<4>, 0, stream>>>(f); break;
      case 8: low_dimension_kernel<8, squared><<<grid, low_threads<8>, 0, stream>>>(f); break;
      default: low_dimension_kernel<16, squared><<<grid, low_threads<16>, 0, stream>>>(f);
    }
  }
  check_launch("float32 filter");
}

}  // namespace

std::int64_t float_query_stride(std::int64_t dim) {
  if (dim <= 4) return dim;
  return dim <= 8 ? 8 : (dim <= 16 ? 16 : dim);
}

void run_float_filter(const FloatFilter& f, int device, cudaStream_t stream) {
  if (f.stage.count <= 0 || f.query_count <= 0) return;
  if (f.squared) {
    launch<true>(f, device, stream);
  } else {
    launch<false>(f, device, stream);
  }
}

}  // namespace kith::brute_force::cuda
