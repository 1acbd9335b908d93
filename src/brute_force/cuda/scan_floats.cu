// One look at every pair of float32 rows: see one_pass.cu.
#include <math_constants.h>

#include "brute_force/cuda/scan.cuh"
#include "codes/cuda/encode_query.cuh"
#include "cuda/launch.hpp"
#include "cuda/runtime.hpp"

namespace kith::brute_force::cuda {
namespace {

using namespace distance::cuda;

// A value of queries that are not encoded yet.
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

// A query's value as the float32 filter sees it.
__device__ inline float query_value(const Scan& s, std::int64_t q, std::int64_t i) {
  if (s.raw == nullptr) return s.queries[q * s.query_stride + i];
  return i < s.space.dim ? static_cast<float>(raw_value(s.raw, s.space.dtype, q * s.raw_stride + i)) : 0.0F;
}

// Leaves what re-ranking needs of a query that the scan reads as it is; float32 holds it exactly.
__device__ inline void leave_query(const Scan& s, std::int64_t q) {
  QueryScalars scalars;
  for (std::int64_t i = 0; i < s.encoded.padded; ++i) {
    const double value = i < s.space.dim ? raw_value(s.raw, s.space.dtype, q * s.raw_stride + i) : 0;
    s.encoded.values[q * s.encoded.padded + i] = value;
    if (isnan(value)) scalars.kind = codes::RowKind::nan;
  }
  if (scalars.kind == codes::RowKind::nan) atomicAdd(s.encoded.nan_queries, 1ULL);
  s.encoded.scalars[q] = scalars;
  start_query<float>(q, s.encoded);
}

__device__ inline void write_list(const Lists& out, std::int64_t q, std::int64_t l, float first, float second,
                                  std::int64_t row) {
  out.first[q * out.shape.lists + l] =
      row < 0 ? no_candidate : make_candidate(float_score(first), static_cast<std::uint32_t>(row));
  out.second[q * out.shape.lists + l] = order_of(float_score(second));
}

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
    merge_threads<32>(first[q], second[q], found[q], less);
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
  merge_threads<32>(one, other, row, less);
  if (lane == 0 && warp < s.count) write_list(s.out, warp, blockIdx.x, one, other, row);
}

template <int D, bool squared>
void scan_floats(const Scan& s, int device, cudaStream_t stream) {
  // One more block for queries that are not encoded yet.
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

}  // namespace

void scan_float_rows(const Scan& s, int device, cudaStream_t stream) {
  if (s.space.form == codes::Form::difference) {
    scan_floats_of<true>(s, device, stream);
  } else {
    scan_floats_of<false>(s, device, stream);
  }
}

}  // namespace kith::brute_force::cuda
