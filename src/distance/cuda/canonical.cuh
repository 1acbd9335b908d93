// The canonical distance on the GPU.
//
// Eight threads evaluate a pair, thread l owning lane l (values l, l + 8, ...); three exchanges by shuffle
// add the lanes in the contract's order. All 32 threads of a warp must call together.
#pragma once

#include <cstdint>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "cuda/host_device.hpp"
#include "kith/metric.hpp"

namespace kith::distance::cuda {

#include "distance/canonical_steps.inc"

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

/// One value of a pair, and for cosine the row's norm.
template <Metric metric>
__device__ inline void canonical_step(double& sum, double& norm, double q, double x) {
  sum = canonical_step<metric>(sum, q, x);
  if constexpr (metric == Metric::cosine) norm = canonical_step<metric>(norm, x, x);
}

/// canonical_sum() of eight threads' lanes, the same in all of them.
__device__ inline double canonical_reduce(double lane) {
  lane = add(lane, __shfl_xor_sync(0xffffffffU, lane, 4));
  lane = add(lane, __shfl_xor_sync(0xffffffffU, lane, 2));
  return add(lane, __shfl_xor_sync(0xffffffffU, lane, 1));
}

/// What this thread's lane adds of so many values of a pair, the first of them being its row's first or a
/// multiple of eight behind it.
template <class T, Metric metric>
__device__ inline void canonical_part(double& sum, double& norm, const T* row, const double* query,
                                      std::int64_t values) {
  std::int64_t i = threadIdx.x % canonical_lanes;
  constexpr int batch = 8;  // loads in flight
  for (; i + (batch - 1) * canonical_lanes < values; i += batch * canonical_lanes) {
    T some[batch];
#pragma unroll
    for (int j = 0; j < batch; ++j) some[j] = row[i + j * canonical_lanes];
#pragma unroll
    for (int j = 0; j < batch; ++j) {
      canonical_step<metric>(sum, norm, query[i + j * canonical_lanes], widen(some[j]));
    }
  }
  for (; i < values; i += canonical_lanes) canonical_step<metric>(sum, norm, query[i], widen(row[i]));
}

/// The distance from what the lanes of eight threads add up to.
template <Metric metric>
__device__ inline double canonical_whole(double sum, double norm, double query_norm) {
  sum = canonical_reduce(sum);
  if constexpr (metric == Metric::cosine) norm = canonical_reduce(norm);
  return canonical_finish<metric>(sum, norm, query_norm);
}

/// As canonical_part, for rows in memory: the next values are loaded while these are added up.
template <class T, Metric metric>
__device__ inline void canonical_far(double& sum, double& norm, const T* row, const double* query,
                                     std::int64_t values) {
  constexpr int batch = 8;
  const int lane = static_cast<int>(threadIdx.x) % canonical_lanes;
  auto left = static_cast<int>((values - lane + canonical_lanes - 1) / canonical_lanes);  // of this lane
  row += lane;
  query += lane;
  T next[batch];
  const auto load = [&] {
    if (left >= batch) {
#pragma unroll
      for (int j = 0; j < batch; ++j) next[j] = row[j * canonical_lanes];
    } else {
#pragma unroll
      for (int j = 0; j < batch; ++j) next[j] = j < left ? row[j * canonical_lanes] : T{};
    }
  };
  load();
  while (left >= batch) {
    T some[batch];
#pragma unroll
    for (int j = 0; j < batch; ++j) some[j] = next[j];
    row += batch * canonical_lanes;
    left -= batch;
    if (left > 0) load();
#pragma unroll
    for (int j = 0; j < batch; ++j) {
      canonical_step<metric>(sum, norm, query[j * canonical_lanes], widen(some[j]));
    }
    query += batch * canonical_lanes;
  }
  if (left <= 0) return;
#pragma unroll
  for (int j = 0; j < batch; ++j) {
    if (j < left) canonical_step<metric>(sum, norm, query[j * canonical_lanes], widen(next[j]));
  }
}

/// One pair by eight threads; `active` is false for groups that have nothing to do but shuffle along.
template <class T, Metric metric>
__device__ inline double canonical_pair(const T* row, const double* query, std::int64_t dim,
                                        double query_norm, bool active) {
  double sum = 0;
  double norm = 0;
  if (active) canonical_far<T, metric>(sum, norm, row, query, dim);
  return canonical_whole<metric>(sum, norm, query_norm);
}

}  // namespace kith::distance::cuda
