// RaBitQ's kernels, AVX-512 VNNI: a word is a mask as it is, and vpdpwssd multiplies by the weight of its
// bit.
#include "codes/cpu/rabitq.hpp"

#if defined(__AVX512VNNI__)
#include <immintrin.h>

namespace kith::codes {
namespace {

using Query = __m512i;
using Sum = __m512i;

inline Query load(const std::int16_t* values) {
  return _mm512_loadu_si512(values);
}

inline Sum zero() {
  return _mm512_setzero_si512();
}

template <int bit>
inline Sum add(Sum sum, Query query, std::uint32_t word) {
  return _mm512_dpwssd_epi32(sum, _mm512_maskz_mov_epi16(word, query), _mm512_set1_epi16(1 << bit));
}

inline std::int32_t total(Sum sum) {
  const __m256i half = _mm256_add_epi32(_mm512_castsi512_si256(sum), _mm512_extracti64x4_epi64(sum, 1));
  __m128i quarter = _mm_add_epi32(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
  quarter = _mm_add_epi32(quarter, _mm_shuffle_epi32(quarter, 0x4E));
  quarter = _mm_add_epi32(quarter, _mm_shuffle_epi32(quarter, 0xB1));
  return _mm_cvtsi128_si32(quarter);
}

#include "codes/cpu/rabitq_body.inc"

}  // namespace

extern constinit const RabitqKernels rabitq_kernels_avx512 = {dots, gathered_dots, fit};

}  // namespace kith::codes
#endif
