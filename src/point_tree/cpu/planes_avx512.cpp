// Planes of neighbourhoods, AVX-512: 8 side by side.
#include "point_tree/cpu/planes.hpp"

#if defined(__AVX512F__)
#include <immintrin.h>

namespace kith::point_tree {
namespace {

#include "point_tree/cpu/registers_avx512.inc"

#include "point_tree/cpu/planes_point_256.inc"

inline Point sub(Point a, Point b) {
  return _mm256_sub_pd(a, b);
}
inline Point add(Point a, Point b) {
  return _mm256_add_pd(a, b);
}
inline Point mul(Point a, Point b) {
  return _mm256_mul_pd(a, b);
}
inline void store(double* p, Point a) {
  _mm256_storeu_pd(p, a);
}

#include "point_tree/cpu/planes_body.inc"

}  // namespace

const PlaneKernels plane_kernels_avx512 = {fit_planes<float>, fit_planes<double>};

}  // namespace kith::point_tree
#endif
