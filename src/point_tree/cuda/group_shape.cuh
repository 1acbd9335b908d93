// What a group of queries (group.cuh) has room for, and what its steps share.
#pragma once

#include <cfloat>
#include <cstdint>
#include <cstring>

#include <cuda_fp16.h>

#include "distance/cuda/canonical.cuh"
#include "point_tree/cuda/search_kernels.hpp"
#include "point_tree/cuda/tuning.hpp"

namespace kith::point_tree::cuda {
namespace {

using namespace distance::cuda;

constexpr unsigned everyone = 0xffffffffU;

// Words of 32 points that a walk has room for.
template <int K>
constexpr int most_words = Constants::group_words(K);

// A candidate's integer: 20 bits of its sum (all but the sign and the 11 last), 7 of the chunk of at most 32
// points that it came with, 5 of its place there.
constexpr int place_bits = 12;
constexpr int cut_bits = 11;
constexpr std::uint32_t place_mask = (1U << place_bits) - 1;
constexpr int most_chunks = 1 << (place_bits - 5);
constexpr std::uint32_t no_key = 0xffffffffU;

// Points around a group that it takes bounds from where it cannot guess.
template <int K>
constexpr int seeds = K <= 16 ? 64 : 96;

// A run of queries whose box, widened by their usual step, is larger than so many cubes of it is cut.
constexpr float most_cubes = 300;

// The guess: so many times the mean k-th sum of the group before. It adapts: a group that went again widens
// it, one that did not narrows it.
__device__ float first_spread(int k) {
  return k >= 32 ? 1.6f
                 : (k >= 20 ? 1.7f
                            : (k >= 8 ? 2.1f - 0.03f * static_cast<float>(k - 8)
                                      : (k >= 4 ? 2.6f : (k >= 2 ? 3.5f : 5.0f))));
}
constexpr float widened = 1.15F;
constexpr float narrowed = 0.99F;
constexpr float least_spread = 1.2F;
constexpr float most_spread = 6.0F;
constexpr float second_guess = 2.5F;

// Of which the sorted answers of all lanes take some, at the end.
template <int K>
constexpr int slot_words = (K * 33 * 8 + 511) / 512;

static_assert(most_words<8> - slot_words<8> >= 2 && most_words<16> - slot_words<16> >= 2 &&
              most_words<24> - slot_words<24> >= 2 && most_words<32> - slot_words<32> >= 2);

template <int K>
constexpr int warps_a_block = Constants::group_warps(K);
template <int K>
constexpr int blocks_at_once = Constants::group_blocks(K);

constexpr int queued_room = 64;

template <int K>
__host__ __device__ constexpr int shared_bytes(int stack) {
  const int bytes =
      most_words<K> * (32 * 16 + 32 * 4) + 64 * 8 + most_chunks * 4 + queued_room * 8 + stack * 4;
  return (bytes + 15) / 16 * 16;
}

struct Box {
  float lower[3], upper[3];
};

template <bool manhattan>
__device__ float add_term(float sum, float d) {
  return manhattan ? __fadd_rn(sum, fabsf(d)) : __fmaf_rn(d, d, sum);
}

// A lower bound of the distance of any two points of two boxes.
template <bool manhattan>
__device__ float apart(const Box& a, const float* lower, const float* upper) {
  float sum = 0;
#pragma unroll
  for (int j = 0; j < 3; ++j) {
    const float out = fmaxf(fmaxf(__fsub_rn(lower[j], a.upper[j]), __fsub_rn(a.lower[j], upper[j])), 0.0f);
    sum = add_term<manhattan>(sum, out);
  }
  return sum;
}

template <bool manhattan>
__device__ float sum_of(const float4& a, const float4& b, float start) {
  const float x = __fsub_rn(a.x, b.x);
  const float y = __fsub_rn(a.y, b.y);
  const float z = __fsub_rn(a.z, b.z);
  return add_term<manhattan>(add_term<manhattan>(add_term<manhattan>(start, x), y), z);
}

template <bool manhattan>
__device__ double term(float a, float b) {
  return canonical_first<manhattan>(sub(static_cast<double>(a), static_cast<double>(b)));
}

__device__ float largest(float value) {  // of values that are not negative
  return __uint_as_float(__reduce_max_sync(everyone, __float_as_uint(value)));
}

__device__ __half2 half2_of(unsigned bits) {
  __half2 both;
  memcpy(&both, &bits, sizeof both);
  return both;
}

// What is left of a search: indices and distances, or columns (GroupSearch::cells).
enum class Output { answer, places, distances };

}  // namespace
}  // namespace kith::point_tree::cuda
