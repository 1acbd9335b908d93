// Queries of RaBitQ and PQ codes: the operations of their workers one by one, none fused (-fmad=false).
#include <algorithm>

#include "codes/cuda/quantized.hpp"
#include "codes/cuda/rotate.cuh"
#include "cuda/runtime.hpp"

namespace kith::codes::cuda {
namespace {

using kith::cuda::check_launch;

constexpr std::int64_t most_parts = 16;  // blocks that make a query's tables

__global__ void __launch_bounds__(rabitq_threads)
    rabitq_kernel(const __grid_constant__ RabitqView space, const __grid_constant__ QuantizedQueries queries,
                  double* scratch, unsigned char* rounded, RabitqQuery* scalars) {
  extern __shared__ double shared[];
  __shared__ double sum;
  __shared__ unsigned long long bits;
  const std::int64_t q = blockIdx.x;
  if (queries.usable[q] == 0) return;
  const int tid = static_cast<int>(threadIdx.x);
  const std::int64_t dim = std::int64_t{space.shape.blocks} * block_values;
  double* const memory = scratch == nullptr ? shared : scratch + q * 2 * dim;
  const Rotated rotated = rotate(space, queries.rows + q * queries.stride, memory);
  const double* values = rotated.values;
  double* other = rotated.other;

  const double norm = root(sum_of_squares(values, dim, &sum));
  const std::int64_t weight = ((std::int64_t{1} << space.shape.bits) - 1) * dim;
  const std::int64_t widest = 0x7FFFFFFF / weight;
  const auto range = static_cast<double>(widest < 32767 ? widest : 32767);
  const double largest = largest_of(values, dim, &bits);
  const double step = largest > 0 ? largest / range : 0;
  if (tid == 0) bits = 0;
  __syncthreads();
  unsigned char* out = rounded + q * space.shape.blocks * block_bytes;
  std::int64_t total = 0;
  for (std::int64_t i = tid; i < dim; i += rabitq_threads) {
    double steps = 0;
    if (step > 0) {
      steps = rint(values[i] / step);
      steps = steps < -range ? -range : steps;
      steps = range < steps ? range : steps;
    }
    const auto value = static_cast<std::int16_t>(steps);
    reinterpret_cast<std::int16_t*>(out + i / block_values * block_bytes)[i % block_values] = value;
    total += value;
    const double difference = values[i] - steps * step;
    other[i] = difference * difference;
  }
  // What is behind a block is copied with it.
  constexpr int behind = (block_bytes - 2 * block_values) / 4;
  for (int i = tid; i < space.shape.blocks * behind; i += rabitq_threads) {
    reinterpret_cast<std::uint32_t*>(out + i / behind * block_bytes + 2 * block_values)[i % behind] = 0;
  }
  atomicAdd(&bits, static_cast<unsigned long long>(total));
  __syncthreads();
  if (tid != 0) return;
  double residual = 0;  // one after the other, as the host has it
  for (std::int64_t i = 0; i < dim; ++i) residual += other[i];
  const double middle = static_cast<double>((std::int64_t{1} << space.shape.bits) - 1) / 2;
  RabitqQuery made;
  made.step = step;
  made.shift = middle * static_cast<double>(static_cast<long long>(bits));
  made.norm = norm;
  made.residual = root(residual);
  scalars[q] = made;
}

// A centroid a thread; block y of a query makes every y-th table.
__global__ void __launch_bounds__(table_entries)
    pq_kernel(const __grid_constant__ PqView space, const __grid_constant__ QuantizedQueries queries,
              float* tables) {
  const std::int64_t q = blockIdx.x;
  if (queries.usable[q] == 0) return;
  const unsigned char* row = queries.rows + q * queries.stride;
  const std::int64_t centroid = min(static_cast<std::int64_t>(threadIdx.x), space.count - 1);
  for (std::int64_t j = blockIdx.y; j < space.subspaces; j += gridDim.y) {
    float sum = 0;
    for (std::int64_t d = space.starts[j]; d < space.starts[j + 1]; ++d) {
      const auto value = static_cast<float>(static_cast<double>(row[d]) - space.mean[d]);
      const float difference = value - space.centroids[d * space.padded_count + centroid];
      sum += difference * difference;
    }
    tables[(q * space.subspaces + j) * table_entries + threadIdx.x] = sum;
  }
}

}  // namespace

void prepare(const RabitqView& space, const QuantizedQueries& queries, double* scratch,
             unsigned char* rounded, RabitqQuery* scalars, cudaStream_t stream) {
  if (queries.count == 0) return;
  const std::int64_t dim = std::int64_t{space.shape.blocks} * block_values;
  const bool in_shared = scratch_values(space.shape) == 0;
  const std::size_t bytes = in_shared ? static_cast<std::size_t>(2 * dim) * sizeof(double) : 0;
  rabitq_kernel<<<static_cast<unsigned>(queries.count), rabitq_threads, bytes, stream>>>(
      space, queries, in_shared ? nullptr : scratch, rounded, scalars);
  check_launch("rabitq_kernel");
}

void prepare(const PqView& space, const QuantizedQueries& queries, float* tables, cudaStream_t stream) {
  if (queries.count == 0) return;
  const dim3 grid(static_cast<unsigned>(queries.count),
                  static_cast<unsigned>(std::min(space.subspaces, most_parts)));
  pq_kernel<<<grid, table_entries, 0, stream>>>(space, queries, tables);
  check_launch("pq_kernel");
}

}  // namespace kith::codes::cuda
