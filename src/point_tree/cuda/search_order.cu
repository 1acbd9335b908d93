// Queries in the order of a curve, of three axes Hilbert's, else Morton's (1966): neighbours in the order are
// neighbours in space, so a warp of 32 walks the tree once, and single walks find their nodes in cache.
#include <cub/device/device_radix_sort.cuh>

#include "cuda/runtime.hpp"
#include "cuda/visit_element.cuh"
#include "distance/cuda/canonical.cuh"
#include "point_tree/cuda/hilbert.cuh"
#include "point_tree/cuda/search_kernels.hpp"

namespace kith::point_tree::cuda {
namespace {

using namespace distance::cuda;

constexpr int threads = 256;
constexpr std::uint32_t last_place = 0x7fffffffU;

unsigned blocks_for(std::int64_t count) {
  return static_cast<unsigned>((count + threads - 1) / threads);
}

// Bit b of ten to bit 3 b.
__device__ std::uint32_t every_third(std::uint32_t bits) {
  bits = (bits | bits << 16U) & 0x030000ffU;
  bits = (bits | bits << 8U) & 0x0300f00fU;
  bits = (bits | bits << 4U) & 0x030c30c3U;
  return (bits | bits << 2U) & 0x09249249U;
}

template <class E>
__global__ void __launch_bounds__(threads)
    place_kernel(const E* queries, std::int64_t stride, std::int64_t dim, std::int64_t count,
                 const CurveBox box, double plain_limit, std::uint32_t* keys, std::uint32_t* order,
                 unsigned long long* usable, const HandedOn others) {
  __shared__ std::uint8_t table[HilbertTable::size];
  load_hilbert(table);
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * threads + threadIdx.x;
  bool plain = i < count;
  if (plain) {
    const E* q = queries + i * stride;
    for (std::int64_t j = 0; j < dim; ++j) plain &= fabs(widen(q[j])) <= plain_limit;  // false for NaN
    std::uint32_t code = 0;
#pragma unroll
    for (int a = 0; a < CurveBox::most_axes; ++a) {
      if (a >= box.axes) break;
      const double at = (widen(q[box.axis[a]]) - box.lower[a]) * box.scale[a];
      const double most = (1 << box.bits) - 1;
      const auto cell = static_cast<std::uint32_t>(fmin(fmax(at, 0.0), most));
      if (box.axes == 3) {
        code |= every_third(cell) << a;
        continue;
      }
      for (int b = 0; b < box.bits; ++b) code |= (cell >> b & 1U) << (b * box.axes + a);
    }
    if (box.axes == 3) code = along_hilbert(code, box.bits, table);
    keys[i] = plain ? code : last_place;
    order[i] = static_cast<std::uint32_t>(i);
    if (!plain && others.count != nullptr) others.queries[atomicAdd(others.count, 1ULL)] = i;
  }
  const int here = __syncthreads_count(plain);
  if (threadIdx.x == 0 && usable != nullptr) atomicAdd(usable, static_cast<unsigned long long>(here));
}

template <class E>
__global__ void __launch_bounds__(threads)
    gather_kernel(const E* queries, std::int64_t stride, int dim, std::int64_t count,
                  const std::uint32_t* order, float4* to) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * threads + threadIdx.x;
  if (i >= count) return;
  const std::uint32_t number = order[i];
  const E* q = queries + static_cast<std::int64_t>(number) * stride;
  to[i] = make_float4(static_cast<float>(widen(q[0])), dim > 1 ? static_cast<float>(widen(q[1])) : 0.0f,
                      dim > 2 ? static_cast<float>(widen(q[2])) : 0.0f, __uint_as_float(number));
}

}  // namespace

std::size_t sort_bytes(std::int64_t count) {
  std::size_t bytes = 0;
  cub::DoubleBuffer<std::uint32_t> keys;
  cub::DoubleBuffer<std::uint32_t> values;
  KITH_CUDA(cub::DeviceRadixSort::SortPairs(nullptr, bytes, keys, values, count, 0, 31));
  return bytes;
}

int order_queries(const DeviceRows& queries, std::int64_t dim, std::int64_t count, const CurveBox& box,
                  double plain_limit, std::uint32_t* keys, std::uint32_t* order, void* sort_space,
                  std::size_t sort_space_bytes, unsigned long long* usable, const HandedOn& others,
                  cudaStream_t stream) {
  if (count == 0) return 0;
  visit_element(queries.dtype, [&]<class E>(E /*tag*/) {
    place_kernel<E><<<blocks_for(count), threads, 0, stream>>>(static_cast<const E*>(queries.data),
                                                               queries.stride, dim, count, box, plain_limit,
                                                               keys, order, usable, others);
    check_launch("place_kernel");
  });
  cub::DoubleBuffer<std::uint32_t> key(keys, keys + count);
  cub::DoubleBuffer<std::uint32_t> value(order, order + count);
  KITH_CUDA(cub::DeviceRadixSort::SortPairs(sort_space, sort_space_bytes, key, value, count, 0, 31, stream));
  return value.selector;
}

void gather_queries(const DeviceRows& queries, std::int64_t dim, std::int64_t count,
                    const std::uint32_t* order, float4* to, cudaStream_t stream) {
  if (count == 0) return;
  visit_element(queries.dtype, [&]<class E>(E /*tag*/) {
    gather_kernel<E><<<blocks_for(count), threads, 0, stream>>>(
        static_cast<const E*>(queries.data), queries.stride, static_cast<int>(dim), count, order, to);
    check_launch("gather_kernel");
  });
}

}  // namespace kith::point_tree::cuda
