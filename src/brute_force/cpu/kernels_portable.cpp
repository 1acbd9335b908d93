// Filter kernels in plain C++ with the compilers' vector extension, for CPUs without AVX2 and as the path the
// others are compared with.
#include "brute_force/cpu/kernels.hpp"

#include "kith/dtype.hpp"

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wpsabi"  // nothing of these types leaves this file
#endif

namespace kith {
namespace {

constexpr int panels = 1;
constexpr int float_queries = 2;
constexpr int int_queries = 2;
constexpr int width = panel_rows;

using F = float __attribute__((vector_size(64)));
using I = std::int32_t __attribute__((vector_size(64)));
struct Bytes {
  I v[4];  // value 0, 1, 2, 3 of the step, for 16 rows each
};
struct QueryBytes {
  std::int32_t v[4];
};

inline F set_float(float x) {
  return F{} + x;
}
inline F load_floats(const float* p) {
  F r;
  __builtin_memcpy(&r, p, sizeof r);
  return r;
}
inline F load_halves(const std::uint16_t* p) {
  F r{};
  for (int l = 0; l < width; ++l) r[l] = to_float(float16{p[l]});
  return r;
}
inline F mul(F a, F b) {
  return a * b;
}
inline F sub(F a, F b) {
  return a - b;
}
// Two roundings where the other paths have one; the error bound allows for two.
inline F fma(F a, F b, F c) {
  return a * b + c;
}
inline F negated_fma(F a, F b, F c) {
  return c - a * b;
}
inline F add_abs(F a, F b) {
  return a + (b < 0 ? -b : b);
}
inline std::uint32_t bits(I lanes) {
  std::uint32_t set = 0;
  for (int l = 0; l < width; ++l) set |= static_cast<std::uint32_t>(lanes[l] & 1) << l;
  return set;
}
inline std::uint32_t not_less(F a, F b) {
  return ~bits(a < b) & 0xFFFFU;
}

inline I set_int(std::int32_t x) {
  return I{} + x;
}
inline I load_int(const std::int32_t* p) {
  I r;
  __builtin_memcpy(&r, p, sizeof r);
  return r;
}
inline I add_int(I a, I b) {
  return a + b;
}
inline F to_floats(I a) {
  return __builtin_convertvector(a, F);
}
inline std::uint32_t int_not_less(I a, I b) {
  return bits(a >= b);
}
inline Bytes load_bytes(const std::uint8_t* p) {
  I words;
  __builtin_memcpy(&words, p, sizeof words);
  return {{words & 0xFF, (words >> 8) & 0xFF, (words >> 16) & 0xFF, (words >> 24) & 0xFF}};
}
inline QueryBytes broadcast_bytes(const char* p) {
  const auto* bytes = reinterpret_cast<const signed char*>(p);
  return {{bytes[0], bytes[1], bytes[2], bytes[3]}};
}
inline I dot_bytes(I acc, const Bytes& x, const QueryBytes& y) {
  for (int j = 0; j < 4; ++j) acc += x.v[j] * y.v[j];
  return acc;
}

using PlainBytes = Bytes;
using PlainQueryBytes = QueryBytes;
inline PlainBytes load_plain_bytes(const std::uint8_t* p) {
  return load_bytes(p);
}
inline PlainQueryBytes broadcast_plain_bytes(const char* p) {
  const auto* bytes = reinterpret_cast<const unsigned char*>(p);
  return {{bytes[0], bytes[1], bytes[2], bytes[3]}};
}
inline I add_byte_differences(I acc, const PlainBytes& x, const PlainQueryBytes& y) {
  for (int j = 0; j < 4; ++j) {
    const I difference = x.v[j] - y.v[j];
    acc += difference < 0 ? -difference : difference;
  }
  return acc;
}

#include "brute_force/cpu/kernels_body.inc"

}  // namespace

void fine_values_portable(const std::int16_t* codes, const std::int32_t* norms, std::int64_t width,
                          const std::int16_t* query, const std::int64_t* rows, std::int64_t count,
                          std::int32_t* values) {
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int16_t* its = codes + rows[i] * width;
    std::int32_t sum = 0;
    for (std::int64_t j = 0; j < width; ++j) sum += its[j] * query[j];
    values[i] = 2 * sum - norms[rows[i]];
  }
}

extern constinit const FilterKernels filter_kernels_portable =
    make_kernels<Int8Codes<ByteProduct>>(fine_values_portable);

}  // namespace kith
