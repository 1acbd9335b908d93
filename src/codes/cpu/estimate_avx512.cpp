// Distances of codes, AVX-512 VNNI: bytes widened to 16 bits, differences squared and summed by vpdpwssd;
// halves of bytes by vpdpbusd.
#include "codes/cpu/estimate.hpp"

#if defined(__AVX512VNNI__)
#include <immintrin.h>

namespace kith::codes {
namespace {

using Sum = __m512i;

inline Sum zero() {
  return _mm512_setzero_si512();
}

inline __m128i fold(__m256i half) {
  return _mm_add_epi32(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
}

inline __m256i fold(__m512i all) {
  return _mm256_add_epi32(_mm512_castsi512_si256(all), _mm512_extracti64x4_epi64(all, 1));
}

inline std::int32_t total(Sum all) {
  __m128i sum = fold(fold(all));
  sum = _mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0x4E));
  sum = _mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0xB1));
  return _mm_cvtsi128_si32(sum);
}

// Of four sums, as one transposes a matrix.
inline void totals(const Sum* sums, std::int32_t* out) {
  const __m256i a = fold(sums[0]);
  const __m256i b = fold(sums[1]);
  const __m256i c = fold(sums[2]);
  const __m256i d = fold(sums[3]);
  const __m256i ab = _mm256_add_epi32(_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b));
  const __m256i cd = _mm256_add_epi32(_mm256_unpacklo_epi32(c, d), _mm256_unpackhi_epi32(c, d));
  const __m256i abcd = _mm256_add_epi32(_mm256_unpacklo_epi64(ab, cd), _mm256_unpackhi_epi64(ab, cd));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(out), fold(abcd));
}

struct Bytes {
  static constexpr std::int64_t step = 32;
  static __m512i load(const std::uint8_t* bytes) {
    return _mm512_cvtepu8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(bytes)));
  }
  static __m512i ask(__m512i query) { return query; }
  static Sum add(Sum sum, __m512i query, __m512i code) {
    const __m512i difference = _mm512_sub_epi16(query, code);
    return _mm512_dpwssd_epi32(sum, difference, difference);
  }
  static std::int32_t rest(const std::uint8_t* /*query*/, std::int64_t /*bytes*/) { return 0; }
};

// (c - q)^2 = c (c - 2 q) + q^2, where c takes no sign and c - 2 q fits a signed byte: -30 to 15.
struct Halves {
  static constexpr std::int64_t step = 64;
  struct Asked {
    __m512i low, high;
  };
  static __m512i load(const std::uint8_t* bytes) { return _mm512_loadu_si512(bytes); }
  static __m512i load_half(const std::uint8_t* bytes) {
    return _mm512_zextsi256_si512(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(bytes)));
  }
  static __m512i low(__m512i packed) { return _mm512_and_si512(packed, _mm512_set1_epi8(15)); }
  static __m512i high(__m512i packed) { return low(_mm512_srli_epi16(packed, 4)); }
  static Asked ask(__m512i query) {
    return {_mm512_add_epi8(low(query), low(query)), _mm512_add_epi8(high(query), high(query))};
  }
  static Sum add(Sum sum, const Asked& twice, __m512i packed) {
    const __m512i l = low(packed);
    const __m512i h = high(packed);
    sum = _mm512_dpbusd_epi32(sum, l, _mm512_sub_epi8(l, twice.low));
    return _mm512_dpbusd_epi32(sum, h, _mm512_sub_epi8(h, twice.high));
  }
  static std::int32_t rest(const std::uint8_t* query, std::int64_t bytes) {
    Sum sum = zero();
    for (std::int64_t i = 0; i < bytes; i += 32) {
      const __m512i packed = load_half(query + i);
      sum = _mm512_dpbusd_epi32(sum, low(packed), low(packed));
      sum = _mm512_dpbusd_epi32(sum, high(packed), high(packed));
    }
    return total(sum);
  }
};

#include "codes/cpu/estimate_body.inc"

}  // namespace

extern constinit const EstimateKernels estimate_kernels_avx512 = {gathered<Bytes>, gathered<Halves>};

}  // namespace kith::codes
#endif
