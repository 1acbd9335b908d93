// Distances of codes, AVX2: bytes widened to 16 bits, differences squared and summed in pairs; halves of
// bytes stay bytes.
#include "codes/cpu/estimate.hpp"

#if defined(__AVX2__)
#include <immintrin.h>

namespace kith::codes {
namespace {

constexpr std::int64_t step_bytes = 32;
using Sum = __m256i;

inline Sum zero() {
  return _mm256_setzero_si256();
}

inline __m256i widen(const std::uint8_t* bytes) {
  return _mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes)));
}

struct Bytes {
  static Sum add(Sum sum, const std::uint8_t* query, const std::uint8_t* code) {
    const __m256i low = _mm256_sub_epi16(widen(query), widen(code));
    const __m256i high = _mm256_sub_epi16(widen(query + 16), widen(code + 16));
    return _mm256_add_epi32(sum,
                            _mm256_add_epi32(_mm256_madd_epi16(low, low), _mm256_madd_epi16(high, high)));
  }
};

inline __m256i load(const std::uint8_t* bytes) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(bytes));
}

// Squares of at most 15, four to a sum of 16 bits: 900.
struct Halves {
  static Sum add(Sum sum, const std::uint8_t* query, const std::uint8_t* code) {
    const __m256i mask = _mm256_set1_epi8(15);
    const __m256i q = load(query);
    const __m256i c = load(code);
    const __m256i low =
        _mm256_abs_epi8(_mm256_sub_epi8(_mm256_and_si256(q, mask), _mm256_and_si256(c, mask)));
    const __m256i high = _mm256_abs_epi8(_mm256_sub_epi8(_mm256_and_si256(_mm256_srli_epi16(q, 4), mask),
                                                         _mm256_and_si256(_mm256_srli_epi16(c, 4), mask)));
    const __m256i squares =
        _mm256_add_epi16(_mm256_maddubs_epi16(low, low), _mm256_maddubs_epi16(high, high));
    return _mm256_add_epi32(sum, _mm256_madd_epi16(squares, _mm256_set1_epi16(1)));
  }
};

inline std::int32_t total(Sum even, Sum odd) {
  const __m256i both = _mm256_add_epi32(even, odd);
  __m128i sum = _mm_add_epi32(_mm256_castsi256_si128(both), _mm256_extracti128_si256(both, 1));
  sum = _mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0x4E));
  sum = _mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0xB1));
  return _mm_cvtsi128_si32(sum);
}

#include "codes/cpu/estimate_body.inc"

}  // namespace

extern constinit const EstimateKernels estimate_kernels_avx2 = {gathered<Bytes>, gathered<Halves>};

}  // namespace kith::codes
#endif
