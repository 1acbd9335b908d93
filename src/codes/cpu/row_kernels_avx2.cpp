// Row kernels, AVX2.
#include "codes/cpu/row_kernels.hpp"

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

#include "codes/cpu/row_kernels_body.inc"

}  // namespace

extern constinit const RowKernels row_kernels_avx2 = make_row_kernels();

}  // namespace kith::codes
#endif
