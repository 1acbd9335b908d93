// RaBitQ's kernels, NEON: a byte's bits become masks of 16 bits each.
#include "codes/cpu/rabitq.hpp"

#if defined(__aarch64__)
#include <arm_neon.h>

namespace kith::codes {
namespace {

struct Query {
  int16x8_t a, b, c, d;
};
using Sum = int32x4_t;

inline Query load(const std::int16_t* values) {
  return {vld1q_s16(values), vld1q_s16(values + 8), vld1q_s16(values + 16), vld1q_s16(values + 24)};
}

inline Sum zero() {
  return vdupq_n_s32(0);
}

// The values whose bit is set, 8 of them.
inline int16x8_t chosen(int16x8_t values, std::uint32_t byte) {
  const uint16x8_t bits = vmovl_u8(vcreate_u8(0x8040201008040201U));
  const uint16x8_t mask = vtstq_u16(vdupq_n_u16(static_cast<std::uint16_t>(byte)), bits);
  return vandq_s16(values, vreinterpretq_s16_u16(mask));
}

template <int bit>
inline Sum add(Sum sum, const Query& query, std::uint32_t word) {
  int32x4_t all = vpaddlq_s16(chosen(query.a, word & 0xFFU));
  all = vpadalq_s16(all, chosen(query.b, word >> 8U & 0xFFU));
  all = vpadalq_s16(all, chosen(query.c, word >> 16U & 0xFFU));
  all = vpadalq_s16(all, chosen(query.d, word >> 24U));
  return vaddq_s32(sum, vshlq_n_s32(all, bit));
}

inline std::int32_t total(Sum sum) {
  return vaddvq_s32(sum);
}

#include "codes/cpu/rabitq_body.inc"

}  // namespace

extern constinit const RabitqKernels rabitq_kernels_neon = {dots, gathered_dots, fit};

}  // namespace kith::codes
#endif
