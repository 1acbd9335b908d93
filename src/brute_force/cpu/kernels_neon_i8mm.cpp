// Filter kernels, NEON with dot products of unsigned and signed bytes (ARMv8.6 i8mm).
#include "brute_force/cpu/kernels.hpp"

#if defined(__ARM_FEATURE_MATMUL_INT8)
#include "brute_force/cpu/kernels_neon.inc"

namespace kith {
namespace {

using Bytes = PlainBytes;
using QueryBytes = int8x16_t;

inline Bytes load_bytes(const std::uint8_t* p) {
  return load_plain_bytes(p);
}
inline QueryBytes broadcast_bytes(const char* p) {
  return vreinterpretq_s8_u8(broadcast_plain_bytes(p));
}
inline I dot_bytes(const I& sum, const Bytes& x, QueryBytes y) {
  return {vusdotq_s32(sum.a, x.a, y), vusdotq_s32(sum.b, x.b, y), vusdotq_s32(sum.c, x.c, y),
          vusdotq_s32(sum.d, x.d, y)};
}

#include "brute_force/cpu/kernels_body.inc"

}  // namespace

extern constinit const FilterKernels filter_kernels_neon_i8mm =
    make_kernels<Int8Codes<ByteProduct>>(fine_values_portable);

}  // namespace kith
#endif
