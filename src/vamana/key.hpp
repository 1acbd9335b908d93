// What a walk's list holds, on the CPU and on devices.
#pragma once

#include <cstdint>

#include "cuda/host_device.hpp"

namespace kith::vamana {

/// (estimate, node, expanded), in this order of significance, in one number. Estimates have 31 bits.
using Key = std::uint64_t;
KITH_HOST_DEVICE constexpr Key make_key(std::int32_t estimate, std::uint32_t node) {
  return static_cast<Key>(static_cast<std::uint32_t>(estimate)) << 33U | static_cast<Key>(node) << 1U;
}
KITH_HOST_DEVICE constexpr std::uint32_t node_of(Key key) {
  return static_cast<std::uint32_t>(key >> 1U);
}
KITH_HOST_DEVICE constexpr std::int32_t estimate_of(Key key) {
  return static_cast<std::int32_t>(key >> 33U);
}
inline constexpr Key expanded = 1;

/// An estimate for a key of a float that is no NaN: ascends as floats do, two neighbours in one.
KITH_HOST_DEVICE constexpr std::int32_t ordered(float value) {
  const auto bits = __builtin_bit_cast(std::uint32_t, value);
  return static_cast<std::int32_t>((bits >> 31U != 0 ? ~bits : bits | 0x80000000U) >> 1U);
}

}  // namespace kith::vamana
