// Sorting and merging a thread's registers by networks of comparisons, the same for all threads.
#pragma once

#include <cstdint>
#include <utility>

#include <cuda_runtime_api.h>

namespace kith::select_k::cuda {

__device__ inline void order(std::uint32_t& a, std::uint32_t& b) {
  const std::uint32_t low = min(a, b);
  b = max(a, b);
  a = low;
}

// Registers have no addresses: which two are compared must be known to the compiler, so these networks are
// spelled out by templates, not loops.
template <int stride, bool (*applies)(int), int n, class V, int... x>
__device__ void compare_all(V (&v)[n], std::integer_sequence<int, x...> /*positions*/) {
  const auto one = [&]<int i>() {
    if constexpr (applies(i)) order(v[i], v[i + stride]);
  };
  (one.template operator()<x>(), ...);
}

template <int p, int stride>
__host__ __device__ constexpr bool in_odd_even_merge(int x) {
  return x >= stride % p && (x - stride % p) / stride % 2 == 0 && x / (2 * p) == (x + stride) / (2 * p);
}
template <int stride, int before>
__host__ __device__ constexpr bool in_bitonic_merge(int x) {
  return ((x + before) & stride) == 0;
}

/// Sorts: odd-even merge sort (Batcher 1968).
template <int p = 1, int stride = 1, int n, class V>
__device__ void sort_registers(V (&v)[n]) {
  if constexpr (p < n) {
    if constexpr (stride < n) {
      compare_all<stride, in_odd_even_merge<p, stride>>(v, std::make_integer_sequence<int, n - stride>());
    }
    if constexpr (stride > 1) {
      sort_registers<p, stride / 2>(v);
    } else {
      sort_registers<2 * p, 2 * p>(v);
    }
  }
}

/// Sorts what first rises and then falls, also if imagined to begin with as many 0 as a power of two lacks.
template <int stride, int n>
__device__ void merge_bitonic(std::uint32_t (&list)[n]) {
  constexpr int whole = n <= 8 ? 8 : (n <= 16 ? 16 : (n <= 32 ? 32 : 64));
  if constexpr (stride > 0) {
    if constexpr (stride < n) {
      compare_all<stride, in_bitonic_merge<stride, whole - n>>(list,
                                                               std::make_integer_sequence<int, n - stride>());
    }
    merge_bitonic<stride / 2>(list);
  }
}

}  // namespace kith::select_k::cuda
