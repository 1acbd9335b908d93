// Filter kernels, AVX-512 with VNNI: one register a panel, 24 accumulators (6 queries x 4 panels).
#include "brute_force/cpu/kernels.hpp"

#if defined(__AVX512VNNI__)
#include <immintrin.h>

#include "brute_force/cpu/kernels_fine_256.inc"

namespace kith {
namespace {

constexpr int panels = 4;
constexpr int float_queries = 6;
constexpr int int_queries = 6;

using F = __m512;
using I = __m512i;
using Bytes = __m512i;
using QueryBytes = __m512i;

inline F set_float(float x) {
  return _mm512_set1_ps(x);
}
inline F load_floats(const float* p) {
  return _mm512_loadu_ps(p);
}
inline F load_halves(const std::uint16_t* p) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
inline F mul(F a, F b) {
  return _mm512_mul_ps(a, b);
}
inline F sub(F a, F b) {
  return _mm512_sub_ps(a, b);
}
inline F fma(F a, F b, F c) {
  return _mm512_fmadd_ps(a, b, c);
}
inline F negated_fma(F a, F b, F c) {
  return _mm512_fnmadd_ps(a, b, c);
}
inline F add_abs(F a, F b) {
  return _mm512_add_ps(a, _mm512_abs_ps(b));
}
// Bits of a >= b, and of unordered: a NaN is never a reason to drop a row.
inline std::uint32_t not_less(F a, F b) {
  return _mm512_cmp_ps_mask(a, b, _CMP_NLT_UQ);
}

inline I set_int(std::int32_t x) {
  return _mm512_set1_epi32(x);
}
inline I load_int(const std::int32_t* p) {
  return _mm512_loadu_si512(p);
}
inline I add_int(I a, I b) {
  return _mm512_add_epi32(a, b);
}
inline F to_floats(I a) {
  return _mm512_cvtepi32_ps(a);
}
inline std::uint32_t int_not_less(I a, I b) {
  return _mm512_cmpge_epi32_mask(a, b);
}
inline Bytes load_bytes(const std::uint8_t* p) {
  return _mm512_loadu_si512(p);
}
inline QueryBytes broadcast_bytes(const char* p) {
  return _mm512_set1_epi32(*reinterpret_cast<const std::int32_t*>(p));
}
// In assembly because GCC 12 copies the accumulator of the intrinsic and then spills half of the 24.
inline I dot_bytes(I acc, Bytes x, QueryBytes y) {
  asm("vpdpbusd %2, %1, %0" : "+v"(acc) : "v"(x), "v"(y));
  return acc;
}

using PlainBytes = __m512i;
using PlainQueryBytes = __m512i;
inline PlainBytes load_plain_bytes(const std::uint8_t* p) {
  return load_bytes(p);
}
inline PlainQueryBytes broadcast_plain_bytes(const char* p) {
  return broadcast_bytes(p);
}
inline I add_byte_differences(I acc, PlainBytes x, PlainQueryBytes y) {
  const __m512i difference = _mm512_sub_epi8(_mm512_max_epu8(x, y), _mm512_min_epu8(x, y));
  return _mm512_dpbusd_epi32(acc, difference, _mm512_set1_epi8(1));
}

#include "brute_force/cpu/kernels_body.inc"

}  // namespace

extern constinit const FilterKernels filter_kernels_avx512_vnni =
    make_kernels<Int8Codes<ByteProduct>>(fine_values);

}  // namespace kith
#endif
