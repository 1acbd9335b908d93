// Four records a register: those below go to the front of where they came from, the rest aside and then
// behind them. A record takes part in one permutation, and no branch depends on the data (vectorised
// quicksort: Bramas, "A Novel Hybrid Quicksort Algorithm Vectorized using AVX-512", 2017).
#if defined(__x86_64__)
#include <cstddef>

#include <immintrin.h>

#include "kd_tree/cpu/partition.hpp"

namespace kith::kd_tree {
namespace {

// By a mask of four records: its records first, then the others, as pairs of eight-byte lanes.
struct Orders {
  alignas(64) long long lanes[16][8];
};
constexpr Orders make_orders() {
  Orders orders{};
  for (unsigned mask = 0; mask < 16; ++mask) {
    int at = 0;
    for (int wanted = 1; wanted >= 0; --wanted) {
      for (int record = 0; record < 4; ++record) {
        if (static_cast<int>(mask >> static_cast<unsigned>(record) & 1U) != wanted) continue;
        orders.lanes[mask][at++] = 2 * record;
        orders.lanes[mask][at++] = 2 * record + 1;
      }
    }
  }
  return orders;
}
constexpr Orders orders = make_orders();

}  // namespace

std::int64_t partition_records_avx512(void* records, std::int64_t count, std::int64_t axis, float pivot) {
  constexpr std::int64_t bytes = 16;
  alignas(64) unsigned char aside[(most_partitioned + 4) * bytes];
  auto* items = static_cast<unsigned char*>(records);
  const __m512 limit = _mm512_set1_ps(pivot);
  const unsigned lanes = 0x1111U << static_cast<unsigned>(axis);
  std::int64_t front = 0;
  std::int64_t behind = 0;
  for (std::int64_t i = 0; i < count; i += 4) {
    // Of a last register only what is there; what is stored past it is never looked at.
    const std::int64_t left = count - i;
    const auto there =
        static_cast<__mmask8>(left >= 4 ? 0xFFU : (1U << static_cast<unsigned>(2 * left)) - 1U);
    const __m512i four = _mm512_maskz_loadu_epi64(there, items + i * bytes);
    const unsigned real = left >= 4 ? 15U : (1U << static_cast<unsigned>(left)) - 1U;
    const unsigned below =
        _pext_u32(_mm512_cmp_ps_mask(_mm512_castsi512_ps(four), limit, _CMP_LT_OQ), lanes) & real;
    const unsigned rest = below ^ real;
    const __m512i first = _mm512_permutexvar_epi64(_mm512_load_si512(orders.lanes[below]), four);
    _mm512_mask_storeu_epi64(items + front * bytes, there, first);
    _mm512_storeu_si512(aside + behind * bytes,
                        _mm512_permutexvar_epi64(_mm512_load_si512(orders.lanes[rest]), four));
    front += __builtin_popcount(below);
    behind += __builtin_popcount(rest);
  }
  __builtin_memcpy(items + front * bytes, aside, static_cast<std::size_t>(behind * bytes));
  return front;
}

}  // namespace kith::kd_tree
#endif
