// LZF decompression, the codec inside PCD's binary_compressed.
#pragma once

#include <cstddef>
#include <span>

namespace kith::io {

/// Fills `to` exactly. False when the input is malformed or does not decompress to to.size() bytes.
bool lzf_decompress(std::span<const std::byte> from, std::span<std::byte> to) noexcept;

/// No LZF stream grows more than this: 3 bytes of input become at most 264 bytes.
inline constexpr std::size_t lzf_largest_ratio = 88;

}  // namespace kith::io
