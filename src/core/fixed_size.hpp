// Copies of a few bytes at a time, many of them.
#pragma once

#include <cstddef>
#include <type_traits>

namespace kith {

/// Calls use(size), with the size as a constant where it is a usual one of a point or of a list, so that a
/// memcpy() of it is a move or two.
template <class Use>
void with_fixed_size(std::size_t bytes, const Use& use) {
  switch (bytes) {
    case 4: return use(std::integral_constant<std::size_t, 4>());
    case 8: return use(std::integral_constant<std::size_t, 8>());
    case 12: return use(std::integral_constant<std::size_t, 12>());
    case 24: return use(std::integral_constant<std::size_t, 24>());
    case 32: return use(std::integral_constant<std::size_t, 32>());
    case 64: return use(std::integral_constant<std::size_t, 64>());
    default: return use(bytes);
  }
}

}  // namespace kith
