// Distances of codes, AVX2: bytes widened to 16 bits, differences squared and summed in pairs.
#include "codes/cpu/estimate.hpp"

#if defined(__AVX2__)
#include <immintrin.h>

namespace kith {
namespace {

constexpr std::int64_t step_bytes = 32;
using Sum = __m256i;

inline Sum zero() {
  return _mm256_setzero_si256();
}

inline __m256i widen(const std::uint8_t* bytes) {
  return _mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes)));
}

inline Sum add(Sum sum, const std::uint8_t* query, const std::uint8_t* code) {
  const __m256i low = _mm256_sub_epi16(widen(query), widen(code));
  const __m256i high = _mm256_sub_epi16(widen(query + 16), widen(code + 16));
  return _mm256_add_epi32(sum, _mm256_add_epi32(_mm256_madd_epi16(low, low), _mm256_madd_epi16(high, high)));
}

inline std::int32_t total(Sum even, Sum odd) {
  const __m256i both = _mm256_add_epi32(even, odd);
  __m128i sum = _mm_add_epi32(_mm256_castsi256_si128(both), _mm256_extracti128_si256(both, 1));
  sum = _mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0x4E));
  sum = _mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0xB1));
  return _mm_cvtsi128_si32(sum);
}

#include "codes/cpu/estimate_body.inc"

}  // namespace

extern constinit const EstimateKernels estimate_kernels_avx2 = {gathered};

}  // namespace kith
#endif
