// Sums over the values of one row by a block, with the bits of the host's row kernels (cpu/row_kernels.hpp).
// All threads call together and get the same.
#pragma once

#include <cstdint>

#include "distance/cuda/canonical.cuh"

namespace kith::codes::cuda {

using namespace distance::cuda;

/// Of some steps, such as squares, in eight lanes.
template <class Step>
__device__ inline double sum_lanes(const double* values, std::int64_t dim, double* shared, const Step& step) {
  const int tid = static_cast<int>(threadIdx.x);
  __syncthreads();
  if (tid < 32) {
    double lane = 0;
    if (tid < canonical_lanes) {
      for (std::int64_t i = tid; i < dim; i += canonical_lanes) lane = step(lane, values[i]);
    }
    lane = canonical_reduce(lane);
    if (tid == 0) *shared = lane;
  }
  __syncthreads();
  const double sum = *shared;
  __syncthreads();
  return sum;
}
__device__ inline double sum_of_squares(const double* values, std::int64_t dim, double* shared) {
  return sum_lanes(values, dim, shared, [](double lane, double v) { return add(lane, mul(v, v)); });
}

/// The largest magnitude.
__device__ inline double largest_of(const double* values, std::int64_t dim, unsigned long long* shared) {
  __syncthreads();
  if (threadIdx.x == 0) *shared = 0;
  __syncthreads();
  for (std::int64_t i = threadIdx.x; i < dim; i += blockDim.x) {
    // Bits of numbers that are not negative order as the numbers do.
    atomicMax(shared, static_cast<unsigned long long>(__double_as_longlong(fabs(values[i]))));
  }
  __syncthreads();
  const double largest = __longlong_as_double(static_cast<long long>(*shared));
  __syncthreads();
  return largest;
}

}  // namespace kith::codes::cuda
