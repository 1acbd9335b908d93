// What the kernels over codes compare: integers for int8 codes, floats for halves.
#pragma once

#include <cstdint>

#include "brute_force/cuda/bound.cuh"

namespace kith::brute_force::cuda {

template <bool half>
struct Scores;

template <>
struct Scores<false> {
  using Value = std::int32_t;
  static constexpr std::int32_t no_score = no_row;
  __device__ static Value bias(std::int32_t bits) { return bits; }
  __device__ static Value lowest() { return -2147483647; }
  __device__ static Value larger(Value a, Value b) { return max(a, b); }
  __device__ static Value sum(Value a, Value b) { return a + b; }
  __device__ static Value sum_or_larger(Value product, Value bias, Value largest) {
    return __viaddmax_s32(product, bias, largest);
  }
  /// Of a threshold, or what `opposite_bias` returned: what no score reaches stays so.
  __device__ static Value opposite(Value value) { return -min(value, 1 << 30); }
  __device__ static Value opposite_bias(std::int32_t bits) { return -bits; }
  __device__ static Value limit(const QueryBound& bound, const CodeTest& test, const float* largest) {
    return threshold(bound, test, largest);
  }
  __device__ static std::int32_t order(Value score) { return score; }
  __device__ static std::int32_t least() { return keep_all; }
  /// With one of 16 places below it, and back; what is too large or too small becomes the largest or the
  /// least.
  __device__ static std::int32_t with_place(Value score, int place) {
    return max(min(score, (1 << 27) - 1), -(1 << 27)) * 16 + place;
  }
  __device__ static std::int32_t without_place(std::int32_t value) { return value >> 4; }
  __device__ static bool is_row(std::int32_t score) { return score > -(1 << 27); }
};

template <>
struct Scores<true> {
  using Value = float;
  static constexpr std::int32_t no_score = -2147483647;
  __device__ static Value bias(std::int32_t bits) { return __int_as_float(bits); }
  __device__ static Value lowest() { return -CUDART_INF_F; }
  __device__ static Value larger(Value a, Value b) { return fmaxf(a, b); }
  __device__ static Value sum(Value a, Value b) { return __fadd_rn(a, b); }
  __device__ static Value sum_or_larger(Value product, Value bias, Value largest) {
    return fmaxf(__fadd_rn(product, bias), largest);
  }
  __device__ static Value opposite(Value value) { return -value; }
  __device__ static Value opposite_bias(std::int32_t bits) { return -__int_as_float(bits); }
  __device__ static Value limit(const QueryBound& bound, const CodeTest& test, const float* largest) {
    return half_threshold(bound, test, largest);
  }
  __device__ static std::int32_t order(Value score) { return ordered(score); }
  __device__ static std::int32_t least() { return ordered(keep_all_halves); }
  /// In the place of the last four bits of its order.
  __device__ static std::int32_t with_place(Value score, int place) { return (ordered(score) & ~15) | place; }
  __device__ static std::int32_t without_place(std::int32_t value) { return value & ~15; }
  __device__ static bool is_row(std::int32_t score) { return score >= least(); }
};

}  // namespace kith::brute_force::cuda
