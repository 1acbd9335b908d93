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

constexpr int most_few_blocks = 511;  // few enough lists for a block

// Few queries of int8 codes: a ring of slots a warp, each with codes and biases of so many bytes of rows.
constexpr int few_code_threads = 128;
constexpr int few_code_group = 16;  // threads of a list
constexpr int few_ring = 3;
constexpr int few_piece_bytes = 4096;
constexpr int few_code_blocks = 3;  // of a processor, at most
KITH_HOST_DEVICE constexpr std::size_t few_slot_bytes(int width) {
  return few_piece_bytes + static_cast<std::size_t>(few_piece_bytes / width * 4);
}
// Bytes of so many queries before the rings, which begin at a line of memory: else each line that comes to a
// ring takes two requests.
KITH_HOST_DEVICE constexpr std::size_t few_query_bytes(std::int64_t row_bytes, int queries) {
  return (static_cast<std::size_t>(row_bytes) * static_cast<std::size_t>(queries) + 127) / 128 * 128;
}
// Shared memory of a block for so many queries.
inline std::size_t few_code_bytes(const CodeShape& shape, int queries) {
  return few_query_bytes(shape.row_bytes(), queries) +
         few_code_threads / 32 * few_ring * few_slot_bytes(shape.width);
}

// The list of `group` threads side by side from those of each: the first of all, and the least of the others.
template <int group, class V, class Less>
__device__ void merge_threads(V& first, V& second, std::int64_t& row, const Less& less) {
#pragma unroll
  for (int step = group / 2; step > 0; step /= 2) {
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
