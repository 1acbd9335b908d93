// One look at every pair, without a bound to begin with: each query's rows are dealt into lists, and of each
// list the nearest row by the filter's estimate is kept, with the estimate of the second. A few hundred lists
// suffice for small k: with the exact distances of the first entries as a bound, hardly any list has a second
// entry within it, and those that have are looked through again (settle_lists). So a search is three launches
// that follow each other, where stages with ever tighter bounds are nine or more: the way for searches whose
// time is launches.
//
// A pair costs a few instructions more than in a stage, since two values are carried along.
#include <math_constants.h>

#include "brute_force/cuda/bound.cuh"
#include "brute_force/cuda/kernels.hpp"
#include "brute_force/cuda/mma.cuh"
#include "codes/cuda/encode_query.cuh"
#include "cuda/launch.hpp"
#include "cuda/runtime.hpp"
#include "cuda/visit_element.cuh"

namespace kith::brute_force::cuda {
namespace {

// A value of queries that are not coded yet.
__device__ inline double raw_value(const void* data, Dtype dtype, std::int64_t i) {
  switch (dtype) {
    case Dtype::f32: return widen(static_cast<const float*>(data)[i]);
    case Dtype::f16: return widen(static_cast<const __half*>(data)[i]);
    case Dtype::bf16: return widen(static_cast<const __nv_bfloat16*>(data)[i]);
    case Dtype::i8: return widen(static_cast<const std::int8_t*>(data)[i]);
    case Dtype::u8: return widen(static_cast<const std::uint8_t*>(data)[i]);
    case Dtype::f64: return widen(static_cast<const double*>(data)[i]);
  }
  return 0;
}

// ---- float32 ----

// A query's value as the float32 filter sees it.
__device__ inline float query_value(const Scan& s, std::int64_t q, std::int64_t i) {
  if (s.raw == nullptr) return s.queries[q * s.query_stride + i];
  return i < s.space.dim ? static_cast<float>(raw_value(s.raw, s.space.dtype, q * s.raw_stride + i)) : 0.0F;
}

// Leaves what the settling needs of a query that the scan reads as it is; float32 holds it exactly.
__device__ inline void leave_query(const Scan& s, std::int64_t q) {
  QueryScalars scalars;
  for (std::int64_t i = 0; i < s.coded.padded; ++i) {
    const double value = i < s.space.dim ? raw_value(s.raw, s.space.dtype, q * s.raw_stride + i) : 0;
    s.coded.values[q * s.coded.padded + i] = value;
    if (isnan(value)) scalars.kind = QueryKind::nan;
  }
  if (scalars.kind == QueryKind::nan) atomicAdd(s.coded.nan_queries, 1ULL);
  s.coded.scalars[q] = scalars;
  start_query<float>(q, s.coded);
}

__device__ inline void write_list(const Lists& out, std::int64_t q, std::int64_t l, float first, float second,
                                  std::int64_t row) {
  out.first[q * out.shape.lists + l] =
      row < 0 ? no_candidate : make_candidate(float_score(first), static_cast<std::uint32_t>(row));
  out.second[q * out.shape.lists + l] = order_of(float_score(second));
}

constexpr int many_threads = 128;
template <int D>
constexpr int padded = D <= 2 ? D : (D + 3) / 4 * 4;

// Many queries: one a thread, rows pass by in shared memory. A block takes one list of rows.
//
// First and second are carried without a branch: of a sum's bits, which order like the sum, the lower ten
// give way to the row's place. The sum is rounded down by that, so that nothing is lost; a NaN is above
// infinity.
template <int D, bool squared>
__global__ void __launch_bounds__(many_threads) scan_many_kernel(Scan s) {
  wait_for_previous();
  constexpr int P = padded<D>;
  constexpr int chunk = D <= 4 ? 256 : 128;
  constexpr int unroll = D <= 4 ? 8 : 2;
  constexpr int place_bits = 10;
  constexpr std::int32_t places = 1 << place_bits;
  static_assert(chunk <= places);
  __shared__ __align__(16) float rows[chunk][P];
  const std::int64_t q = static_cast<std::int64_t>(blockIdx.x) * many_threads + threadIdx.x;
  const int dim = static_cast<int>(s.space.dim);
  if (blockIdx.y == s.out.shape.lists) {  // beside the scan
    if (q < s.count) leave_query(s, q);
    return;
  }
  float query[D];
#pragma unroll
  for (int i = 0; i < D; ++i) query[i] = q < s.count ? query_value(s, q, i) : 0.0F;

  const std::int64_t begin = blockIdx.y * s.out.shape.length;
  const std::int64_t end = begin + s.out.shape.length < s.rows ? begin + s.out.shape.length : s.rows;
  constexpr std::int32_t infinite = 0x7f800000;
  std::int32_t first = infinite;
  std::int32_t second = infinite;
  std::int64_t found = -1;
  for (std::int64_t from = begin; from < end; from += chunk) {
    const int count = static_cast<int>(end - from < chunk ? end - from : chunk);
    __syncthreads();
    for (int i = threadIdx.x; i < chunk * P; i += many_threads) {
      const int r = i / P;
      const int j = i % P;
      float value = CUDART_NAN_F;
      if (r < count) value = j < dim ? s.floats[(from + r) * s.float_stride + j] : 0.0F;
      rows[r][j] = value;
    }
    __syncthreads();
    std::int32_t best = INT32_MAX;
    std::int32_t next = INT32_MAX;
    for (int r = 0; r < count; r += unroll) {
#pragma unroll
      for (int u = 0; u < unroll; ++u) {
        float x[P];
        if constexpr (P % 4 == 0) {
#pragma unroll
          for (int i = 0; i < P; i += 4) {
            const float4 v = *reinterpret_cast<const float4*>(&rows[r + u][i]);
            x[i] = v.x;
            x[i + 1] = v.y;
            x[i + 2] = v.z;
            x[i + 3] = v.w;
          }
        } else {
#pragma unroll
          for (int i = 0; i < P; ++i) x[i] = rows[r + u][i];
        }
        float sum = 0;
#pragma unroll
        for (int i = 0; i < D; ++i) sum = add_difference<squared>(sum, query[i], x[i]);
        const std::int32_t key = (__float_as_int(sum) & -places) | (r + u);
        next = min(next, max(best, key));
        best = min(best, key);
      }
    }
    const std::int32_t sum = best & -places;
    if (sum < first) {
      second = min(first, next & -places);
      first = sum;
      found = from + (best & (places - 1));
    } else {
      second = min(second, sum);
    }
  }
  // What is infinite, or no number at all, is no candidate; infinite seconds are looked at where all is.
  if (q < s.count) {
    write_list(s.out, q, blockIdx.y, __int_as_float(first), __int_as_float(min(second, infinite)),
               found < 0 ? -1 : found * s.row_step);
  }
}

// The list of a warp from those of its threads: the first of all, and the least of the others.
template <class V, class Less>
__device__ void merge_warp(V& first, V& second, std::int64_t& row, const Less& less) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) {
    const V other = __shfl_xor_sync(0xffffffffU, first, step);
    const V behind = __shfl_xor_sync(0xffffffffU, second, step);
    const std::int64_t where = __shfl_xor_sync(0xffffffffU, row, step);
    const bool theirs = less(other, first) || (!less(first, other) && where < row);
    const V loser = theirs ? first : other;
    if (less(behind, second)) second = behind;
    if (less(loser, second)) second = loser;
    if (theirs) {
      first = other;
      row = where;
    }
  }
}

constexpr int few_threads = 256;
constexpr int few_packed = 4;  // rows that a thread reads together

constexpr int most_few_blocks = 511;  // as many lists as a warp reads at once

// Few queries: rows are dealt to threads, which hold Q queries each. A block is a list.
template <int D, int Q, bool squared>
__global__ void __launch_bounds__(few_threads, Q == 1 ? 4 : 2) scan_few_kernel(Scan s) {
  wait_for_previous();
  constexpr int unroll = D <= 4 ? 4 : 1;
  const int dim = static_cast<int>(s.space.dim);
  if (blockIdx.x == s.out.shape.lists) {  // beside the scan
    if (threadIdx.x < s.count) leave_query(s, threadIdx.x);
    return;
  }
  const std::int64_t thread = static_cast<std::int64_t>(blockIdx.x) * few_threads + threadIdx.x;
  const std::int64_t all = s.out.shape.lists * few_threads;
  const bool whole = D % 4 == 0 && dim == D && s.float_stride % 4 == 0 &&
                     reinterpret_cast<std::uintptr_t>(s.floats) % 16 == 0;
  // Rows of a thread: side by side, so that they are read 16 bytes at a time, or one for each round.
  const bool packed = D < 4 && s.out.shape.group == few_threads * few_packed;
  const std::int64_t step = packed ? 1 : all;
  float x[unroll][D];
  const auto load = [&](std::int64_t base) {
    if constexpr (D < 4) {
      static_assert(unroll == few_packed);
      if (packed && base + unroll <= s.rows) {
        float values[unroll * D];
#pragma unroll
        for (int i = 0; i < unroll * D; i += 4) {
          const float4 v = __ldcs(reinterpret_cast<const float4*>(s.floats + base * D + i));
          values[i] = v.x;
          values[i + 1] = v.y;
          values[i + 2] = v.z;
          values[i + 3] = v.w;
        }
#pragma unroll
        for (int i = 0; i < unroll * D; ++i) x[i / D][i % D] = values[i];
        return;
      }
    }
#pragma unroll
    for (int u = 0; u < unroll; ++u) {
      const std::int64_t row = base + u * step;
      const float* from = s.floats + (row < s.rows ? row : 0) * s.float_stride;
      if (whole) {
#pragma unroll
        for (int i = 0; i + 3 < D; i += 4) {
          const float4 v = __ldcs(reinterpret_cast<const float4*>(from + i));
          x[u][i] = v.x;
          x[u][i + 1] = v.y;
          x[u][i + 2] = v.z;
          x[u][i + 3] = v.w;
        }
      } else {
#pragma unroll
        for (int i = 0; i < D; ++i) x[u][i] = i < dim ? __ldcs(from + i) : 0.0F;
      }
      if (row >= s.rows) x[u][0] = CUDART_NAN_F;
    }
  };
  const std::int64_t begin = packed ? thread * unroll : thread;
  load(begin);  // under way while the queries are read

  float query[Q][D];
  float first[Q];
  float second[Q];
  std::int64_t found[Q];
#pragma unroll
  for (int q = 0; q < Q; ++q) {
    const std::int64_t which = q < s.count ? q : s.count - 1;
#pragma unroll
    for (int i = 0; i < D; ++i) query[q][i] = query_value(s, which, i);
    first[q] = second[q] = CUDART_INF_F;
    found[q] = -1;
  }
  for (std::int64_t base = begin; base < s.rows;) {
#pragma unroll
    for (int u = 0; u < unroll; ++u) {
#pragma unroll
      for (int q = 0; q < Q; ++q) {
        float sum = 0;
#pragma unroll
        for (int i = 0; i < D; ++i) sum = add_difference<squared>(sum, query[q][i], x[u][i]);
        if (sum < second[q]) {
          if (sum < first[q]) {
            second[q] = first[q];
            first[q] = sum;
            found[q] = base + u * step;
          } else {
            second[q] = sum;
          }
        }
      }
    }
    base += unroll * all;
    if (base < s.rows) load(base);
  }
  __shared__ float firsts[Q][few_threads / 32];
  __shared__ float seconds[Q][few_threads / 32];
  __shared__ std::int64_t rows[Q][few_threads / 32];
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const auto less = [](float a, float b) { return a < b; };
#pragma unroll
  for (int q = 0; q < Q; ++q) {
    merge_warp(first[q], second[q], found[q], less);
    if (lane == 0) {
      firsts[q][warp] = first[q];
      seconds[q][warp] = second[q];
      rows[q][warp] = found[q];
    }
  }
  __syncthreads();
  if (warp >= Q) return;
  float one = lane < few_threads / 32 ? firsts[warp][lane] : CUDART_INF_F;
  float other = lane < few_threads / 32 ? seconds[warp][lane] : CUDART_INF_F;
  std::int64_t row = lane < few_threads / 32 ? rows[warp][lane] : -1;
  merge_warp(one, other, row, less);
  if (lane == 0 && warp < s.count) write_list(s.out, warp, blockIdx.x, one, other, row);
}

// ---- int8 ----

__device__ inline void write_list(const Lists& out, std::int64_t q, std::int64_t l, std::int32_t first,
                                  std::int32_t second, std::int64_t row) {
  out.first[q * out.shape.lists + l] =
      first < keep_all ? no_candidate : make_candidate(first, static_cast<std::uint32_t>(row));
  out.second[q * out.shape.lists + l] = second < keep_all ? 0xffffffffU : order_of(second);
}

// Few queries: a row's chunk of W bytes is read by W / 16 threads side by side. A warp is a list.
template <int W, int Q>
__global__ void __launch_bounds__(few_threads, Q == 1 ? 4 : 2) scan_few_codes_kernel(Scan s) {
  constexpr int units = W / 16;      // threads a row
  constexpr int group = 32 / units;  // rows a warp
  constexpr int unroll = Q == 1 ? 4 : 2;
  extern __shared__ uint4 query_units[];  // [Q][chunks * units]
  wait_for_previous();
  const int chunks = s.space.shape.chunks;
  const int row_units = chunks * units;
  for (int i = threadIdx.x; i < Q * row_units; i += few_threads) {
    const std::int64_t q = i / row_units < s.count ? i / row_units : s.count - 1;
    query_units[i] = *reinterpret_cast<const uint4*>(
        s.query_codes + s.space.shape.offset(q, i % row_units * 16, s.query_tile));
  }
  __syncthreads();

  const int lane = static_cast<int>(threadIdx.x) % 32;
  const std::int64_t warp = (static_cast<std::int64_t>(blockIdx.x) * few_threads + threadIdx.x) / 32;
  const std::int64_t step = s.out.shape.lists * group;  // places between a thread's rows
  const std::int64_t places = s.codes.bias == nullptr ? 0 : s.out.shape.tiles * code_tile_rows;
  std::int32_t first[Q];
  std::int32_t second[Q];
  std::int64_t found[Q];
#pragma unroll
  for (int q = 0; q < Q; ++q) {
    first[q] = second[q] = no_row;
    found[q] = -1;
  }
  // The same number of rounds for all threads of a warp: they exchange sums.
  for (std::int64_t base = warp * group; base < places; base += unroll * step) {
    std::int32_t sum[unroll][Q] = {};
    std::int32_t bias[unroll];
#pragma unroll
    for (int u = 0; u < unroll; ++u) {
      const std::int64_t place = base + u * step + lane / units;
      bias[u] = place < places ? __ldcs(s.codes.bias + place) : no_row;
    }
    for (int chunk = 0; chunk < chunks; ++chunk) {
      uint4 x[unroll];
#pragma unroll
      for (int u = 0; u < unroll; ++u) {
        const std::int64_t place = base + u * step + lane / units;
        const std::int64_t safe = place < places ? place : 0;
        const std::int64_t tile = safe / code_tile_rows * chunks + chunk;
        x[u] = __ldcs(reinterpret_cast<const uint4*>(
            s.codes.codes + (tile * code_tile_rows + safe % code_tile_rows) * W + lane % units * 16));
      }
#pragma unroll
      for (int u = 0; u < unroll; ++u) {
        const auto in_tile = static_cast<int>((base + u * step + lane / units) % code_tile_rows);
        const int unit = lane % units ^ ((in_tile * W >> 7) & (units - 1));
#pragma unroll
        for (int q = 0; q < Q; ++q) {
          const uint4 y = query_units[q * row_units + chunk * units + unit];
          sum[u][q] = __dp4a(static_cast<int>(x[u].x), static_cast<int>(y.x), sum[u][q]);
          sum[u][q] = __dp4a(static_cast<int>(x[u].y), static_cast<int>(y.y), sum[u][q]);
          sum[u][q] = __dp4a(static_cast<int>(x[u].z), static_cast<int>(y.z), sum[u][q]);
          sum[u][q] = __dp4a(static_cast<int>(x[u].w), static_cast<int>(y.w), sum[u][q]);
        }
      }
    }
#pragma unroll
    for (int u = 0; u < unroll; ++u) {
#pragma unroll
      for (int q = 0; q < Q; ++q) {
        std::int32_t score = sum[u][q];
#pragma unroll
        for (int apart = units / 2; apart > 0; apart /= 2)
          score += __shfl_xor_sync(0xffffffffU, score, apart);
        score += bias[u];
        if (score > second[q]) {
          if (score > first[q]) {
            second[q] = first[q];
            first[q] = score;
            found[q] = base + u * step + lane / units;
          } else {
            second[q] = score;
          }
        }
      }
    }
  }
#pragma unroll
  for (int q = 0; q < Q; ++q) {
    // Threads of one row have the same list: one of them speaks.
    if (lane % units != 0) {
      first[q] = second[q] = no_row;
      found[q] = INT64_MAX;
    }
    merge_warp(first[q], second[q], found[q], [](std::int32_t a, std::int32_t b) { return a > b; });
    if (lane == 0 && q < s.count) {
      const std::int64_t row = first[q] < keep_all ? 0
                                                   : row_of(found[q] / code_tile_rows,
                                                            found[q] % code_tile_rows, s.out.shape.tiles);
      write_list(s.out, q, warp, first[q], second[q], row);
    }
  }
}

// The code of a query of up to 32 values, by one thread: the one that encode_query gives every query that a
// filter speaks for, where its step is that of the rows.
template <class T>
__device__ inline void code_query(const T* row, const Space& space, unsigned char* codes, int place) {
  const double inverse = 1 / space.step;
  const int dim = static_cast<int>(space.dim);
  constexpr int batch = 8;  // loads in flight
#pragma unroll 1
  for (int base = 0; base < 32; base += batch) {
    double values[batch];
    double means[batch];
#pragma unroll
    for (int j = 0; j < batch; ++j) {
      values[j] = base + j < dim ? widen(row[base + j]) : 0;
      means[j] = base + j < dim && space.mean != nullptr ? space.mean[base + j] : 0;
    }
    std::uint32_t packed[batch / 4] = {};
#pragma unroll
    for (int j = 0; j < batch; ++j) {
      int code = 0;
      if (space.raw_integers) {
        code = static_cast<int>(values[j]) - space.offset();
      } else {
        // As in_code_space has it.
        const double y = space.mean == nullptr ? values[j] * space.unit : (values[j] - means[j]) * space.unit;
        code = static_cast<int>(rint(fmin(fmax(y * inverse, -127.0), 127.0)));
      }
      if (base + j < dim) packed[j / 4] |= static_cast<std::uint32_t>(code & 255) << (8 * (j % 4));
    }
#pragma unroll
    for (int j = 0; j < batch; j += 4) {
      *reinterpret_cast<std::uint32_t*>(codes + space.shape.offset(place, base + j, scan_query_tile)) =
          packed[j / 4];
    }
  }
}

constexpr int tile_threads = 128;
constexpr int tile_ring = 4;
constexpr int tile_bytes = code_tile_rows * 32;

// Many queries, rows of up to 32 values: a warp owns 32 queries, a block 128 and a slice of the tiles. A
// thread sees every fourth pair of columns: that is its list.
template <class T>
__global__ void __launch_bounds__(tile_threads) scan_tiles_kernel(Scan s) {
  __shared__ __align__(128) unsigned char query_codes[scan_query_tile * 32];
  __shared__ __align__(128) unsigned char ring[tile_ring][tile_bytes];
  __shared__ __align__(16) std::int32_t ring_bias[tile_ring][code_tile_rows];
  wait_for_previous();
  const int tid = static_cast<int>(threadIdx.x);
  const int lane = tid % 32;
  const int warp = tid / 32;
  const std::int64_t q0 = static_cast<std::int64_t>(blockIdx.x) * scan_query_tile;
  if (blockIdx.y * std::int64_t{4} == s.out.shape.lists) {  // beside the scan: all but the codes
    static_assert(tile_threads == scan_query_tile);
    if (q0 + tid >= s.count) return;
    QueryCodes out = s.coded;
    out.codes = query_codes;
    out.tile = scan_query_tile;
    encode_query<1>(static_cast<const T*>(s.raw), s.raw_stride, q0 + tid, s.count, tid, s.space, out);
    start_query<T>(q0 + tid, out);
    return;
  }
  const std::int64_t first_tile = blockIdx.y * s.out.shape.slice;
  const std::int64_t left = s.out.shape.looked - first_tile;
  const int tiles = static_cast<int>(left < s.out.shape.slice ? left : s.out.shape.slice);

  if (s.raw == nullptr) {
    for (int i = tid; i < scan_query_tile * 2; i += tile_threads)
      copy_async(shared_address(query_codes + i * 16), s.query_codes + q0 * 32 + i * 16);
  }
  const auto load = [&](int t) {
    if (t < tiles) {
      const int slot = t % tile_ring;
      const std::uint8_t* from = s.codes.codes + (first_tile + t) * tile_bytes;
#pragma unroll
      for (int i = 0; i < tile_bytes / 16 / tile_threads; ++i) {
        const int at = (i * tile_threads + tid) * 16;
        copy_async(shared_address(ring[slot] + at), from + at);
      }
      if (tid < code_tile_rows / 4)
        copy_async(shared_address(ring_bias[slot] + tid * 4),
                   s.codes.bias + (first_tile + t) * code_tile_rows + tid * 4);
    }
    commit_copies();
  };
#pragma unroll
  for (int t = 0; t < tile_ring - 1; ++t) load(t);
  if (s.raw != nullptr && q0 + tid < s.count) {
    code_query(static_cast<const T*>(s.raw) + (q0 + tid) * s.raw_stride, s.space, query_codes, tid);
  }

  // Below every score that a row can have, and so that six more bits fit.
  constexpr std::int32_t none = -(1 << 24);
  std::uint32_t fa[2][4];
  std::int32_t first[4];  // of queries lane / 4 + 8 i
  std::int32_t second[4];
  std::int32_t found[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    first[i] = second[i] = none;
    found[i] = 0;
  }
  for (int t = 0; t < tiles; ++t) {
    wait_copies<tile_ring - 2>();
    __syncthreads();
    load(t + tile_ring - 1);
    if (t == 0) {
#pragma unroll
      for (int m = 0; m < 2; ++m) {
        const int row = warp * 32 + m * 16 + lane % 16;
        load_matrices(fa[m], shared_address(query_codes + row * 32 + (lane / 16 ^ (row * 32 >> 7 & 1)) * 16));
      }
    }
    const int slot = t % tile_ring;
    std::int32_t best[4];
    std::int32_t next[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) best[i] = next[i] = INT32_MIN;
#pragma unroll 4
    for (int n = 0; n < code_tile_rows / 8; n += 2) {
      std::uint32_t fb[4];
      const int row = n * 8 + lane % 8 + lane / 16 * 8;
      load_matrices(fb, shared_address(ring[slot] + row * 32 + ((lane / 8 & 1) ^ (row * 32 >> 7 & 1)) * 16));
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int column = (n + h) * 8 + lane % 4 * 2;
        const int2 b = *reinterpret_cast<const int2*>(ring_bias[slot] + column);
        const int bias[2] = {max(b.x, none), max(b.y, none)};
#pragma unroll
        for (int m = 0; m < 2; ++m) {
          int acc[4] = {bias[0], bias[1], bias[0], bias[1]};
          multiply(acc, fa[m], fb[2 * h], fb[2 * h + 1]);
#pragma unroll
          for (int c = 0; c < 4; ++c) {
            const int i = 2 * m + c / 2;
            const std::int32_t key = acc[c] * 64 + ((n + h) * 2 + c % 2);
            next[i] = max(next[i], min(best[i], key));
            best[i] = max(best[i], key);
          }
        }
      }
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const std::int32_t score = best[i] >> 6;
      if (score > first[i]) {
        second[i] = max(first[i], next[i] >> 6);
        first[i] = score;
        found[i] = t * 64 + (best[i] & 63);
      } else {
        second[i] = max(second[i], score);
      }
    }
  }
  wait_copies<0>();
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const std::int64_t q = q0 + warp * 32 + i * 8 + lane / 4;
    if (q >= s.count) continue;
    const std::int64_t l = static_cast<std::int64_t>(blockIdx.y) * 4 + lane % 4;
    // Sums with a padding row's bias stay far below any real score.
    const std::int32_t best = first[i] < none / 2 ? no_row : first[i];
    const std::int32_t next = second[i] < none / 2 ? no_row : second[i];
    write_list(s.out, q, l, best, next, s.out.shape.row(l, found[i]));
  }
}

// ---- launches ----

template <int D, bool squared>
void scan_floats(const Scan& s, int device, cudaStream_t stream) {
  // One more block for queries that are not coded yet.
  const auto lists = static_cast<unsigned>(s.out.shape.lists + (s.raw != nullptr ? 1 : 0));
  if (s.out.shape.kind == ListShape::Kind::consecutive) {
    const dim3 grid(static_cast<unsigned>((s.count + many_threads - 1) / many_threads), lists);
    launch_early(scan_many_kernel<D, squared>, grid, many_threads, 0, device, stream, s);
  } else if (s.count == 1) {
    launch_early(scan_few_kernel<D, 1, squared>, dim3(lists), few_threads, 0, device, stream, s);
  } else {
    launch_early(scan_few_kernel<D, few_queries, squared>, dim3(lists), few_threads, 0, device, stream, s);
  }
}

template <bool squared>
void scan_floats_of(const Scan& s, int device, cudaStream_t stream) {
  switch (float_query_stride(s.space.dim)) {
    case 1: scan_floats<1, squared>(s, device, stream); break;
    case 2: scan_floats<2, squared>(s, device, stream); break;
    case 3: scan_floats<3, squared>(s, device, stream); break;
    case 4: scan_floats<4, squared>(s, device, stream); break;
    case 8: scan_floats<8, squared>(s, device, stream); break;
    default: scan_floats<16, squared>(s, device, stream);
  }
}

template <int W, int Q>
void scan_few_codes(const Scan& s, int device, cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>(s.out.shape.lists / (few_threads / 32));
  const std::size_t bytes = static_cast<std::size_t>(s.space.shape.row_bytes()) * Q;
  allow_shared(scan_few_codes_kernel<W, Q>, few_threads, bytes, device);
  launch_early(scan_few_codes_kernel<W, Q>, dim3(blocks), few_threads, bytes, device, stream, s);
}

template <int W>
void scan_few_codes_of(const Scan& s, int device, cudaStream_t stream) {
  s.count == 1 ? scan_few_codes<W, 1>(s, device, stream) : scan_few_codes<W, few_queries>(s, device, stream);
}

}  // namespace

bool packed_rows(const Space& space, const float* rows, std::int64_t stride) {
  return space.dim < 4 && stride == space.dim && reinterpret_cast<std::uintptr_t>(rows) % 16 == 0;
}

ListShape scan_shape(const Space& space, std::int64_t rows, std::int64_t looked, std::int64_t queries,
                     bool packed, int device) {
  ListShape shape;
  shape.rows = rows;
  shape.tiles = (rows + code_tile_rows - 1) / code_tile_rows;
  shape.looked = (looked + code_tile_rows - 1) / code_tile_rows;
  const std::int64_t places = processors(device);
  if (queries <= few_queries) {
    // Four blocks a processor hide the latency of memory; no more than there are rows for.
    // A place is left for the block beside the scan.
    std::int64_t blocks = places * 4 - 1;
    if (blocks > most_few_blocks) blocks = most_few_blocks;
    const std::int64_t most = (rows + 2047) / 2048;
    if (blocks > most) blocks = most;
    shape.kind = space.int8() ? ListShape::Kind::positions : ListShape::Kind::strided;
    shape.lists = space.int8() ? blocks * (few_threads / 32) : blocks;
    shape.group = few_threads * (packed ? few_packed : 1);
    if (space.int8()) shape.group = 32 / (space.shape.width / 16);
    const std::int64_t of = space.int8() ? shape.tiles * code_tile_rows : rows;
    const std::int64_t round = shape.lists * shape.group;
    shape.length = (of + round - 1) / round * shape.group;
    return shape;
  }
  const std::int64_t query_tiles = (queries + many_threads - 1) / many_threads;
  static_assert(many_threads == scan_query_tile);
  // Four blocks a processor, none much longer than the others, and enough lists for the largest k.
  const std::int64_t slices = (places * 4 + query_tiles - 1) / query_tiles;
  if (space.int8()) {
    shape.kind = ListShape::Kind::quarters;
    const std::int64_t most = slices < 32 ? 32 : slices;
    shape.slice = (shape.looked + most - 1) / most;
    shape.lists = 4 * ((shape.looked + shape.slice - 1) / shape.slice);
    shape.length = shape.slice * 64;
  } else {
    const std::int64_t most = slices < 64 ? 64 : slices;
    shape.length = (looked + most - 1) / most;
    shape.lists = (looked + shape.length - 1) / shape.length;
  }
  return shape;
}

bool scan_codes_queries(const Space& space, const ListShape& shape) {
  // float64 values do not fit float32, and the step of an inner product's query is its own: coded apart.
  if (!space.int8()) return space.dtype != Dtype::f64;
  return shape.kind == ListShape::Kind::quarters && space.form != Form::cauchy;
}

void scan_rows(const Scan& s, int device, cudaStream_t stream) {
  if (s.count <= 0) return;
  if (!s.space.int8()) {
    if (s.space.form == Form::squared) {
      scan_floats_of<true>(s, device, stream);
    } else {
      scan_floats_of<false>(s, device, stream);
    }
    return;
  }
  if (s.out.shape.kind == ListShape::Kind::quarters) {
    const dim3 grid(static_cast<unsigned>((s.count + scan_query_tile - 1) / scan_query_tile),
                    static_cast<unsigned>(s.out.shape.lists / 4 + (s.raw != nullptr ? 1 : 0)));
    visit_element(s.space.dtype, [&]<class T>(T /*tag*/) {
      launch_early(scan_tiles_kernel<T>, grid, tile_threads, 0, device, stream, s);
    });
    return;
  }
  switch (s.space.shape.width) {
    case 32: scan_few_codes_of<32>(s, device, stream); break;
    case 64: scan_few_codes_of<64>(s, device, stream); break;
    default: scan_few_codes_of<128>(s, device, stream);
  }
}

}  // namespace kith::brute_force::cuda
