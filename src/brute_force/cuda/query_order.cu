// Queries in the order of their thresholds, for the filter of many queries (wide_filter.hpp). Any order finds
// the same; the nearer the thresholds of sixteen neighbours, the fewer products are looked at in vain.
#include <cub/device/device_radix_sort.cuh>

#include "brute_force/cuda/bound.cuh"
#include "brute_force/cuda/scores.cuh"
#include "brute_force/cuda/wide_filter.hpp"
#include "cuda/runtime.hpp"

namespace kith::brute_force::cuda {
namespace {

constexpr int threads = 256;
constexpr int key_bits = 16;  // finer than the thresholds of neighbours are apart

unsigned blocks_for(std::int64_t count) {
  return static_cast<unsigned>((count + threads - 1) / threads);
}

// Of a threshold, which is between -2^shift and 2^shift, or so many bits of a float.
template <bool half>
__global__ void keys_kernel(const QueryBound* bounds, CodeTest test, const float* largest, int shift,
                            std::int64_t queries, std::uint32_t* keys, std::uint32_t* order) {
  const std::int64_t q = blockIdx.x * std::int64_t{threads} + threadIdx.x;
  if (q >= queries) return;
  std::int32_t key = Scores<half>::order(Scores<half>::limit(bounds[q], test, largest));
  if constexpr (half) {
    key >>= 32 - key_bits;
  } else {
    key = max(-(1 << shift), min((1 << shift) - 1, key)) >> (shift + 1 - key_bits);
  }
  keys[q] = static_cast<std::uint32_t>(key + (1 << (key_bits - 1)));
  order[q] = static_cast<std::uint32_t>(q);
}

// Which of the ordered queries comes into a place: of 64 the sixteen that a thread of the filter holds
// together are neighbours (filter_codes_wide.cu: every fourth pair of columns).
__device__ std::int64_t comes_into(std::int64_t place, std::int64_t queries) {
  const std::int64_t first = place / 64 * 64;
  if (first + 64 > queries) return place;
  const std::int64_t column = place % 64;
  return first + column % 8 / 2 * 16 + column / 8 * 2 + column % 2;
}

// 16 bytes a thread.
__global__ void place_kernel(const std::uint8_t* from, CodeShape shape, int tile, std::int64_t queries,
                             const std::uint32_t* sorted, QueryOrder out) {
  const auto parts = static_cast<std::int64_t>(shape.row_bytes() / 16);
  const std::int64_t at = blockIdx.x * std::int64_t{threads} + threadIdx.x;
  const std::int64_t place = at / parts;
  const std::int64_t padded = (queries + tile - 1) / tile * tile;
  if (place >= padded) return;
  const auto column = static_cast<int>(at % parts * 16);
  // Behind the last one lie zeros.
  const std::int64_t query = place < queries ? sorted[comes_into(place, queries)] : place;
  if (column == 0 && place < queries) out.order[place] = static_cast<std::uint32_t>(query);
  *reinterpret_cast<int4*>(out.codes + shape.offset(place, column, tile)) =
      *reinterpret_cast<const int4*>(from + shape.offset(query, column, tile));
}

}  // namespace

std::size_t order_by_thresholds(const CodeFilter& f, const QueryOrder& out, const QuerySort& sort,
                                void* scratch, std::size_t scratch_bytes, cudaStream_t stream) {
  std::size_t bytes = scratch_bytes;
  if (scratch != nullptr) {
    int shift = 15;  // 2^15 is more than the product of two values
    while (std::int64_t{1} << (shift - 15) < f.shape.row_bytes()) ++shift;
    const auto kernel = f.test.half ? keys_kernel<true> : keys_kernel<false>;
    kernel<<<blocks_for(f.queries), threads, 0, stream>>>(f.bounds, f.test, f.rows.largest, shift, f.queries,
                                                          sort.unsorted_keys, sort.unsorted);
    check_launch("keys of thresholds");
  }
  KITH_CUDA(cub::DeviceRadixSort::SortPairs(scratch, bytes, sort.unsorted_keys, sort.keys, sort.unsorted,
                                            sort.sorted, static_cast<int>(f.queries), 0, key_bits, stream));
  if (scratch != nullptr) {
    const std::int64_t padded = (f.queries + f.query_tile - 1) / f.query_tile * f.query_tile;
    place_kernel<<<blocks_for(padded * (f.shape.row_bytes() / 16)), threads, 0, stream>>>(
        f.query_codes, f.shape, f.query_tile, f.queries, sort.sorted, out);
    check_launch("queries in the order of their thresholds");
  }
  return bytes;
}

}  // namespace kith::brute_force::cuda
