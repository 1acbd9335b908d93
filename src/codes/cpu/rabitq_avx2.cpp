// RaBitQ's kernels, AVX2: a word's bits become masks of 16 bits each.
#include "codes/cpu/rabitq.hpp"

#if defined(__AVX2__)
#include <immintrin.h>

namespace kith::codes {
namespace {

struct Query {
  __m256i low;
  __m256i high;
};
using Sum = __m256i;

inline Query load(const std::int16_t* values) {
  return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(values)),
          _mm256_loadu_si256(reinterpret_cast<const __m256i*>(values + 16))};
}

inline Sum zero() {
  return _mm256_setzero_si256();
}

// The values whose bit is set, 16 of them, times a weight and summed in pairs.
inline __m256i chosen(__m256i query, std::uint32_t half, __m256i weight) {
  const __m256i bits = _mm256_setr_epi16(1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384,
                                         static_cast<short>(-32768));
  const __m256i word = _mm256_set1_epi16(static_cast<short>(half));
  const __m256i mask = _mm256_cmpeq_epi16(_mm256_and_si256(word, bits), bits);
  return _mm256_madd_epi16(_mm256_and_si256(query, mask), weight);
}

template <int bit>
inline Sum add(Sum sum, Query query, std::uint32_t word) {
  const __m256i weight = _mm256_set1_epi16(1 << bit);
  return _mm256_add_epi32(sum, _mm256_add_epi32(chosen(query.low, word & 0xFFFFU, weight),
                                                chosen(query.high, word >> 16U, weight)));
}

inline std::int32_t total(Sum sum) {
  __m128i half = _mm_add_epi32(_mm256_castsi256_si128(sum), _mm256_extracti128_si256(sum, 1));
  half = _mm_add_epi32(half, _mm_shuffle_epi32(half, 0x4E));
  half = _mm_add_epi32(half, _mm_shuffle_epi32(half, 0xB1));
  return _mm_cvtsi128_si32(half);
}

#include "codes/cpu/rabitq_body.inc"

}  // namespace

extern constinit const RabitqKernels rabitq_kernels_avx2 = {dots, gathered_dots, fit};

}  // namespace kith::codes
#endif
