// LZF (Lehmann's LibLZF stream format): control bytes that say "copy literals" or "repeat earlier output".
//
//   000LLLLL                     L+1 literal bytes follow
//   LLLooooo oooooooo            repeat L+2 bytes from o+1 bytes back, L in 1..6
//   111ooooo LLLLLLLL oooooooo   repeat L+9 bytes from o+1 bytes back
#include "io/lzf.hpp"

#include <cstring>

namespace kith::io {

bool lzf_decompress(std::span<const std::byte> from, std::span<std::byte> to) noexcept {
  std::size_t in = 0;
  std::size_t out = 0;
  while (in < from.size()) {
    const auto control = std::to_integer<std::size_t>(from[in++]);
    if (control < 32) {
      const std::size_t length = control + 1;
      if (length > from.size() - in || length > to.size() - out) return false;
      std::memcpy(to.data() + out, from.data() + in, length);
      in += length;
      out += length;
      continue;
    }
    std::size_t length = control >> 5U;
    if (length == 7) {
      if (in == from.size()) return false;
      length += std::to_integer<std::size_t>(from[in++]);
    }
    length += 2;
    if (in == from.size()) return false;
    const std::size_t back = ((control & 31U) << 8U) + std::to_integer<std::size_t>(from[in++]) + 1;
    if (back > out || length > to.size() - out) return false;
    // Byte by byte: source and target may overlap, that is how runs are coded.
    for (std::size_t i = 0; i < length; ++i, ++out) to[out] = to[out - back];
  }
  return out == to.size();
}

}  // namespace kith::io
