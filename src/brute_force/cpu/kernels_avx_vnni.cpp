// Filter kernels, AVX2 with AVX-VNNI (256-bit dot products): two registers a panel, one panel at a time.
#include "brute_force/cpu/kernels.hpp"

#if defined(__AVXVNNI__)
#include "brute_force/cpu/kernels_256.inc"
#include "brute_force/cpu/kernels_fine_256.inc"

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
// In assembly for the reason given in kernels_avx512_vnni.cpp.
inline I dot_bytes(I acc, const Bytes& x, QueryBytes y) {
  asm("%{vex%} vpdpbusd %2, %1, %0" : "+x"(acc.low) : "x"(x.low), "x"(y));
  asm("%{vex%} vpdpbusd %2, %1, %0" : "+x"(acc.high) : "x"(x.high), "x"(y));
  return acc;
}

#include "brute_force/cpu/kernels_body.inc"

}  // namespace

extern constinit const FilterKernels filter_kernels_avx_vnni =
    make_kernels<Int8Codes<ByteProduct>>(fine_values);

}  // namespace kith
#endif
