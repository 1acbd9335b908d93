// What the kernels of a build share.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "cuda/launch.hpp"
#include "cuda/runtime.hpp"
#include "point_tree/cuda/build_kernels.hpp"
#include "point_tree/cuda/tuning.hpp"

namespace kith::point_tree::build_steps {

constexpr unsigned full = 0xffffffffU;
constexpr int block_threads = cuda::constants.build_threads;

inline unsigned blocks_for(std::int64_t work, int each = block_threads) {
  return static_cast<unsigned>(std::max<std::int64_t>(1, (work + each - 1) / each));
}

__device__ inline std::int64_t this_thread() {
  return static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ inline std::int64_t all_threads() {
  return static_cast<std::int64_t>(gridDim.x) * blockDim.x;
}

// Integers in the order of the numbers.
__device__ inline unsigned long long ordered(double value) {
  const auto bits = static_cast<unsigned long long>(__double_as_longlong(value));
  return (bits >> 63U) != 0 ? ~bits : bits | (1ULL << 63U);
}
__device__ inline double from_ordered(unsigned long long bits) {
  return __longlong_as_double(static_cast<long long>((bits >> 63U) != 0 ? bits & ~(1ULL << 63U) : ~bits));
}

// Over the lanes of `lanes` consecutive ones, a power of two.
__device__ inline float smallest(float value, int lanes = 32) {
  for (int step = lanes / 2; step > 0; step /= 2) value = fminf(value, __shfl_xor_sync(full, value, step));
  return value;
}
__device__ inline double smallest(double value, int lanes = 32) {
  for (int step = lanes / 2; step > 0; step /= 2) value = fmin(value, __shfl_xor_sync(full, value, step));
  return value;
}

// The range that a point of a list belongs to: the last whose offset is not above it.
template <class Id>
__device__ std::int64_t range_of(const Range<Id>* ranges, std::int64_t count, std::int64_t point) {
  std::int64_t low = 0;
  std::int64_t high = count;
  while (high - low > 1) {
    const std::int64_t middle = (low + high) / 2;
    if (static_cast<std::int64_t>(ranges[middle].offset) <= point)
      low = middle;
    else
      high = middle;
  }
  return low;
}

}  // namespace kith::point_tree::build_steps
