// Filter kernels, NEON with dot products of bytes of the same signedness (ARMv8.2 dotprod).
#include "brute_force/cpu/kernels.hpp"

#if defined(__ARM_FEATURE_DOTPROD)
#include "brute_force/cpu/kernels_neon.inc"

namespace kith {
namespace {

// Bytes of rows have no sign, those of queries one: x y = (x - 128) y + 128 y. The second sum is the query's
// alone.
struct Bytes {
  int8x16_t a, b, c, d;
};
struct QueryBytes {
  int8x16_t values;
  int32x4_t more;
};

inline Bytes load_bytes(const std::uint8_t* p) {
  const PlainBytes x = load_plain_bytes(p);
  const uint8x16_t sign = vdupq_n_u8(0x80);
  return {vreinterpretq_s8_u8(veorq_u8(x.a, sign)), vreinterpretq_s8_u8(veorq_u8(x.b, sign)),
          vreinterpretq_s8_u8(veorq_u8(x.c, sign)), vreinterpretq_s8_u8(veorq_u8(x.d, sign))};
}
inline QueryBytes broadcast_bytes(const char* p) {
  const int8x16_t values = vreinterpretq_s8_u8(broadcast_plain_bytes(p));
  return {values, vshlq_n_s32(vdotq_s32(vdupq_n_s32(0), vdupq_n_s8(64), values), 1)};
}
inline I dot_bytes(const I& sum, const Bytes& x, const QueryBytes& y) {
  return {
      vdotq_s32(vaddq_s32(sum.a, y.more), x.a, y.values), vdotq_s32(vaddq_s32(sum.b, y.more), x.b, y.values),
      vdotq_s32(vaddq_s32(sum.c, y.more), x.c, y.values), vdotq_s32(vaddq_s32(sum.d, y.more), x.d, y.values)};
}

#include "brute_force/cpu/kernels_body.inc"

}  // namespace

extern constinit const FilterKernels filter_kernels_neon =
    make_kernels<Int8Codes<ByteProduct>>(fine_values_portable);

}  // namespace kith
#endif
