// Products of which some are to be kept, put aside until there is time to look which (filter_codes_wide.cu).
#pragma once

#include <cstdint>

#include "brute_force/cuda/append.cuh"
#include "brute_force/cuda/kernels.hpp"

namespace kith::brute_force::cuda {

/// Of a thread.
inline constexpr int staged_products = 16;

/// An eighth of a thread's products, of one of its rows with 16 queries, in shared memory. Every thread has
/// its own, or none, and reads no others; all that wait in a warp are looked through at once, while the next
/// products are made.
template <class S>
class Staged {
 public:
  using Value = typename S::Value;

  __device__ Staged(Value* products, const Value* limits, std::int64_t first_query)
      : products_(products), limits_(limits), first_(first_query) {}

  // Eighth number `s` of `all`, or none (-1), of row `id`. `warp`: those of any thread.
  __device__ void put(const Value (&all)[128], int s, unsigned warp, Value least, std::uint32_t id) {
#pragma unroll
    for (int other = 0; other < 8; ++other) {
      if ((warp >> other & 1U) == 0 || other != s) continue;
#pragma unroll
      for (int e = 0; e < each; ++e) {
        products_[e * 32] = all[(other / 2 * 8 + e / 2) * 4 + other % 2 * 2 + e % 2];
      }
    }
    eighth_ = s;
    least_ = least;
    id_ = id;
    waiting_ = true;
  }

  __device__ void look_through(Appender& appender) {
    if (!waiting_) return;
    waiting_ = false;
    const int column = max(eighth_, 0) / 2 * 64 + static_cast<int>(threadIdx.x) % 4 * 2;
    unsigned hits = 0;
#pragma unroll
    for (int e = 0; e < each; ++e) {
      const bool hit = S::sum(products_[e * 32], limits_[column + e / 2 * 8 + e % 2]) >= least_;
      hits |= hit ? 1U << e : 0U;
    }
    if (eighth_ < 0) hits = 0;
#pragma unroll 1
    do {
      const int e = hits != 0 ? __ffs(static_cast<int>(hits)) - 1 : 0;
      const std::int32_t score = S::order(S::sum(products_[e * 32], S::opposite(least_)));
      appender.add(hits != 0, first_ + column + e / 2 * 8 + e % 2, make_candidate(score, id_));
      hits &= hits - 1U;
    } while (__any_sync(0xffffffffU, hits != 0));
  }

  static constexpr int each = staged_products;

 private:
  Value* products_;  // each [32] apart
  const Value* limits_;
  std::int64_t first_;
  int eighth_ = -1;
  Value least_{};
  std::uint32_t id_ = 0;
  bool waiting_ = false;  // the same in the whole warp
};

}  // namespace kith::brute_force::cuda
