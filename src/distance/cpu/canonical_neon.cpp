// Canonical distance, NEON: two lanes in each of four registers.
#include "distance/cpu/canonical_sets.hpp"

#if defined(__aarch64__)
#include <arm_neon.h>

namespace kith {
namespace {

struct Lanes {
  float64x2_t a, b, c, d;
};

inline Lanes zero() {
  const float64x2_t none = vdupq_n_f64(0);
  return {none, none, none, none};
}
inline Lanes widen(float32x4_t low, float32x4_t high) {
  return {vcvt_f64_f32(vget_low_f32(low)), vcvt_high_f64_f32(low), vcvt_f64_f32(vget_low_f32(high)),
          vcvt_high_f64_f32(high)};
}
inline Lanes load(const double* p) {
  return {vld1q_f64(p), vld1q_f64(p + 2), vld1q_f64(p + 4), vld1q_f64(p + 6)};
}
inline Lanes load(const float* p) {
  return widen(vld1q_f32(p), vld1q_f32(p + 4));
}
inline Lanes load(const float16* p) {
  const float16x8_t halves = vreinterpretq_f16_u16(vld1q_u16(reinterpret_cast<const std::uint16_t*>(p)));
  return widen(vcvt_f32_f16(vget_low_f16(halves)), vcvt_high_f32_f16(halves));
}
inline Lanes load(const bfloat16* p) {
  const uint16x8_t halves = vld1q_u16(reinterpret_cast<const std::uint16_t*>(p));
  return widen(vreinterpretq_f32_u32(vshlq_n_u32(vmovl_u16(vget_low_u16(halves)), 16)),
               vreinterpretq_f32_u32(vshlq_n_u32(vmovl_high_u16(halves), 16)));
}
inline Lanes load(const std::int8_t* p) {
  const int16x8_t wide = vmovl_s8(vld1_s8(p));
  return widen(vcvtq_f32_s32(vmovl_s16(vget_low_s16(wide))), vcvtq_f32_s32(vmovl_high_s16(wide)));
}
inline Lanes load(const std::uint8_t* p) {
  const uint16x8_t wide = vmovl_u8(vld1_u8(p));
  return widen(vcvtq_f32_u32(vmovl_u16(vget_low_u16(wide))), vcvtq_f32_u32(vmovl_high_u16(wide)));
}
inline Lanes add(const Lanes& x, const Lanes& y) {
  return {vaddq_f64(x.a, y.a), vaddq_f64(x.b, y.b), vaddq_f64(x.c, y.c), vaddq_f64(x.d, y.d)};
}
inline Lanes sub(const Lanes& x, const Lanes& y) {
  return {vsubq_f64(x.a, y.a), vsubq_f64(x.b, y.b), vsubq_f64(x.c, y.c), vsubq_f64(x.d, y.d)};
}
inline Lanes fma(const Lanes& x, const Lanes& y, const Lanes& z) {
  return {vfmaq_f64(z.a, x.a, y.a), vfmaq_f64(z.b, x.b, y.b), vfmaq_f64(z.c, x.c, y.c),
          vfmaq_f64(z.d, x.d, y.d)};
}
inline Lanes absolute(const Lanes& x) {
  return {vabsq_f64(x.a), vabsq_f64(x.b), vabsq_f64(x.c), vabsq_f64(x.d)};
}
inline void store(double* p, const Lanes& x) {
  vst1q_f64(p, x.a);
  vst1q_f64(p + 2, x.b);
  vst1q_f64(p + 4, x.c);
  vst1q_f64(p + 6, x.d);
}

#include "distance/cpu/canonical_body.inc"

}  // namespace

CanonicalFunction canonical_neon(Dtype dtype, Metric metric) {
  return select(dtype, metric);
}

}  // namespace kith
#endif
