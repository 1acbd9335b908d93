// Products of RaBitQ's planes of bits with values of 16 bits, as devices take them; the host compiles them,
// too, for tests.
#pragma once

#include <cstdint>

#include "cuda/host_device.hpp"

namespace kith::codes::cuda {

inline constexpr int most_planes = 8;

/// sum + values . bytes: two values of 16 bits in a word, with two of the four bytes of another, which are
/// not negative.
template <bool high>
KITH_HOST_DEVICE inline std::int32_t add_two_products(std::uint32_t values, std::uint32_t bytes,
                                                      std::int32_t sum) {
#ifdef __CUDA_ARCH__
  if constexpr (high) {
    asm("dp2a.hi.s32.u32 %0, %1, %2, %0;" : "+r"(sum) : "r"(values), "r"(bytes));
  } else {
    asm("dp2a.lo.s32.u32 %0, %1, %2, %0;" : "+r"(sum) : "r"(values), "r"(bytes));
  }
  return sum;
#else
  const std::uint32_t two = high ? bytes >> 16U : bytes;
  return sum + static_cast<std::int16_t>(values & 0xFFFFU) * static_cast<std::int32_t>(two & 255U) +
         static_cast<std::int16_t>(values >> 16U) * static_cast<std::int32_t>(two >> 8U & 255U);
#endif
}

/// A block of 32 values of a code: its planes become a byte a value, four at a time. A plane's four bits are
/// spread over four bytes by a product, whose terms do not overlap.
class Block {
 public:
  /// Takes the next plane, from the lowest; `plane` is its number.
  KITH_HOST_DEVICE void add_plane(std::uint32_t word, int plane) {
    const std::uint32_t spread = 0x00204081U << plane;
    const std::uint32_t mask = 0x01010101U << plane;
    KITH_UNROLL
    for (int i = 0; i < 8; ++i) bytes_[i] |= ((word >> (4 * i) & 15U) * spread) & mask;
  }
  /// Its product with two words for each of the eight fours of values.
  template <class Values>
  KITH_HOST_DEVICE std::int32_t dot(const Values& values, std::int32_t sum) const {
    KITH_UNROLL
    for (int i = 0; i < 8; ++i) {
      sum = add_two_products<false>(values(2 * i), bytes_[i], sum);
      sum = add_two_products<true>(values(2 * i + 1), bytes_[i], sum);
    }
    return sum;
  }

 private:
  std::uint32_t bytes_[8] = {};
};

}  // namespace kith::codes::cuda
