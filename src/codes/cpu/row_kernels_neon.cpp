// Row kernels, NEON.
#include "codes/cpu/row_kernels.hpp"

#include "codes/form.hpp"

#include "kith/dtype.hpp"

#if defined(__aarch64__)
#include <arm_neon.h>

namespace kith::codes {
namespace {

inline double widen(float16 x) {
  __fp16 half;
  __builtin_memcpy(&half, &x.bits, sizeof half);
  return static_cast<float>(half);
}
inline double widen(bfloat16 x) {
  const std::uint32_t bits = static_cast<std::uint32_t>(x.bits) << 16U;
  float wide;
  __builtin_memcpy(&wide, &bits, sizeof wide);
  return wide;
}

struct Panel {
  float64x2_t a, b, c, d;
};

inline Panel zero_panel() {
  const float64x2_t none = vdupq_n_f64(0);
  return {none, none, none, none};
}
inline Panel load_panel(const double* p) {
  return {vld1q_f64(p), vld1q_f64(p + 2), vld1q_f64(p + 4), vld1q_f64(p + 6)};
}
inline Panel add_product(const Panel& sum, const Panel& x, double y) {
  const float64x2_t all = vdupq_n_f64(y);
  return {vfmaq_f64(sum.a, x.a, all), vfmaq_f64(sum.b, x.b, all), vfmaq_f64(sum.c, x.c, all),
          vfmaq_f64(sum.d, x.d, all)};
}
inline Panel add_rounded_product(const Panel& sum, const Panel& x, double y) {
  const float64x2_t all = vdupq_n_f64(y);
  return {vaddq_f64(sum.a, vmulq_f64(x.a, all)), vaddq_f64(sum.b, vmulq_f64(x.b, all)),
          vaddq_f64(sum.c, vmulq_f64(x.c, all)), vaddq_f64(sum.d, vmulq_f64(x.d, all))};
}
inline void store_panel(double* p, const Panel& x) {
  vst1q_f64(p, x.a);
  vst1q_f64(p + 2, x.b);
  vst1q_f64(p + 4, x.c);
  vst1q_f64(p + 6, x.d);
}

struct NarrowPanel {
  float32x4_t a, b, c, d;
};

inline NarrowPanel zero_narrow_panel() {
  const float32x4_t none = vdupq_n_f32(0);
  return {none, none, none, none};
}
inline NarrowPanel load_narrow_panel(const float* p) {
  return {vld1q_f32(p), vld1q_f32(p + 4), vld1q_f32(p + 8), vld1q_f32(p + 12)};
}
inline NarrowPanel add_product(const NarrowPanel& sum, const NarrowPanel& x, float y) {
  const float32x4_t all = vdupq_n_f32(y);
  return {vfmaq_f32(sum.a, x.a, all), vfmaq_f32(sum.b, x.b, all), vfmaq_f32(sum.c, x.c, all),
          vfmaq_f32(sum.d, x.d, all)};
}
inline void add_floats(double* p, float32x4_t x) {
  vst1q_f64(p, vaddq_f64(vld1q_f64(p), vcvt_f64_f32(vget_low_f32(x))));
  vst1q_f64(p + 2, vaddq_f64(vld1q_f64(p + 2), vcvt_high_f64_f32(x)));
}
inline void add_narrow_panel(double* p, const NarrowPanel& x) {
  add_floats(p, x.a);
  add_floats(p + 4, x.b);
  add_floats(p + 8, x.c);
  add_floats(p + 12, x.d);
}

#include "codes/cpu/row_kernels_body.inc"

}  // namespace

extern constinit const RowKernels row_kernels_neon = make_row_kernels();

}  // namespace kith::codes
#endif
