// Canonical distance, AVX-512: one register holds the eight lanes.
#include "distance/cpu/canonical_sets.hpp"

#if defined(__AVX512F__)
#include <immintrin.h>

namespace kith {
namespace {

using Lanes = __m512d;

inline Lanes zero() {
  return _mm512_setzero_pd();
}
inline Lanes load(const double* p) {
  return _mm512_loadu_pd(p);
}
inline Lanes load(const float* p) {
  return _mm512_cvtps_pd(_mm256_loadu_ps(p));
}
inline Lanes load(const float16* p) {
  return _mm512_cvtps_pd(_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
}
inline Lanes load(const bfloat16* p) {
  const __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  return _mm512_cvtps_pd(_mm256_castsi256_ps(_mm256_slli_epi32(wide, 16)));
}
inline Lanes load(const std::int8_t* p) {
  return _mm512_cvtepi32_pd(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
}
inline Lanes load(const std::uint8_t* p) {
  return _mm512_cvtepi32_pd(_mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
}
inline Lanes add(Lanes a, Lanes b) {
  return _mm512_add_pd(a, b);
}
inline Lanes sub(Lanes a, Lanes b) {
  return _mm512_sub_pd(a, b);
}
inline Lanes fma(Lanes a, Lanes b, Lanes c) {
  return _mm512_fmadd_pd(a, b, c);
}
inline Lanes absolute(Lanes a) {
  return _mm512_abs_pd(a);
}
inline void store(double* p, Lanes v) {
  _mm512_storeu_pd(p, v);
}

#include "distance/cpu/canonical_body.inc"

}  // namespace

CanonicalFunction canonical_avx512(Dtype dtype, Metric metric) {
  return select(dtype, metric);
}

}  // namespace kith
#endif
