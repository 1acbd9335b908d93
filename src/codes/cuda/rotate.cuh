// Rows of u8, centred and rotated by a block: RabitqWorker::rotate and Rotation::apply, operation by
// operation, in files that are compiled without fused ones.
#pragma once

#include <cstdint>

#include "codes/cuda/quantized.hpp"
#include "codes/cuda/row_sums.cuh"

namespace kith::codes::cuda {
namespace {

constexpr int rabitq_threads = 128;  // of the block

// Rotation::transform of `count` values, a power of two, by the block.
__device__ void transform(double* values, std::int64_t count, double scale) {
  for (std::int64_t half = 1; half < count; half *= 2) {
    for (std::int64_t i = threadIdx.x; i < count / 2; i += rabitq_threads) {
      double* a = values + (2 * i - (i & (half - 1)));
      double* b = a + half;
      const double first = *a;
      const double second = *b;
      *a = first + second;
      *b = first - second;
    }
    __syncthreads();
  }
  for (std::int64_t i = threadIdx.x; i < count; i += rabitq_threads) values[i] *= scale;
  __syncthreads();
}

/// A row's D values, and as much memory for others.
struct Rotated {
  double* values;
  double* other;
};

/// All threads together. @param memory for 2 D values
__device__ Rotated rotate(const RabitqView& space, const unsigned char* row, double* memory) {
  const std::int64_t dim = std::int64_t{space.shape.blocks} * block_values;
  const int tid = static_cast<int>(threadIdx.x);
  double* values = memory;
  double* other = memory + dim;
  for (std::int64_t i = tid; i < dim; i += rabitq_threads) {
    values[i] = i < space.dim ? static_cast<double>(row[i]) - space.mean[i] : 0.0;
  }
  __syncthreads();
  for (int round = 0; round < space.rounds; ++round) {
    const std::uint32_t* from = space.from + round * dim;
    const double* sign = space.sign + round * dim;
    for (std::int64_t i = tid; i < dim; i += rabitq_threads) other[i] = values[from[i]] * sign[i];
    __syncthreads();
    transform(other, space.width, space.scale);
    if (space.width < dim) transform(other + dim - space.width, space.width, space.scale);
    double* const before = values;
    values = other;
    other = before;
  }
  return {values, other};
}

}  // namespace
}  // namespace kith::codes::cuda
