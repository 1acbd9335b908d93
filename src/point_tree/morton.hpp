// Bits of cells along the axes, taken in turns: Morton codes (Morton 1966), for the CPU and for kernels.
#pragma once

#include <cstdint>

#include "cuda/host_device.hpp"

namespace kith::point_tree {

/// The lower bits of v, dim - 1 zeros behind each: 21 bits in three dimensions, 31 in two; else v.
KITH_HOST_DEVICE inline std::uint64_t spread_bits(std::uint64_t v, std::int64_t dim) {
  if (dim == 3) {
    v = (v | v << 32U) & 0x001F00000000FFFFULL;
    v = (v | v << 16U) & 0x001F0000FF0000FFULL;
    v = (v | v << 8U) & 0x100F00F00F00F00FULL;
    v = (v | v << 4U) & 0x10C30C30C30C30C3ULL;
    return (v | v << 2U) & 0x1249249249249249ULL;
  }
  if (dim == 2) {
    v = (v | v << 16U) & 0x0000FFFF0000FFFFULL;
    v = (v | v << 8U) & 0x00FF00FF00FF00FFULL;
    v = (v | v << 4U) & 0x0F0F0F0F0F0F0F0FULL;
    v = (v | v << 2U) & 0x3333333333333333ULL;
    return (v | v << 1U) & 0x5555555555555555ULL;
  }
  return v;
}

}  // namespace kith::point_tree
