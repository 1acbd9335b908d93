// Canonical distance, AVX2 and FMA: lanes 0-3 and 4-7 in two registers.
#include "distance/cpu/canonical_sets.hpp"

#if defined(__AVX2__)
#include <immintrin.h>

namespace kith {
namespace {

struct Lanes {
  __m256d low;
  __m256d high;
};

inline Lanes zero() {
  return {_mm256_setzero_pd(), _mm256_setzero_pd()};
}
inline Lanes widen(__m256 v) {
  return {_mm256_cvtps_pd(_mm256_castps256_ps128(v)), _mm256_cvtps_pd(_mm256_extractf128_ps(v, 1))};
}
inline Lanes widen(__m256i v) {
  return {_mm256_cvtepi32_pd(_mm256_castsi256_si128(v)), _mm256_cvtepi32_pd(_mm256_extracti128_si256(v, 1))};
}
inline Lanes load(const double* p) {
  return {_mm256_loadu_pd(p), _mm256_loadu_pd(p + 4)};
}
inline Lanes load(const float* p) {
  return widen(_mm256_loadu_ps(p));
}
inline Lanes load(const float16* p) {
  return widen(_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
}
inline Lanes load(const bfloat16* p) {
  const __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  return widen(_mm256_castsi256_ps(_mm256_slli_epi32(wide, 16)));
}
inline Lanes load(const std::int8_t* p) {
  return widen(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
}
inline Lanes load(const std::uint8_t* p) {
  return widen(_mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
}
inline Lanes add(Lanes a, Lanes b) {
  return {_mm256_add_pd(a.low, b.low), _mm256_add_pd(a.high, b.high)};
}
inline Lanes sub(Lanes a, Lanes b) {
  return {_mm256_sub_pd(a.low, b.low), _mm256_sub_pd(a.high, b.high)};
}
inline Lanes fma(Lanes a, Lanes b, Lanes c) {
  return {_mm256_fmadd_pd(a.low, b.low, c.low), _mm256_fmadd_pd(a.high, b.high, c.high)};
}
inline Lanes absolute(Lanes a) {
  const __m256d sign = _mm256_set1_pd(-0.0);
  return {_mm256_andnot_pd(sign, a.low), _mm256_andnot_pd(sign, a.high)};
}
inline void store(double* p, Lanes v) {
  _mm256_storeu_pd(p, v.low);
  _mm256_storeu_pd(p + 4, v.high);
}

#include "distance/cpu/canonical_body.inc"

}  // namespace

CanonicalFunction canonical_avx2(Dtype dtype, Metric metric) {
  return select(dtype, metric);
}

}  // namespace kith
#endif
