// Filter kernels, AVX2 and FMA: two registers a panel, one panel at a time.
#include "brute_force/cpu/kernels.hpp"

#if defined(__AVX2__)
#include "brute_force/cpu/kernels_256.inc"

namespace kith {
namespace {

constexpr int int_queries = 4;

// Without VNNI the byte products are summed through 16-bit pairs. vpmaddubsw would saturate, so even and odd
// bytes are widened first and vpmaddwd, which cannot overflow here, does the sums.
struct Bytes {
  __m256i even_low, odd_low, even_high, odd_high;
};
struct QueryBytes {
  __m256i even, odd;
};

inline Bytes load_bytes(const std::uint8_t* p) {
  const I x = load_int(reinterpret_cast<const std::int32_t*>(p));
  const __m256i byte = _mm256_set1_epi16(0xFF);
  return {_mm256_and_si256(x.low, byte), _mm256_srli_epi16(x.low, 8), _mm256_and_si256(x.high, byte),
          _mm256_srli_epi16(x.high, 8)};
}
inline QueryBytes broadcast_bytes(const char* p) {
  const __m256i y = _mm256_set1_epi32(*reinterpret_cast<const std::int32_t*>(p));
  return {_mm256_srai_epi16(_mm256_slli_epi16(y, 8), 8), _mm256_srai_epi16(y, 8)};
}
inline I dot_bytes(I acc, const Bytes& x, const QueryBytes& y) {
  const __m256i low =
      _mm256_add_epi32(_mm256_madd_epi16(x.even_low, y.even), _mm256_madd_epi16(x.odd_low, y.odd));
  const __m256i high =
      _mm256_add_epi32(_mm256_madd_epi16(x.even_high, y.even), _mm256_madd_epi16(x.odd_high, y.odd));
  return {_mm256_add_epi32(acc.low, low), _mm256_add_epi32(acc.high, high)};
}

#include "brute_force/cpu/kernels_body.inc"

}  // namespace

extern constinit const FilterKernels filter_kernels_avx2 = make_kernels();

}  // namespace kith
#endif
