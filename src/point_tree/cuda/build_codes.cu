// Rows to codes.
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

template <class T, class Id>
void encode(const Source<T>& rows, const Axis* axes, int bits, std::uint64_t* keys, Id* numbers,
            Counts* counts, int device, cudaStream_t stream) {
  const unsigned blocks = std::min(blocks_for(rows.rows), static_cast<unsigned>(cuda::processors(device)) *
                                                              cuda::policy_of(device).build_blocks);
  if (rows.dim == 3) {
    encode_kernel<T, Id, 3><<<blocks, block_threads, 0, stream>>>(rows, axes, bits, keys, numbers, counts);
  } else {
    encode_kernel<T, Id, 0><<<blocks, block_threads, 0, stream>>>(rows, axes, bits, keys, numbers, counts);
  }
  cuda::check_launch("encode");
}

template <class T, class Id>
void compare(const Source<T>& rows, const Id* numbers, const Range<Id>* stuck, std::int64_t ranges,
             std::int64_t points, unsigned char* different, cudaStream_t stream) {
  compare_kernel<<<blocks_for(points), block_threads, 0, stream>>>(rows, numbers, stuck, ranges, points,
                                                                   different);
  cuda::check_launch("compare");
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

#define KITH_FOR_ID(Id) \
  template void scatter<Id>(const Id*, const Range<Id>*, std::int64_t, std::int64_t, Id*, cudaStream_t);
#define KITH_FOR_BOTH(T, Id)                                                                              \
  template void encode<T, Id>(const Source<T>&, const Axis*, int, std::uint64_t*, Id*, Counts*, int,      \
                              cudaStream_t);                                                              \
  template void compare<T, Id>(const Source<T>&, const Id*, const Range<Id>*, std::int64_t, std::int64_t, \
                               unsigned char*, cudaStream_t);                                             \
  template void encode_ranges<T, Id>(const Source<T>&, const Id*, const Range<Id>*, std::int64_t,         \
                                     std::int64_t, const Axis*, int, std::uint64_t*, Id*, cudaStream_t);
KITH_FOR_ID(std::uint32_t)
KITH_FOR_ID(std::int64_t)
KITH_FOR_BOTH(float, std::uint32_t)
KITH_FOR_BOTH(float, std::int64_t)
KITH_FOR_BOTH(double, std::uint32_t)
KITH_FOR_BOTH(double, std::int64_t)

}  // namespace kith::point_tree::build_steps
