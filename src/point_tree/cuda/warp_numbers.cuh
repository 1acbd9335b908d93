// Numbers of a walk, float or double: arithmetic, and bounds as integers.
#pragma once

#include <type_traits>

#include <cuda_runtime_api.h>

namespace kith::point_tree::cuda {
namespace {

// Arithmetic in T that no flag changes.
__device__ float less(float a, float b) {
  return __fsub_rn(a, b);
}
__device__ double less(double a, double b) {
  return __dsub_rn(a, b);
}
__device__ float sum_up(float a, float b) {
  return __fadd_rn(a, b);
}
__device__ double sum_up(double a, double b) {
  return __dadd_rn(a, b);
}
__device__ float square_up(float sum, float d) {
  return __fmaf_rn(d, d, sum);
}
__device__ double square_up(double sum, double d) {
  return __fma_rn(d, d, sum);
}

// A number that is not negative as an integer in the same order.
template <class T>
using Order = std::conditional_t<sizeof(T) == 4, unsigned, unsigned long long>;
__device__ unsigned order_of(float value) {
  return __float_as_uint(value);
}
__device__ unsigned long long order_of(double value) {
  return static_cast<unsigned long long>(__double_as_longlong(value));
}

// The same in 32 bits, if not as fine.
__device__ unsigned rank_of(float value) {
  return __float_as_uint(value);
}
__device__ unsigned rank_of(double value) {
  return static_cast<unsigned>(__double_as_longlong(value) >> 32);
}

}  // namespace
}  // namespace kith::point_tree::cuda
