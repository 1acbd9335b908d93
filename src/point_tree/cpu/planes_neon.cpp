// Planes of neighbourhoods, NEON: 4 side by side.
#include "point_tree/cpu/planes.hpp"

#if defined(__aarch64__)
#include <arm_neon.h>

namespace kith::point_tree {
namespace {

#include "point_tree/cpu/registers_neon.inc"

using Point = Doubles;

inline Point load_point(const double* p) {
  return {vld1q_f64(p), vcombine_f64(vld1_f64(p + 2), vdup_n_f64(0))};
}
inline Point load_point(const float* p) {
  return {vcvt_f64_f32(vld1_f32(p)), vcombine_f64(vdup_n_f64(p[2]), vdup_n_f64(0))};
}
inline Point turned(Point a) {
  return {vextq_f64(a.low, a.high, 1), vcombine_f64(vget_low_f64(a.low), vget_high_f64(a.high))};
}

#include "point_tree/cpu/planes_body.inc"

}  // namespace

const PlaneKernels plane_kernels_neon = {fit_planes<float>, fit_planes<double>};

}  // namespace kith::point_tree
#endif
