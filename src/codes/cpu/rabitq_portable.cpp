// RaBitQ's kernels, plain C++.
#include "codes/cpu/rabitq.hpp"

namespace kith::codes {
namespace {

using Query = const std::int16_t*;
using Sum = std::int32_t;

inline Query load(const std::int16_t* values) {
  return values;
}
inline Sum zero() {
  return 0;
}
template <int bit>
inline Sum add(Sum sum, Query query, std::uint32_t word) {
  std::int32_t chosen = 0;
  for (int i = 0; i < 32; ++i) chosen += query[i] & -static_cast<std::int32_t>(word >> i & 1U);
  return sum + chosen * (1 << bit);
}
inline std::int32_t total(Sum sum) {
  return sum;
}

#include "codes/cpu/rabitq_body.inc"

}  // namespace

extern constinit const RabitqKernels rabitq_kernels_portable = {dots, gathered_dots, fit};

}  // namespace kith::codes
