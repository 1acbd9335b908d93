// Row kernels, AVX-512.
#include "codes/cpu/row_kernels.hpp"

#include "codes/form.hpp"

#include "kith/dtype.hpp"

#if defined(__AVX512F__)
#include <immintrin.h>

namespace kith::codes {
namespace {

inline double widen(float16 x) {
  return _cvtsh_ss(x.bits);
}
inline double widen(bfloat16 x) {
  return _mm_cvtss_f32(
      _mm_castsi128_ps(_mm_cvtsi32_si128(static_cast<int>(static_cast<unsigned>(x.bits) << 16U))));
}

using Panel = __m512d;

inline Panel zero_panel() {
  return _mm512_setzero_pd();
}
inline Panel load_panel(const double* p) {
  return _mm512_loadu_pd(p);
}
inline Panel add_product(Panel sum, Panel x, double y) {
  return _mm512_fmadd_pd(x, _mm512_set1_pd(y), sum);
}
inline Panel add_rounded_product(Panel sum, Panel x, double y) {
  return _mm512_add_pd(sum, _mm512_mul_pd(x, _mm512_set1_pd(y)));
}
inline void store_panel(double* p, Panel x) {
  _mm512_storeu_pd(p, x);
}

using NarrowPanel = __m512;

inline NarrowPanel zero_narrow_panel() {
  return _mm512_setzero_ps();
}
inline NarrowPanel load_narrow_panel(const float* p) {
  return _mm512_loadu_ps(p);
}
inline NarrowPanel add_product(NarrowPanel sum, NarrowPanel x, float y) {
  return _mm512_fmadd_ps(x, _mm512_set1_ps(y), sum);
}
inline void add_narrow_panel(double* p, NarrowPanel x) {
  const __m512d low = _mm512_cvtps_pd(_mm512_castps512_ps256(x));
  const __m512d high = _mm512_cvtps_pd(_mm512_extractf32x8_ps(x, 1));
  _mm512_storeu_pd(p, _mm512_add_pd(_mm512_loadu_pd(p), low));
  _mm512_storeu_pd(p + 8, _mm512_add_pd(_mm512_loadu_pd(p + 8), high));
}

#include "codes/cpu/row_kernels_body.inc"

}  // namespace

extern constinit const RowKernels row_kernels_avx512 = make_row_kernels();

}  // namespace kith::codes
#endif
