// Distances of codes, AVX-512 VNNI: bytes widened to 16 bits, differences squared and summed by vpdpwssd;
// halves of bytes by vpdpbusd.
#include "codes/cpu/estimate.hpp"

#if defined(__AVX512VNNI__)
#include <immintrin.h>

namespace kith::codes {
namespace {

constexpr std::int64_t step_bytes = 32;
using Sum = __m512i;

inline Sum zero() {
  return _mm512_setzero_si512();
}

inline __m512i widen(const std::uint8_t* bytes) {
  return _mm512_cvtepu8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(bytes)));
}

struct Bytes {
  static Sum add(Sum sum, const std::uint8_t* query, const std::uint8_t* code) {
    const __m512i difference = _mm512_sub_epi16(widen(query), widen(code));
    return _mm512_dpwssd_epi32(sum, difference, difference);
  }
};

// 64 values: the low halves of 32 bytes, then the high ones.
inline __m512i unpack(const std::uint8_t* bytes) {
  const __m256i packed = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(bytes));
  const __m512i both = _mm512_inserti64x4(_mm512_castsi256_si512(packed), _mm256_srli_epi16(packed, 4), 1);
  return _mm512_and_si512(both, _mm512_set1_epi8(15));
}

struct Halves {
  static Sum add(Sum sum, const std::uint8_t* query, const std::uint8_t* code) {
    const __m512i difference = _mm512_abs_epi8(_mm512_sub_epi8(unpack(query), unpack(code)));
    return _mm512_dpbusd_epi32(sum, difference, difference);
  }
};

inline std::int32_t total(Sum even, Sum odd) {
  const __m512i both = _mm512_add_epi32(even, odd);
  const __m256i half = _mm256_add_epi32(_mm512_castsi512_si256(both), _mm512_extracti64x4_epi64(both, 1));
  __m128i sum = _mm_add_epi32(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
  sum = _mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0x4E));
  sum = _mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0xB1));
  return _mm_cvtsi128_si32(sum);
}

#include "codes/cpu/estimate_body.inc"

}  // namespace

extern constinit const EstimateKernels estimate_kernels_avx512 = {gathered<Bytes>, gathered<Halves>};

}  // namespace kith::codes
#endif
