// Filter kernels, AVX2 with AVX-VNNI (256-bit dot products): two registers a panel, one panel at a time.
#include "brute_force/cpu/kernels.hpp"

#if defined(__AVXVNNI__)
#include "brute_force/cpu/kernels_256.inc"

namespace kith {
namespace {

constexpr int int_queries = 6;

using Bytes = I;
using QueryBytes = __m256i;

inline Bytes load_bytes(const std::uint8_t* p) {
  return load_int(reinterpret_cast<const std::int32_t*>(p));
}
inline QueryBytes broadcast_bytes(const char* p) {
  return _mm256_set1_epi32(*reinterpret_cast<const std::int32_t*>(p));
}
inline I dot_bytes(I acc, const Bytes& x, QueryBytes y) {
  return {_mm256_dpbusd_avx_epi32(acc.low, x.low, y), _mm256_dpbusd_avx_epi32(acc.high, x.high, y)};
}

#include "brute_force/cpu/kernels_body.inc"

}  // namespace

extern const FilterKernels filter_kernels_avx_vnni = make_kernels();

}  // namespace kith
#endif
