// Boxes of rows, and how their axes become codes.
#include <math_constants.h>

#include "point_tree/cuda/build_common.cuh"

namespace kith::point_tree::build_steps {
namespace {

__global__ void empty_boxes_kernel(Bounds* bounds, std::int64_t count) {
  for (std::int64_t i = this_thread(); i < count; i += all_threads()) bounds[i] = {~0ULL, 0ULL};
}

// The least and the largest of a block's threads, to the bounds of all.
template <class T>
__device__ void add_to_bounds(T lower, T upper, Bounds& bounds) {
  constexpr int warps = block_threads / 32;
  __shared__ T least[warps];
  __shared__ T most[warps];
  lower = smallest(lower);
  upper = -smallest(-upper);
  __syncthreads();  // those of the axis before are read
  if (threadIdx.x % 32 == 0) {
    least[threadIdx.x / 32] = lower;
    most[threadIdx.x / 32] = upper;
  }
  __syncthreads();
  if (threadIdx.x >= 32) return;
  lower = smallest(threadIdx.x < warps ? least[threadIdx.x] : static_cast<T>(CUDART_INF));
  upper = -smallest(threadIdx.x < warps ? -most[threadIdx.x] : static_cast<T>(CUDART_INF));
  if (threadIdx.x == 0 && lower <= upper) {
    atomicMin(&bounds.lower, ordered(static_cast<double>(lower)));
    atomicMax(&bounds.upper, ordered(static_cast<double>(upper)));
  }
}

// Of a known dimension D: bounds of all axes in registers. Else a block takes tiles of rows; each thread
// looks at its rows once to see which are finite, then axis by axis, when they are in the first-level cache.
constexpr int rows_a_thread = cuda::constants.box_rows;

template <class T, int D>
__global__ void __launch_bounds__(block_threads) find_box_kernel(Source<T> rows, Bounds* bounds) {
  if constexpr (D > 0) {
    T lower[D];
    T upper[D];
    for (int j = 0; j < D; ++j) {
      lower[j] = static_cast<T>(CUDART_INF);
      upper[j] = -lower[j];
    }
#pragma unroll 4
    for (std::int64_t i = this_thread(); i < rows.rows; i += all_threads()) {
      T value[D];
      bool finite = true;
      for (int j = 0; j < D; ++j) {
        value[j] = rows.data[i * rows.stride + j];
        finite = finite && isfinite(value[j]);
      }
      for (int j = 0; j < D; ++j) {
        lower[j] = finite && value[j] < lower[j] ? value[j] : lower[j];
        upper[j] = finite && value[j] > upper[j] ? value[j] : upper[j];
      }
    }
    for (int j = 0; j < D; ++j) add_to_bounds(lower[j], upper[j], bounds[j]);
  } else {
    constexpr std::int64_t tile = block_threads * rows_a_thread;
    for (std::int64_t first = blockIdx.x * tile; first < rows.rows; first += gridDim.x * tile) {
      unsigned finite = 0;
      for (int r = 0; r < rows_a_thread; ++r) {
        const std::int64_t i = first + r * block_threads + threadIdx.x;
        if (i >= rows.rows) break;
        bool all = true;
        for (std::int64_t j = 0; j < rows.dim; ++j) all = all && isfinite(rows.data[i * rows.stride + j]);
        finite |= (all ? 1U : 0U) << r;
      }
      for (std::int64_t j = 0; j < rows.dim; ++j) {
        T lower = static_cast<T>(CUDART_INF);
        T upper = -lower;
        for (int r = 0; r < rows_a_thread; ++r) {
          if ((finite >> r & 1U) == 0) continue;
          const T v = rows.data[(first + r * block_threads + threadIdx.x) * rows.stride + j];
          lower = v < lower ? v : lower;
          upper = v > upper ? v : upper;
        }
        add_to_bounds(lower, upper, bounds[j]);
      }
    }
  }
}

// One thread a range. The longest side takes the next bit, the first of equals.
__global__ void plan_axes_kernel(const Bounds* bounds, std::int64_t ranges, std::int64_t dim, int bits,
                                 bool cubes, Axis* axes) {
  const std::int64_t range = this_thread();
  if (range >= ranges) return;
  bounds += range * dim;
  axes += range * dim;
  bool halved = false;
  for (std::int64_t j = 0; j < dim; ++j) {
    halved = halved || isinf(from_ordered(bounds[j].upper) - from_ordered(bounds[j].lower));
  }
  double longest = 0;
  for (std::int64_t j = 0; j < dim; ++j) {
    const double lower = from_ordered(bounds[j].lower);
    const double upper = from_ordered(bounds[j].upper);
    // Without a finite row there is no box, and nothing to encode.
    const double extent = !(lower <= upper) ? 0 : (halved ? upper / 2 - lower / 2 : upper - lower);
    axes[j] = {lower, extent, 1, 0, 0, 0, 0, halved};
    longest = fmax(longest, extent);
  }
  for (std::int64_t j = 0; j < dim; ++j) {
    if (cubes) axes[j].extent = longest;
    axes[j].scale = axes[j].extent;  // how wide a cell is, until all bits are given
  }
  if (!(longest > 0)) return;
  for (int bit = bits - 1; bit >= 0; --bit) {
    std::int64_t widest = 0;
    double most = -1;
    for (std::int64_t j = 0; j < dim; ++j) {
      const double width = axes[j].scale;
      if (width > most) {
        most = width;
        widest = j;
      }
    }
    axes[widest].cells *= 2;
    axes[widest].scale /= 2;
    axes[widest].mask |= 1ULL << bit;
  }
  for (std::int64_t j = 0; j < dim; ++j) {
    Axis& axis = axes[j];
    axis.scale = axis.cells / axis.extent;
    if (dim > 3 || axis.mask == 0) continue;
    axis.first = __ffsll(static_cast<long long>(axis.mask)) - 1;
    const int most = dim == 3 ? 21 : (dim == 2 ? 31 : 63);
    // The lowest bits that are left, as long as they are where a regular one would be.
    while (axis.regular < most && axis.mask != 0 &&
           __ffsll(static_cast<long long>(axis.mask)) - 1 ==
               axis.first + axis.regular * static_cast<int>(dim)) {
      axis.mask &= axis.mask - 1;
      ++axis.regular;
    }
  }
}

// A warp takes points that follow each other. Those of one range meet in registers first, since a range may
// hold most of the points.
constexpr int steps_a_warp = cuda::constants.box_steps;

template <class T, class Id>
__global__ void __launch_bounds__(block_threads)
    find_boxes_kernel(Source<T> rows, const Id* numbers, const Range<Id>* refined, std::int64_t ranges,
                      std::int64_t points, Bounds* bounds) {
  constexpr std::int64_t chunk = 32 * steps_a_warp;
  const std::int64_t begin = this_thread() / 32 * chunk;
  if (begin >= points) return;
  const std::int64_t end = begin + chunk < points ? begin + chunk : points;
  const std::int64_t lane = threadIdx.x % 32;
  const bool one = range_of(refined, ranges, begin) == range_of(refined, ranges, end - 1);
  for (std::int64_t j = 0; j < rows.dim; ++j) {
    double lower = CUDART_INF;
    double upper = -CUDART_INF;
    std::int64_t number = 0;
    for (std::int64_t i = begin + lane; i < end; i += 32) {
      number = range_of(refined, ranges, i);
      const Range<Id> range = refined[number];
      const auto row = static_cast<std::int64_t>(
          numbers[static_cast<std::int64_t>(range.begin) + i - static_cast<std::int64_t>(range.offset)]);
      const auto value = static_cast<double>(rows.data[row * rows.stride + j]);
      if (one) {
        lower = fmin(lower, value);
        upper = fmax(upper, value);
      } else {
        atomicMin(&bounds[number * rows.dim + j].lower, ordered(value));
        atomicMax(&bounds[number * rows.dim + j].upper, ordered(value));
      }
    }
    if (!one) continue;
    lower = smallest(lower);
    upper = -smallest(-upper);
    if (lane == 0) {
      atomicMin(&bounds[number * rows.dim + j].lower, ordered(lower));
      atomicMax(&bounds[number * rows.dim + j].upper, ordered(upper));
    }
  }
}

}  // namespace

template <class T>
void find_box(const Source<T>& rows, Bounds* bounds, int device, cudaStream_t stream) {
  empty_boxes_kernel<<<blocks_for(rows.dim), block_threads, 0, stream>>>(bounds, rows.dim);
  cuda::check_launch("empty_boxes");
  const unsigned tiles = blocks_for(rows.rows, block_threads * rows_a_thread);
  const auto resident =
      static_cast<unsigned>(cuda::processors(device)) * cuda::policy_of(device).build_blocks;
  if (rows.dim == 3) {
    find_box_kernel<T, 3><<<std::min(tiles, resident), block_threads, 0, stream>>>(rows, bounds);
  } else {
    find_box_kernel<T, 0><<<std::min(tiles, resident), block_threads, 0, stream>>>(rows, bounds);
  }
  cuda::check_launch("find_box");
}

void plan_axes(const Bounds* bounds, std::int64_t ranges, std::int64_t dim, int bits, bool cubes, Axis* axes,
               cudaStream_t stream) {
  plan_axes_kernel<<<blocks_for(ranges, 64), 64, 0, stream>>>(bounds, ranges, dim, bits, cubes, axes);
  cuda::check_launch("plan_axes");
}

template <class T, class Id>
void find_boxes(const Source<T>& rows, const Id* numbers, const Range<Id>* refined, std::int64_t ranges,
                std::int64_t points, Bounds* bounds, cudaStream_t stream) {
  empty_boxes_kernel<<<std::min(blocks_for(ranges * rows.dim), 1U << 16U), block_threads, 0, stream>>>(
      bounds, ranges * rows.dim);
  cuda::check_launch("empty_boxes");
  find_boxes_kernel<<<blocks_for(points, block_threads * steps_a_warp), block_threads, 0, stream>>>(
      rows, numbers, refined, ranges, points, bounds);
  cuda::check_launch("find_boxes");
}

#define KITH_FOR_BOTH(T, Id)                                                                                 \
  template void find_boxes<T, Id>(const Source<T>&, const Id*, const Range<Id>*, std::int64_t, std::int64_t, \
                                  Bounds*, cudaStream_t);
KITH_FOR_BOTH(float, std::uint32_t)
KITH_FOR_BOTH(float, std::int64_t)
KITH_FOR_BOTH(double, std::uint32_t)
KITH_FOR_BOTH(double, std::int64_t)
template void find_box<float>(const Source<float>&, Bounds*, int, cudaStream_t);
template void find_box<double>(const Source<double>&, Bounds*, int, cudaStream_t);

}  // namespace kith::point_tree::build_steps
