// Distances of codes, AVX2: bytes widened to 16 bits, differences squared and summed in pairs; halves of
// bytes stay bytes.
#include "codes/cpu/estimate.hpp"

#if defined(__AVX2__)
#include <immintrin.h>

namespace kith::codes {
namespace {

using Sum = __m256i;

inline Sum zero() {
  return _mm256_setzero_si256();
}

inline __m128i fold(__m256i all) {
  return _mm_add_epi32(_mm256_castsi256_si128(all), _mm256_extracti128_si256(all, 1));
}

inline std::int32_t total(Sum all) {
  __m128i sum = fold(all);
  sum = _mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0x4E));
  sum = _mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0xB1));
  return _mm_cvtsi128_si32(sum);
}

inline void totals(const Sum* sums, std::int32_t* out) {
  const __m256i pairs =
      _mm256_hadd_epi32(_mm256_hadd_epi32(sums[0], sums[1]), _mm256_hadd_epi32(sums[2], sums[3]));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(out), fold(pairs));
}

inline __m256i widen(const std::uint8_t* bytes) {
  return _mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes)));
}

struct Bytes {
  static constexpr std::int64_t step = 32;
  struct Part {
    __m256i low, high;
  };
  static Part load(const std::uint8_t* bytes) { return {widen(bytes), widen(bytes + 16)}; }
  static Part ask(const Part& query) { return query; }
  static Sum add(Sum sum, const Part& query, const Part& code) {
    const __m256i low = _mm256_sub_epi16(query.low, code.low);
    const __m256i high = _mm256_sub_epi16(query.high, code.high);
    return _mm256_add_epi32(sum,
                            _mm256_add_epi32(_mm256_madd_epi16(low, low), _mm256_madd_epi16(high, high)));
  }
  static std::int32_t rest(const std::uint8_t* /*query*/, std::int64_t /*bytes*/) { return 0; }
};

// Squares of at most 15, four to a sum of 16 bits: 900.
struct Halves {
  static constexpr std::int64_t step = 32;
  struct Part {
    __m256i low, high;
  };
  static Part load(const std::uint8_t* bytes) {
    const __m256i mask = _mm256_set1_epi8(15);
    const __m256i packed = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(bytes));
    return {_mm256_and_si256(packed, mask), _mm256_and_si256(_mm256_srli_epi16(packed, 4), mask)};
  }
  static Part ask(const Part& query) { return query; }
  static Sum add(Sum sum, const Part& query, const Part& code) {
    const __m256i low = _mm256_abs_epi8(_mm256_sub_epi8(query.low, code.low));
    const __m256i high = _mm256_abs_epi8(_mm256_sub_epi8(query.high, code.high));
    const __m256i squares =
        _mm256_add_epi16(_mm256_maddubs_epi16(low, low), _mm256_maddubs_epi16(high, high));
    return _mm256_add_epi32(sum, _mm256_madd_epi16(squares, _mm256_set1_epi16(1)));
  }
  static std::int32_t rest(const std::uint8_t* /*query*/, std::int64_t /*bytes*/) { return 0; }
};

#include "codes/cpu/estimate_body.inc"

}  // namespace

extern constinit const EstimateKernels estimate_kernels_avx2 = {gathered<Bytes>, gathered<Halves>};

}  // namespace kith::codes
#endif
