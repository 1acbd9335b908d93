// The order of a Hilbert curve through cubes (Hilbert 1891), from the bits of a Morton code: what follows
// each other along it lies side by side, where a Morton curve jumps.
//
// Digit by digit: a cube's eight parts are walked through in the order of a Gray code, from an entry along a
// direction that the parts before have left (Hamilton and Rau-Chaplin 2008). Those two are a state, of which
// there are 24; a table has what they make of a digit, and the state that follows. Halves and quarters of a
// cube stay runs of the order, so codes can be cut at any bit.
#pragma once

#include <cstdint>

namespace kith::point_tree {

struct HilbertTable {
  static constexpr int size = 24 * 8;
  std::uint8_t next[size];  ///< [state][digit]: state * 8 + digit along the curve
  constexpr HilbertTable() : next() {
    for (int state = 0; state < 24; ++state) {
      const int entry = state / 3;
      const int direction = state % 3;
      for (int digit = 0; digit < 8; ++digit) {
        const int seen = turned(digit ^ entry, 3 - (direction + 1) % 3);
        const int place = seen ^ seen >> 1 ^ seen >> 2;  // the inverse of a Gray code
        const int first = place == 0 ? 0 : gray((place - 1) / 2 * 2);
        const int along = place == 0 ? 0 : (place % 2 == 0 ? trailing_ones(place - 1) : trailing_ones(place));
        const int new_entry = entry ^ turned(first, (direction + 1) % 3);
        const int new_direction = (direction + along % 3 + 1) % 3;
        next[state * 8 + digit] = static_cast<std::uint8_t>((new_entry * 3 + new_direction) * 8 + place);
      }
    }
  }

 private:
  static constexpr int gray(int v) { return v ^ v >> 1; }
  static constexpr int turned(int v, int by) {
    return (v << by | v >> (3 - by)) & 7;
  }  // three bits, leftwards
  static constexpr int trailing_ones(int v) {
    int count = 0;
    for (; (v & 1) != 0; v >>= 1) ++count;
    return count;
  }
};

#ifdef __CUDACC__
static __device__ const HilbertTable hilbert_table{};

/// A block's own copy of the table; all its threads call this first.
__device__ inline void load_hilbert(std::uint8_t (&table)[HilbertTable::size]) {
  for (unsigned i = threadIdx.x; i < HilbertTable::size; i += blockDim.x) table[i] = hilbert_table.next[i];
  __syncthreads();
}

/// The lower `digits` digits of a Morton code of three axes, replaced by those of the Hilbert order.
template <class Code>
__device__ Code along_hilbert(Code code, int digits, const std::uint8_t (&table)[HilbertTable::size]) {
  int state = 0;
  for (int shift = 3 * (digits - 1); shift >= 0; shift -= 3) {
    const int entry = table[state | static_cast<int>(code >> shift & 7)];
    state = entry & ~7;
    code = (code & ~(Code{7} << shift)) | Code(entry & 7) << shift;
  }
  return code;
}
#endif

}  // namespace kith::point_tree
