// Filter kernels, AVX2 and FMA: two registers a panel, one panel at a time.
#include "brute_force/cpu/kernels.hpp"

#if defined(__AVX2__)
#include "brute_force/cpu/kernels_256.inc"
#include "brute_force/cpu/kernels_fine_256.inc"
#include "codes/form.hpp"

namespace kith {
namespace {

constexpr int int_queries = 4;

// Without VNNI the byte products are summed through 16-bit pairs. vpmaddubsw would saturate, so even and odd
// bytes are widened first and vpmaddwd, which cannot overflow here, does the sums.
struct Bytes {
  __m256i even_low, odd_low, even_high, odd_high;
};
struct QueryBytes {
  __m256i even, odd;
};

inline Bytes load_bytes(const std::uint8_t* p) {
  const I x = load_int(reinterpret_cast<const std::int32_t*>(p));
  const __m256i byte = _mm256_set1_epi16(0xFF);
  return {_mm256_and_si256(x.low, byte), _mm256_srli_epi16(x.low, 8), _mm256_and_si256(x.high, byte),
          _mm256_srli_epi16(x.high, 8)};
}
inline QueryBytes broadcast_bytes(const char* p) {
  const __m256i y = _mm256_set1_epi32(*reinterpret_cast<const std::int32_t*>(p));
  return {_mm256_srai_epi16(_mm256_slli_epi16(y, 8), 8), _mm256_srai_epi16(y, 8)};
}
inline I dot_bytes(I acc, const Bytes& x, const QueryBytes& y) {
  const __m256i low =
      _mm256_add_epi32(_mm256_madd_epi16(x.even_low, y.even), _mm256_madd_epi16(x.odd_low, y.odd));
  const __m256i high =
      _mm256_add_epi32(_mm256_madd_epi16(x.even_high, y.even), _mm256_madd_epi16(x.odd_high, y.odd));
  return {_mm256_add_epi32(acc.low, low), _mm256_add_epi32(acc.high, high)};
}

#include "brute_force/cpu/kernels_body.inc"

// Narrow codes: no sum of two products leaves 16 bits, and over a block a lane's sum is right modulo 2^16 and
// known to fit, so it is widened once a block.
struct NarrowCodes {
  using Acc = I;
  static constexpr int queries = 6;

  // All queries i and panels p.
  template <int Q, int P, class Function>
  __attribute__((always_inline)) static inline void each(Function function) {
    unroll<Q>([&](auto i) __attribute__((always_inline)) {
      unroll<P>([&](auto p) __attribute__((always_inline)) { function(i, p); });
    });
  }

  template <int Q, int P>
  __attribute__((always_inline)) static inline void accumulate(const Tile& tile, const TileQueries& q,
                                                               std::int64_t first, int panel,
                                                               Acc (&acc)[Q][P]) {
    each<Q, P>([&](auto i, auto p) __attribute__((always_inline)) { acc[i.value][p.value] = set_int(0); });
    const std::uint8_t* base = static_cast<const std::uint8_t*>(tile.codes) + panel * panel_rows * 4;
    const char* rows = static_cast<const char*>(q.codes) + first * q.stride_bytes;
    const char* biases = rows + tile.steps * 4;
    for (std::int64_t begin = 0; begin < tile.steps; begin += codes::narrow_block, biases += 4) {
      const std::int64_t left = tile.steps - begin;
      const std::int64_t end = left < codes::narrow_block ? tile.steps : begin + codes::narrow_block;
      I sums[Q][P];
      each<Q, P>([&](auto i, auto p) __attribute__((always_inline)) {
        I& sum = sums[i.value][p.value];
        sum.low = sum.high = broadcast_plain_bytes(biases + i.value * q.stride_bytes);
      });
      for (std::int64_t s = begin; s < end; ++s) {
        PlainBytes x[P];
        unroll<P>([&](auto p) __attribute__((always_inline)) {
          x[p.value] = load_plain_bytes(base + s * code_step_bytes + p.value * panel_rows * 4);
        });
        each<Q, P>([&](auto i, auto p) __attribute__((always_inline)) {
          const PlainQueryBytes y = broadcast_plain_bytes(rows + i.value * q.stride_bytes + s * 4);
          I& sum = sums[i.value][p.value];
          sum.low = _mm256_add_epi16(sum.low, _mm256_maddubs_epi16(x[p.value].low, y));
          sum.high = _mm256_add_epi16(sum.high, _mm256_maddubs_epi16(x[p.value].high, y));
        });
      }
      const __m256i ones = _mm256_set1_epi16(1);
      each<Q, P>([&](auto i, auto p) __attribute__((always_inline)) {
        const I& sum = sums[i.value][p.value];
        acc[i.value][p.value] = add_int(
            acc[i.value][p.value], {_mm256_madd_epi16(sum.low, ones), _mm256_madd_epi16(sum.high, ones)});
      });
    }
  }
  static inline F value(I acc) { return to_floats(acc); }
};

}  // namespace

extern constinit const FilterKernels filter_kernels_avx2 = make_kernels<NarrowCodes>(fine_values);

}  // namespace kith
#endif
