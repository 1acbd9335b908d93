// What the scans of one pass share (one_pass.cu).
#pragma once

#include <cstdint>

#include "brute_force/cuda/bound.cuh"
#include "brute_force/cuda/kernels.hpp"

namespace kith::brute_force::cuda {

/// One look at every pair of float32 rows, or of int8 codes.
void scan_float_rows(const Scan& scan, int device, cudaStream_t stream);
void scan_code_rows(const Scan& scan, int device, cudaStream_t stream);

namespace {

constexpr int many_threads = 128;

constexpr int few_threads = 256;
constexpr int few_packed = 4;  // rows that a thread reads together

constexpr int most_few_blocks = 511;  // as many lists as a warp reads at once

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

}  // namespace
}  // namespace kith::brute_force::cuda
