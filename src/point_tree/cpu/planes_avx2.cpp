// Planes of neighbourhoods, AVX2: 4 side by side.
#include "point_tree/cpu/planes.hpp"

#if defined(__AVX2__)
#include <immintrin.h>

namespace kith::point_tree {
namespace {

#include "point_tree/cpu/registers_avx2.inc"

#include "point_tree/cpu/planes_point_256.inc"

#include "point_tree/cpu/planes_body.inc"

}  // namespace

const PlaneKernels plane_kernels_avx2 = {fit_planes<float>, fit_planes<double>};

}  // namespace kith::point_tree
#endif
