// (distance, row) pairs as integers whose order is the contract's, and their sorting within a block.
//
// float32 distances: one 64-bit word, the ordered bits above, the row and the sign of a zero below. float64
// distances: a word for the ordered bits and a word for the row. -0 and +0 are one distance for the order, so
// the sign is kept aside and given back.
#pragma once

#include <cstdint>

namespace kith::select_k::cuda {

template <class R>
struct Key;

template <>
struct Key<float> {
  std::uint64_t word;

  __host__ __device__ static Key none() { return {~std::uint64_t{0}}; }
  __device__ static Key make(float distance, std::uint32_t row) {
    const std::uint32_t raw = __float_as_uint(distance);
    const std::uint32_t zero_sign = raw == 0x80000000U ? 1U : 0U;
    const std::uint32_t bits = zero_sign != 0 ? 0U : raw;
    const std::uint32_t ordered = bits ^ ((bits >> 31U) != 0 ? 0xffffffffU : 0x80000000U);
    return {static_cast<std::uint64_t>(ordered) << 32U | static_cast<std::uint64_t>(row) << 1U | zero_sign};
  }
  __device__ bool is_none() const { return word == ~std::uint64_t{0}; }
  __device__ float distance() const {
    const auto ordered = static_cast<std::uint32_t>(word >> 32U);
    const std::uint32_t bits = ordered ^ ((ordered >> 31U) != 0 ? 0x80000000U : 0xffffffffU);
    return __uint_as_float((word & 1U) != 0 ? 0x80000000U : bits);
  }
  __device__ std::uint32_t row() const { return static_cast<std::uint32_t>(word) >> 1U; }
  __device__ friend bool operator<(const Key& a, const Key& b) { return a.word < b.word; }
};

template <>
struct Key<double> {
  std::uint64_t word;
  std::uint64_t low;

  __host__ __device__ static Key none() { return {~std::uint64_t{0}, ~std::uint64_t{0}}; }
  __device__ static Key make(double distance, std::uint32_t row) {
    const auto raw = static_cast<std::uint64_t>(__double_as_longlong(distance));
    const std::uint64_t sign = std::uint64_t{1} << 63U;
    const std::uint64_t zero_sign = raw == sign ? 1U : 0U;
    const std::uint64_t bits = zero_sign != 0 ? 0U : raw;
    return {bits ^ ((bits & sign) != 0 ? ~std::uint64_t{0} : sign),
            static_cast<std::uint64_t>(row) << 1U | zero_sign};
  }
  __device__ bool is_none() const { return low == ~std::uint64_t{0}; }
  __device__ double distance() const {
    const std::uint64_t sign = std::uint64_t{1} << 63U;
    if ((low & 1U) != 0) return -0.0;
    return __longlong_as_double(
        static_cast<long long>(word ^ ((word & sign) != 0 ? sign : ~std::uint64_t{0})));
  }
  __device__ std::uint32_t row() const { return static_cast<std::uint32_t>(low >> 1U); }
  __device__ friend bool operator<(const Key& a, const Key& b) {
    return a.word != b.word ? a.word < b.word : a.low < b.low;
  }
};

/// Sorts `count` keys (a power of two) in shared memory, all threads of the block together, whole warps.
/// Bitonic (Batcher 1968): no data-dependent access, log2(count)^2 / 2 rounds. A warp's 32 pairs lie in 64
/// keys where they are at most 32 apart: of such rounds one after the other the warp need not wait for
/// others.
template <class R>
__device__ inline void sort_block(Key<R>* keys, int count) {
  __syncthreads();
  for (int size = 2; size <= count; size *= 2) {
    for (int stride = size / 2; stride > 0; stride /= 2) {
      if (stride > 32 || (stride == 32 && size > 64)) {
        __syncthreads();
      } else {
        __syncwarp();
      }
      for (int i = threadIdx.x; i < count / 2; i += blockDim.x) {
        const int low = 2 * i - (i & (stride - 1));
        const int high = low + stride;
        const bool ascending = (low & size) == 0;
        const Key<R> a = keys[low];
        const Key<R> b = keys[high];
        if ((b < a) == ascending) {
          keys[low] = b;
          keys[high] = a;
        }
      }
    }
  }
  __syncthreads();
}

}  // namespace kith::select_k::cuda
