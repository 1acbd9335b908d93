// The canonical distance on the GPU: the same operations in the same order as
// distance/cpu/canonical_body.inc, written with intrinsics so that no flag can fuse what the contract keeps
// apart.
//
// Eight threads evaluate a pair, thread l owning lane l (values l, l + 8, ...); three exchanges by shuffle
// add the lanes in the contract's order. All 32 threads of a warp must call together.
#pragma once

#include <cstdint>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "kith/metric.hpp"

namespace kith::cuda {

inline constexpr int canonical_lanes = 8;

__device__ inline double widen(float x) {
  return x;
}
__device__ inline double widen(double x) {
  return x;
}
__device__ inline double widen(std::int8_t x) {
  return x;
}
__device__ inline double widen(std::uint8_t x) {
  return x;
}
__device__ inline double widen(__half x) {
  return __half2float(x);
}
__device__ inline double widen(__nv_bfloat16 x) {
  return __bfloat162float(x);
}

template <Metric metric>
__device__ inline void canonical_step(double& sum, double& norm, double q, double x) {
  if constexpr (metric == Metric::sqeuclidean || metric == Metric::euclidean) {
    const double difference = __dsub_rn(q, x);
    sum = __fma_rn(difference, difference, sum);
  } else if constexpr (metric == Metric::manhattan) {
    sum = __dadd_rn(sum, fabs(__dsub_rn(q, x)));
  } else {
    sum = __fma_rn(q, x, sum);
    if constexpr (metric == Metric::cosine) norm = __fma_rn(x, x, norm);
  }
}

/// ((l0+l4)+(l2+l6)) + ((l1+l5)+(l3+l7)), the same in all eight threads.
__device__ inline double canonical_reduce(double lane) {
  lane = __dadd_rn(lane, __shfl_xor_sync(0xffffffffU, lane, 4));
  lane = __dadd_rn(lane, __shfl_xor_sync(0xffffffffU, lane, 2));
  return __dadd_rn(lane, __shfl_xor_sync(0xffffffffU, lane, 1));
}

/// The same by one thread.
__device__ inline double canonical_sum(const double (&l)[canonical_lanes]) {
  return __dadd_rn(__dadd_rn(__dadd_rn(l[0], l[4]), __dadd_rn(l[2], l[6])),
                   __dadd_rn(__dadd_rn(l[1], l[5]), __dadd_rn(l[3], l[7])));
}

template <Metric metric>
__device__ inline double canonical_finish(double sum, double xx, double query_norm) {
  if constexpr (metric == Metric::euclidean) {
    return __dsqrt_rn(sum);
  } else if constexpr (metric == Metric::inner_product) {
    return __dsub_rn(0, sum);
  } else if constexpr (metric == Metric::cosine) {
    if (query_norm == 0 || xx == 0) {
      return __dadd_rn(query_norm, xx) >= 0 ? 1 : __longlong_as_double(0x7ff8000000000000LL);
    }
    const double distance = __dsub_rn(1, __ddiv_rn(sum, __dmul_rn(query_norm, __dsqrt_rn(xx))));
    return distance < 0 ? 0 : (distance > 2 ? 2 : distance);
  } else {
    return sum;
  }
}

/// One pair by eight threads; `active` is false for groups that have nothing to do but shuffle along.
template <class T, Metric metric>
__device__ inline double canonical_pair(const T* row, const double* query, std::int64_t dim,
                                        double query_norm, bool active) {
  const int lane = threadIdx.x % canonical_lanes;
  double sum = 0;
  double norm = 0;
  if (active) {
    std::int64_t i = lane;
    constexpr int batch = 8;  // loads in flight
    for (; i + (batch - 1) * canonical_lanes < dim; i += batch * canonical_lanes) {
      T values[batch];
#pragma unroll
      for (int j = 0; j < batch; ++j) values[j] = row[i + j * canonical_lanes];
#pragma unroll
      for (int j = 0; j < batch; ++j) {
        canonical_step<metric>(sum, norm, query[i + j * canonical_lanes], widen(values[j]));
      }
    }
    for (; i < dim; i += canonical_lanes) canonical_step<metric>(sum, norm, query[i], widen(row[i]));
  }
  sum = canonical_reduce(sum);
  if constexpr (metric == Metric::cosine) norm = canonical_reduce(norm);
  return canonical_finish<metric>(sum, norm, query_norm);
}

}  // namespace kith::cuda
