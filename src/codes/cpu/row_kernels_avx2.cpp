// Row kernels, AVX2.
#include "codes/cpu/row_kernels.hpp"

#include "codes/form.hpp"

#include "kith/dtype.hpp"

#if defined(__AVX2__)
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

struct Panel {
  __m256d low, high;
};

inline Panel zero_panel() {
  return {_mm256_setzero_pd(), _mm256_setzero_pd()};
}
inline Panel load_panel(const double* p) {
  return {_mm256_loadu_pd(p), _mm256_loadu_pd(p + 4)};
}
inline Panel add_product(Panel sum, Panel x, double y) {
  const __m256d all = _mm256_set1_pd(y);
  return {_mm256_fmadd_pd(x.low, all, sum.low), _mm256_fmadd_pd(x.high, all, sum.high)};
}
inline Panel add_rounded_product(Panel sum, Panel x, double y) {
  const __m256d all = _mm256_set1_pd(y);
  return {_mm256_add_pd(sum.low, _mm256_mul_pd(x.low, all)),
          _mm256_add_pd(sum.high, _mm256_mul_pd(x.high, all))};
}
inline void store_panel(double* p, Panel x) {
  _mm256_storeu_pd(p, x.low);
  _mm256_storeu_pd(p + 4, x.high);
}

struct NarrowPanel {
  __m256 low, high;
};

inline NarrowPanel zero_narrow_panel() {
  return {_mm256_setzero_ps(), _mm256_setzero_ps()};
}
inline NarrowPanel load_narrow_panel(const float* p) {
  return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)};
}
inline NarrowPanel add_product(NarrowPanel sum, NarrowPanel x, float y) {
  const __m256 all = _mm256_set1_ps(y);
  return {_mm256_fmadd_ps(x.low, all, sum.low), _mm256_fmadd_ps(x.high, all, sum.high)};
}
inline void add_floats(double* p, __m256 x) {
  const __m256d low = _mm256_cvtps_pd(_mm256_castps256_ps128(x));
  const __m256d high = _mm256_cvtps_pd(_mm256_extractf128_ps(x, 1));
  _mm256_storeu_pd(p, _mm256_add_pd(_mm256_loadu_pd(p), low));
  _mm256_storeu_pd(p + 4, _mm256_add_pd(_mm256_loadu_pd(p + 4), high));
}
inline void add_narrow_panel(double* p, NarrowPanel x) {
  add_floats(p, x.low);
  add_floats(p + 8, x.high);
}

#include "codes/cpu/row_kernels_body.inc"

}  // namespace

extern constinit const RowKernels row_kernels_avx2 = make_row_kernels();

}  // namespace kith::codes
#endif
