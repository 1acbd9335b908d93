// Rows to sorted codes.
#include <math_constants.h>

#include <cub/device/device_radix_sort.cuh>

#include "cuda/visit_element.cuh"
#include "point_tree/cuda/build_common.cuh"
#include "point_tree/cuda/hilbert.cuh"
#include "point_tree/morton.hpp"

namespace kith::point_tree::build_steps {
namespace {

template <class From, class T>
__global__ void convert_kernel(const From* from, std::int64_t stride, std::int64_t rows, std::int64_t dim,
                               T* to) {
  for (std::int64_t i = this_thread(); i < rows * dim; i += all_threads()) {
    to[i] = static_cast<T>(from[i / dim * stride + i % dim]);
  }
}

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
constexpr int rows_a_thread = 16;

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

// The cell of a value, and its bits where the axis has them. Monotone, and the ends of the widest axis are in
// different cells, so that each round divides what it is given.
__device__ std::uint64_t code_of(double value, const Axis& axis, std::int64_t dim) {
  std::uint64_t mask = axis.mask;
  const int regular = axis.regular;
  if (mask == 0 && regular == 0) return 0;
  const double from = axis.halved ? value / 2 - axis.lower / 2 : value - axis.lower;
  const double at = isinf(axis.scale) ? from / axis.extent * axis.cells : from * axis.scale;
  auto cell = static_cast<std::uint64_t>(fmin(at, axis.cells - 1));
  std::uint64_t code = 0;
  if (regular > 0) {
    const std::uint64_t low = cell & ((std::uint64_t{1} << regular) - 1);
    code = spread_bits(low, dim) << axis.first;
    cell >>= regular;
  }
  while (mask != 0) {
    const std::uint64_t bit = mask & (0 - mask);
    if ((cell & 1U) != 0) code |= bit;
    cell >>= 1U;
    mask ^= bit;
  }
  return code;
}

template <class T>
__device__ std::uint64_t code_of(const Source<T>& rows, std::int64_t row, const Axis* axes) {
  std::uint64_t code = 0;
  for (std::int64_t j = 0; j < rows.dim; ++j) {
    code |= code_of(static_cast<double>(rows.data[row * rows.stride + j]), axes[j], rows.dim);
  }
  return code;
}

// With D the dimension is known: axes stay in registers while a thread takes several rows.
template <class T, class Id, int D>
__global__ void __launch_bounds__(block_threads)
    encode_kernel(Source<T> rows, const Axis* axes, int bits, std::uint64_t* keys, Id* numbers,
                  Counts* counts) {
  constexpr int held = D > 0 ? D : 1;
  Axis mine[held];
  for (int j = 0; j < D; ++j) mine[j] = axes[j];
  // Digits of three axes, where they are regular, follow a Hilbert curve: leaves that follow each other then
  // lie side by side, and with them the queries of a group.
  [[maybe_unused]] __shared__ std::uint8_t table[HilbertTable::size];
  [[maybe_unused]] int digits = 0;
  if constexpr (D == 3) {
    load_hilbert(table);
    if ((1ULL << mine[0].first | 1ULL << mine[1].first | 1ULL << mine[2].first) == 7)
      digits = min(mine[0].regular, min(mine[1].regular, mine[2].regular));
  }
  for (std::int64_t i = this_thread(); i < rows.rows; i += all_threads()) {
    const T* row = rows.data + i * rows.stride;
    bool nan = false;
    bool infinite = false;
    std::uint64_t key = 0;
    if constexpr (D > 0) {
      T value[held];
#pragma unroll
      for (int j = 0; j < D; ++j) value[j] = row[j];
#pragma unroll
      for (int j = 0; j < D; ++j) {
        nan = nan || isnan(value[j]);
        infinite = infinite || isinf(value[j]);
        key |= code_of(static_cast<double>(value[j]), mine[j], D);
      }
      if constexpr (D == 3) key = along_hilbert(key, digits, table);
    } else {
      for (std::int64_t j = 0; j < rows.dim; ++j) {
        nan = nan || isnan(row[j]);
        infinite = infinite || isinf(row[j]);
      }
      if (!nan && !infinite) key = code_of(rows, i, axes);
    }
    if (nan || infinite) {
      key = (std::uint64_t{1} << bits) + (nan ? 1 : 0);
      atomicAdd(nan ? &counts->nan_rows : &counts->infinite_rows, 1ULL);
    }
    keys[i] = key;
    numbers[i] = static_cast<Id>(i);
  }
}

template <class T, class Id>
__global__ void __launch_bounds__(block_threads)
    compare_kernel(Source<T> rows, const Id* numbers, const Range<Id>* stuck, std::int64_t ranges,
                   std::int64_t points, unsigned char* different) {
  const std::int64_t i = this_thread();
  if (i >= points) return;
  const std::int64_t number = range_of(stuck, ranges, i);
  const Range<Id> range = stuck[number];
  const auto begin = static_cast<std::int64_t>(range.begin);
  const auto row = static_cast<std::int64_t>(numbers[begin + i - static_cast<std::int64_t>(range.offset)]);
  const auto first = static_cast<std::int64_t>(numbers[begin]);
  for (std::int64_t j = 0; j < rows.dim; ++j) {
    if (rows.data[row * rows.stride + j] != rows.data[first * rows.stride + j]) {
      different[number] = 1;
      return;
    }
  }
}

// A warp takes points that follow each other. Those of one range meet in registers first, since a range may
// hold most of the points.
constexpr int steps_a_warp = 16;

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

template <class T, class Id>
__global__ void __launch_bounds__(block_threads)
    encode_ranges_kernel(Source<T> rows, const Id* numbers, const Range<Id>* refined, std::int64_t ranges,
                         std::int64_t points, const Axis* axes, int bits, std::uint64_t* keys, Id* values) {
  const std::int64_t i = this_thread();
  if (i >= points) return;
  const std::int64_t number = range_of(refined, ranges, i);
  const Range<Id> range = refined[number];
  const Id row =
      numbers[static_cast<std::int64_t>(range.begin) + i - static_cast<std::int64_t>(range.offset)];
  keys[i] = static_cast<std::uint64_t>(number) << bits |
            code_of(rows, static_cast<std::int64_t>(row), axes + number * rows.dim);
  values[i] = row;
}

template <class Id>
__global__ void __launch_bounds__(block_threads)
    scatter_kernel(const Id* sorted, const Range<Id>* refined, std::int64_t ranges, std::int64_t points,
                   Id* numbers) {
  const std::int64_t i = this_thread();
  if (i >= points) return;
  const Range<Id> range = refined[range_of(refined, ranges, i)];
  numbers[static_cast<std::int64_t>(range.begin) + i - static_cast<std::int64_t>(range.offset)] = sorted[i];
}

// CUB counts in 32 bits where that is enough.
template <class Id>
using SortCount = std::conditional_t<sizeof(Id) == 4, std::uint32_t, std::int64_t>;

template <class Id>
cudaError_t sort_with(void* temporary, std::size_t& bytes, cub::DoubleBuffer<std::uint64_t>& keys,
                      cub::DoubleBuffer<Id>& values, std::int64_t count, int bits, cudaStream_t stream) {
  return cub::DeviceRadixSort::SortPairs(temporary, bytes, keys, values, static_cast<SortCount<Id>>(count), 0,
                                         bits, stream);
}

}  // namespace

void convert(const DatasetView& rows, void* to, cudaStream_t stream) {
  cuda::visit_element(rows.dtype, [&]<class From>(From /*tag*/) {
    using T = std::conditional_t<std::is_same_v<From, double>, double, float>;
    const std::int64_t values = rows.rows * rows.dim;
    convert_kernel<<<std::min(blocks_for(values), 1U << 16U), block_threads, 0, stream>>>(
        static_cast<const From*>(rows.data), rows.row_stride, rows.rows, rows.dim, static_cast<T*>(to));
    cuda::check_launch("convert");
  });
}

template <class T>
void find_box(const Source<T>& rows, Bounds* bounds, int device, cudaStream_t stream) {
  empty_boxes_kernel<<<blocks_for(rows.dim), block_threads, 0, stream>>>(bounds, rows.dim);
  cuda::check_launch("empty_boxes");
  const unsigned tiles = blocks_for(rows.rows, block_threads * rows_a_thread);
  const auto resident = static_cast<unsigned>(cuda::processors(device)) * 8;
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
void encode(const Source<T>& rows, const Axis* axes, int bits, std::uint64_t* keys, Id* numbers,
            Counts* counts, int device, cudaStream_t stream) {
  const unsigned blocks =
      std::min(blocks_for(rows.rows), static_cast<unsigned>(cuda::processors(device)) * 8);
  if (rows.dim == 3) {
    encode_kernel<T, Id, 3><<<blocks, block_threads, 0, stream>>>(rows, axes, bits, keys, numbers, counts);
  } else {
    encode_kernel<T, Id, 0><<<blocks, block_threads, 0, stream>>>(rows, axes, bits, keys, numbers, counts);
  }
  cuda::check_launch("encode");
}

template <class Id>
std::size_t sort_bytes(std::int64_t count, int bits) {
  cub::DoubleBuffer<std::uint64_t> keys;
  cub::DoubleBuffer<Id> values;
  std::size_t bytes = 0;
  KITH_CUDA(sort_with(nullptr, bytes, keys, values, count, bits, nullptr));
  return bytes;
}

template <class Id>
int sort(std::uint64_t* const keys[2], Id* const values[2], std::int64_t count, int bits, void* temporary,
         std::size_t temporary_bytes, cudaStream_t stream) {
  cub::DoubleBuffer<std::uint64_t> key_buffers(keys[0], keys[1]);
  cub::DoubleBuffer<Id> value_buffers(values[0], values[1]);
  KITH_CUDA(sort_with(temporary, temporary_bytes, key_buffers, value_buffers, count, bits, stream));
  // CUB swaps both or neither.
  return key_buffers.selector;
}

template <class T, class Id>
void compare(const Source<T>& rows, const Id* numbers, const Range<Id>* stuck, std::int64_t ranges,
             std::int64_t points, unsigned char* different, cudaStream_t stream) {
  compare_kernel<<<blocks_for(points), block_threads, 0, stream>>>(rows, numbers, stuck, ranges, points,
                                                                   different);
  cuda::check_launch("compare");
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

template <class T, class Id>
void encode_ranges(const Source<T>& rows, const Id* numbers, const Range<Id>* refined, std::int64_t ranges,
                   std::int64_t points, const Axis* axes, int bits, std::uint64_t* keys, Id* values,
                   cudaStream_t stream) {
  encode_ranges_kernel<<<blocks_for(points), block_threads, 0, stream>>>(rows, numbers, refined, ranges,
                                                                         points, axes, bits, keys, values);
  cuda::check_launch("encode_ranges");
}

template <class Id>
void scatter(const Id* sorted, const Range<Id>* refined, std::int64_t ranges, std::int64_t points,
             Id* numbers, cudaStream_t stream) {
  scatter_kernel<<<blocks_for(points), block_threads, 0, stream>>>(sorted, refined, ranges, points, numbers);
  cuda::check_launch("scatter");
}

#define KITH_FOR_ID(Id)                                                                               \
  template std::size_t sort_bytes<Id>(std::int64_t, int);                                             \
  template int sort<Id>(std::uint64_t* const[2], Id* const[2], std::int64_t, int, void*, std::size_t, \
                        cudaStream_t);                                                                \
  template void scatter<Id>(const Id*, const Range<Id>*, std::int64_t, std::int64_t, Id*, cudaStream_t);
#define KITH_FOR_BOTH(T, Id)                                                                                 \
  template void encode<T, Id>(const Source<T>&, const Axis*, int, std::uint64_t*, Id*, Counts*, int,         \
                              cudaStream_t);                                                                 \
  template void compare<T, Id>(const Source<T>&, const Id*, const Range<Id>*, std::int64_t, std::int64_t,    \
                               unsigned char*, cudaStream_t);                                                \
  template void find_boxes<T, Id>(const Source<T>&, const Id*, const Range<Id>*, std::int64_t, std::int64_t, \
                                  Bounds*, cudaStream_t);                                                    \
  template void encode_ranges<T, Id>(const Source<T>&, const Id*, const Range<Id>*, std::int64_t,            \
                                     std::int64_t, const Axis*, int, std::uint64_t*, Id*, cudaStream_t);
KITH_FOR_ID(std::uint32_t)
KITH_FOR_ID(std::int64_t)
KITH_FOR_BOTH(float, std::uint32_t)
KITH_FOR_BOTH(float, std::int64_t)
KITH_FOR_BOTH(double, std::uint32_t)
KITH_FOR_BOTH(double, std::int64_t)
template void find_box<float>(const Source<float>&, Bounds*, int, cudaStream_t);
template void find_box<double>(const Source<double>&, Bounds*, int, cudaStream_t);

}  // namespace kith::point_tree::build_steps
