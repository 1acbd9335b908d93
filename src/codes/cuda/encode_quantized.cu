// RaBitQ and PQ codes of rows: the operations of their workers one by one, none fused (-fmad=false).
#include <math_constants.h>

#include "codes/cuda/quantized.hpp"
#include "codes/cuda/rotate.cuh"
#include "cuda/runtime.hpp"

namespace kith::codes::cuda {
namespace {

using kith::cuda::check_launch;

constexpr int groups = rabitq_threads / canonical_lanes;

// Scales that RabitqWorker::best_scale tries, first far apart, then near the best of these.
constexpr int coarse_scales = 13;
constexpr int fine_steps = 7;
constexpr double quarter = 0x1.306fe0a31b715p0;        // 2^(1/4)
constexpr double thirty_second = 0x1.059b0d3158574p0;  // 2^(1/32)
static_assert(coarse_scales <= groups && 2 * fine_steps <= groups);

struct Fit {
  double product;
  double square;
};

// RabitqKernels::fit by the eight threads of a group, the same in all of them. All groups together.
__device__ Fit fit(const double* magnitudes, std::int64_t count, double inverse, double top) {
  double product = 0;
  double square = 0;
  for (std::int64_t i = threadIdx.x % canonical_lanes; i < count; i += canonical_lanes) {
    double step = magnitudes[i] * inverse;
    step = step < top ? step : top;
    const double middle = static_cast<double>(static_cast<int>(step)) + 0.5;
    product += middle * magnitudes[i];
    square += middle * middle;
  }
  product = canonical_reduce(product);
  square = canonical_reduce(square);
  return {product, square};
}

// The best of scales so far.
struct Best {
  double scale;
  Fit fit;

  __device__ void consider(double its, const Fit& other) {
    // By the cosine: product / sqrt(square).
    if (other.product * other.product * fit.square > fit.product * fit.product * other.square) {
      fit = other;
      scale = its;
    }
  }
};

// RabitqWorker::best_scale of magnitudes up to 1: a group of threads a scale, and all judge them in its
// order.
__device__ double best_scale(const double* magnitudes, std::int64_t count, double top, double* scales,
                             Fit* fits) {
  const int group = static_cast<int>(threadIdx.x) / canonical_lanes;
  const bool first = threadIdx.x % canonical_lanes == 0;
  const double start = top + 1;
  if (top == 0) return start;
  double scale = start;
  for (int i = 0; i < group && i < coarse_scales - 1; ++i) scale *= quarter;
  Fit its = fit(magnitudes, count, scale, top);
  __syncthreads();
  if (first) {
    scales[group] = scale;
    fits[group] = its;
  }
  __syncthreads();
  Best best{start, {0, 1}};
  for (int i = 0; i < coarse_scales; ++i) best.consider(scales[i], fits[i]);
  __syncthreads();
  // Above and below in turns.
  scale = best.scale;
  for (int i = 0; i <= group / 2 && i < fine_steps; ++i) {
    scale = group % 2 == 0 ? scale * thirty_second : scale / thirty_second;
  }
  its = fit(magnitudes, count, scale, top);
  if (first) {
    scales[group] = scale;
    fits[group] = its;
  }
  __syncthreads();
  for (int i = 0; i < 2 * fine_steps; ++i) best.consider(scales[i], fits[i]);
  __syncthreads();
  return best.scale;
}

__global__ void __launch_bounds__(rabitq_threads)
    encode_rabitq_kernel(const __grid_constant__ RabitqView space, const __grid_constant__ RowsToEncode rows,
                         double* scratch, std::uint32_t* codes) {
  extern __shared__ double shared[];
  __shared__ double sum, scales[groups];
  __shared__ Fit fits[groups];
  __shared__ unsigned long long most;
  const std::int64_t row = blockIdx.x;
  const int tid = static_cast<int>(threadIdx.x);
  const int bits = space.shape.bits;
  const std::int64_t dim = std::int64_t{space.shape.blocks} * block_values;
  const std::int64_t words = 3 + std::int64_t{space.shape.blocks} * bits;
  double* const memory = scratch == nullptr ? shared : scratch + row * 2 * dim;
  const Rotated rotated = rotate(space, rows.rows + row * rows.stride, memory);
  const double* values = rotated.values;
  double* magnitudes = rotated.other;
  std::uint32_t* code = codes + row * words;

  const double square = sum_of_squares(values, dim, &sum);
  const double largest = largest_of(values, dim, &most);
  if (!(square > 0)) {  // at the mean
    for (std::int64_t i = tid; i < words; i += rabitq_threads) code[i] = 0;
    return;
  }
  for (std::int64_t i = tid; i < dim; i += rabitq_threads) magnitudes[i] = fabs(values[i]) / largest;
  __syncthreads();
  const double top = static_cast<double>((std::int64_t{1} << (bits - 1)) - 1);
  const double scale = best_scale(magnitudes, dim, top, scales, fits);
  const Fit its = fit(magnitudes, dim, scale, top);
  const double unit = sum_of_squares(magnitudes, dim, &sum);  // |y / largest|^2
  if (tid == 0) {
    const double missing = its.square * unit / (its.product * its.product) - 1;
    const double tangent = root(missing > 0 ? missing : 0.0);
    const double spread = root(square) * tangent / root(static_cast<double>(dim - 1));
    code[0] = __float_as_uint(static_cast<float>(square));
    code[1] = __float_as_uint(static_cast<float>(unit / its.product * largest));
    code[2] = __float_as_uint(__double2float_ru(spread));
  }
  // A warp has the 32 values of a block, whose planes are votes.
  const std::uint32_t half = 1U << static_cast<unsigned>(bits - 1);
  for (int b = tid / 32; b < space.shape.blocks; b += rabitq_threads / 32) {
    const int i = b * block_values + tid % 32;
    const double steps = magnitudes[i] * scale;
    const auto magnitude = static_cast<std::uint32_t>(steps < top ? steps : top);
    const std::uint32_t u = signbit(values[i]) ? half - 1 - magnitude : half + magnitude;
    for (int bit = 0; bit < bits; ++bit) {
      const unsigned plane = __ballot_sync(0xffffffffU, u >> bit & 1U);
      if (tid % 32 == bit) code[3 + b * bits + bit] = plane;
    }
  }
}

constexpr int pq_threads = 128;
constexpr int together = 8;  // centroids that a thread compares with its row at once

// Values of rows as floats, less the mean, dimension after dimension.
__global__ void __launch_bounds__(pq_threads)
    center_kernel(const __grid_constant__ PqView space, const __grid_constant__ RowsToEncode rows,
                  float* values) {
  const std::int64_t d = blockIdx.y;
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * pq_threads + threadIdx.x;
  if (row >= rows.count) return;
  values[d * rows.count + row] =
      static_cast<float>(static_cast<double>(rows.rows[row * rows.stride + d]) - space.mean[d]);
}

// The nearest centroid of a row's part, a thread for each: the lowest of those equally near.
__global__ void __launch_bounds__(pq_threads)
    encode_pq_kernel(const __grid_constant__ PqView space, const float* values, std::int64_t count,
                     unsigned char* codes) {
  const std::int64_t j = blockIdx.y;
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * pq_threads + threadIdx.x;
  if (row >= count) return;
  const std::int64_t begin = space.starts[j];
  const std::int64_t end = space.starts[j + 1];
  float least = CUDART_INF_F;
  std::int64_t nearest = 0;
  for (std::int64_t c = 0; c < space.count; c += together) {
    float sums[together] = {};
    for (std::int64_t d = begin; d < end; ++d) {
      const float value = values[d * count + row];
      const auto* its = reinterpret_cast<const float4*>(space.centroids + d * space.padded_count + c);
      const float4 low = __ldg(its);
      const float4 high = __ldg(its + 1);
      const float eight[together] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
      for (int l = 0; l < together; ++l) {
        const float difference = value - eight[l];
        sums[l] += difference * difference;
      }
    }
#pragma unroll
    for (int l = 0; l < together; ++l) {
      if (!(sums[l] < least)) continue;
      least = sums[l];
      nearest = c + l;
    }
  }
  codes[row * space.subspaces + j] = static_cast<unsigned char>(nearest);
}

}  // namespace

void encode(const RabitqView& space, const RowsToEncode& rows, double* scratch, std::uint32_t* codes,
            cudaStream_t stream) {
  if (rows.count == 0) return;
  const std::int64_t dim = std::int64_t{space.shape.blocks} * block_values;
  const bool in_shared = scratch_values(space.shape) == 0;
  const std::size_t bytes = in_shared ? static_cast<std::size_t>(2 * dim) * sizeof(double) : 0;
  encode_rabitq_kernel<<<static_cast<unsigned>(rows.count), rabitq_threads, bytes, stream>>>(
      space, rows, in_shared ? nullptr : scratch, codes);
  check_launch("encode_rabitq_kernel");
}

void encode(const PqView& space, const RowsToEncode& rows, float* scratch, unsigned char* codes,
            cudaStream_t stream) {
  if (rows.count == 0) return;
  const auto blocks = static_cast<unsigned>((rows.count + pq_threads - 1) / pq_threads);
  center_kernel<<<dim3(blocks, static_cast<unsigned>(space.dim)), pq_threads, 0, stream>>>(space, rows,
                                                                                           scratch);
  check_launch("center_kernel");
  encode_pq_kernel<<<dim3(blocks, static_cast<unsigned>(space.subspaces)), pq_threads, 0, stream>>>(
      space, scratch, rows.count, codes);
  check_launch("encode_pq_kernel");
}

}  // namespace kith::codes::cuda
