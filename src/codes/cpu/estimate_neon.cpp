// Distances of codes, NEON: differences stay bytes, and udot sums their squares.
#include "codes/cpu/estimate.hpp"

#if defined(__ARM_FEATURE_DOTPROD)
#include <arm_neon.h>

namespace kith::codes {
namespace {

using Sum = uint32x4_t;

inline Sum zero() {
  return vdupq_n_u32(0);
}
inline std::int32_t total(Sum sum) {
  return static_cast<std::int32_t>(vaddvq_u32(sum));
}
inline void totals(const Sum* sums, std::int32_t* out) {
  const uint32x4_t all = vpaddq_u32(vpaddq_u32(sums[0], sums[1]), vpaddq_u32(sums[2], sums[3]));
  vst1q_s32(out, vreinterpretq_s32_u32(all));
}

struct Part {
  uint8x16_t low, high;
};
inline Part load_part(const std::uint8_t* bytes) {
  return {vld1q_u8(bytes), vld1q_u8(bytes + 16)};
}
inline Sum add_squares(Sum sum, uint8x16_t query, uint8x16_t code) {
  const uint8x16_t difference = vabdq_u8(query, code);
  return vdotq_u32(sum, difference, difference);
}

struct Bytes {
  static constexpr std::int64_t step = 32;
  static Part load(const std::uint8_t* bytes) { return load_part(bytes); }
  static Part ask(const Part& query) { return query; }
  static Sum add(Sum sum, const Part& query, const Part& code) {
    return add_squares(add_squares(sum, query.low, code.low), query.high, code.high);
  }
  static std::int32_t rest(const std::uint8_t* /*query*/, std::int64_t /*bytes*/) { return 0; }
};

struct Halves {
  static constexpr std::int64_t step = 32;
  struct Four {
    Part low, high;  // halves of each byte
  };
  static Four load(const std::uint8_t* bytes) {
    const Part packed = load_part(bytes);
    const uint8x16_t mask = vdupq_n_u8(15);
    return {{vandq_u8(packed.low, mask), vandq_u8(packed.high, mask)},
            {vshrq_n_u8(packed.low, 4), vshrq_n_u8(packed.high, 4)}};
  }
  static Four ask(const Four& query) { return query; }
  static Sum add(Sum sum, const Four& query, const Four& code) {
    return Bytes::add(Bytes::add(sum, query.low, code.low), query.high, code.high);
  }
  static std::int32_t rest(const std::uint8_t* /*query*/, std::int64_t /*bytes*/) { return 0; }
};

#include "codes/cpu/estimate_body.inc"

}  // namespace

extern constinit const EstimateKernels estimate_kernels_neon = {gathered<Bytes>, gathered<Halves>};

}  // namespace kith::codes
#endif
