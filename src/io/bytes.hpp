// Unaligned loads and stores in either byte order.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstring>
#include <span>

namespace kith::io {

static_assert(std::endian::native == std::endian::little, "Kith's readers assume a little-endian host");

/// A little-endian T at any address.
template <class T>
T load(const std::byte* from) noexcept {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

/// A T in the byte order that `swap` says (true: big-endian) at any address.
template <class T>
T load(const std::byte* from, bool swap) noexcept {
  if (!swap) return load<T>(from);
  std::array<std::byte, sizeof(T)> bytes;
  std::reverse_copy(from, from + sizeof(T), bytes.begin());
  return std::bit_cast<T>(bytes);
}

/// Reverses the bytes of every element in place.
inline void swap_elements(void* data, std::size_t elements, std::size_t element_bytes) noexcept {
  auto* at = static_cast<std::byte*>(data);
  for (std::size_t i = 0; i < elements; ++i, at += element_bytes) std::reverse(at, at + element_bytes);
}

}  // namespace kith::io
