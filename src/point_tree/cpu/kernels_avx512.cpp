// Tree kernels, AVX-512: 16 boxes or points at a time, the k-list of float distances in registers.
#include "point_tree/cpu/kernels.hpp"

#if defined(__AVX512F__)
#include <immintrin.h>

namespace kith::point_tree {
namespace {

using Floats = __m512;
using Doubles = __m512d;
constexpr int floats = 16;
constexpr int doubles = 8;

inline Floats load(const float* p) {
  return _mm512_loadu_ps(p);
}
inline Doubles load(const double* p) {
  return _mm512_loadu_pd(p);
}
inline Floats spread(float v) {
  return _mm512_set1_ps(v);
}
inline Doubles spread(double v) {
  return _mm512_set1_pd(v);
}
inline Floats sub(Floats a, Floats b) {
  return _mm512_sub_ps(a, b);
}
inline Doubles sub(Doubles a, Doubles b) {
  return _mm512_sub_pd(a, b);
}
inline Floats add(Floats a, Floats b) {
  return _mm512_add_ps(a, b);
}
inline Doubles add(Doubles a, Doubles b) {
  return _mm512_add_pd(a, b);
}
inline Doubles mul(Doubles a, Doubles b) {
  return _mm512_mul_pd(a, b);
}
inline Floats fma(Floats a, Floats b, Floats c) {
  return _mm512_fmadd_ps(a, b, c);
}
inline Doubles fma(Doubles a, Doubles b, Doubles c) {
  return _mm512_fmadd_pd(a, b, c);
}
inline Floats larger(Floats a, Floats b) {
  return _mm512_max_ps(a, b);
}
inline Doubles larger(Doubles a, Doubles b) {
  return _mm512_max_pd(a, b);
}
inline Floats absolute(Floats a) {
  return _mm512_abs_ps(a);
}
inline Doubles absolute(Doubles a) {
  return _mm512_abs_pd(a);
}
inline Doubles root(Doubles a) {
  return _mm512_sqrt_pd(a);
}
inline Doubles low_half(Floats a) {
  return _mm512_cvtps_pd(_mm512_castps512_ps256(a));
}
inline Doubles high_half(Floats a) {
  return _mm512_cvtps_pd(_mm512_extractf32x8_ps(a, 1));
}
inline void store(float* p, Floats v) {
  _mm512_storeu_ps(p, v);
}
inline void store(double* p, Doubles v) {
  _mm512_storeu_pd(p, v);
}
inline void store_narrow(float* p, Doubles v) {
  _mm256_storeu_ps(p, _mm512_cvtpd_ps(v));
}
inline unsigned at_most(Floats a, Floats b) {
  return _mm512_cmp_ps_mask(a, b, _CMP_LE_OQ);
}
inline unsigned at_most(Doubles a, Doubles b) {
  return _mm512_cmp_pd_mask(a, b, _CMP_LE_OQ);
}

// Up to K entries as integers, the distance's bits above the row: their order is the contract's. They fill
// the upper k lanes of K / 8 registers, zeros the lower ones, so that the worst is always the last lane.
// Insertion moves the larger ones up by a lane: new[i] = min(old[i], max(old[i - 1], entry)).
template <int K>
class PackedList {
 public:
  explicit PackedList(const Task<float>& task) : k_(task.k) {}
  void start(float bound) {
    const long long empty = static_cast<long long>(key_of(bound, UINT32_MAX));
    const __m512i lane = _mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0);
    for (int r = 0; r < registers; ++r) {
      const __mmask8 used = _mm512_cmpge_epi64_mask(
          _mm512_add_epi64(lane, _mm512_set1_epi64(8 * r)), _mm512_set1_epi64(K - k_));
      keys_[r] = _mm512_maskz_set1_epi64(used, empty);
    }
    worst_ = static_cast<std::uint64_t>(empty);
  }
  float bound() const {
    const auto bits = static_cast<std::uint32_t>(worst_ >> 32U);
    float value;
    __builtin_memcpy(&value, &bits, sizeof value);
    return value;
  }
  bool full() const { return static_cast<std::uint32_t>(worst_) != UINT32_MAX; }
  bool offer(float distance, std::int64_t row) {
    const std::uint64_t key = key_of(distance, static_cast<std::uint32_t>(row));
    if (key >= worst_) return false;
    const __m512i entry = _mm512_set1_epi64(static_cast<long long>(key));
    __m512i below = _mm512_setzero_si512();
    for (int r = 0; r < registers; ++r) {
      const __m512i old = keys_[r];
      const __m512i moved = _mm512_alignr_epi64(old, below, 7);
      keys_[r] = _mm512_min_epu64(old, _mm512_max_epu64(moved, entry));
      below = old;
    }
    const __m128i last = _mm512_extracti64x2_epi64(keys_[registers - 1], 3);
    worst_ = static_cast<std::uint64_t>(_mm_extract_epi64(last, 1));
    return true;
  }
  void finish(Task<float>& task, std::int64_t query) const {
    alignas(64) std::uint64_t keys[K];
    for (int r = 0; r < registers; ++r) _mm512_store_si512(keys + 8 * r, keys_[r]);
    const std::uint64_t* first = keys + K - k_;
    for (std::int64_t i = 0; i < k_; ++i) {
      const auto row = static_cast<std::uint32_t>(first[i]);
      const bool real = row != UINT32_MAX;
      const auto bits = real ? static_cast<std::uint32_t>(first[i] >> 32U) : 0x7F800000U;
      task.out_rows[query * k_ + i] = real ? static_cast<std::int64_t>(row) : -1;
      __builtin_memcpy(task.out_distances + query * k_ + i, &bits, sizeof bits);
    }
  }

 private:
  static constexpr int registers = K / 8;
  static std::uint64_t key_of(float distance, std::uint32_t row) {
    std::uint32_t bits;
    __builtin_memcpy(&bits, &distance, sizeof bits);
    return static_cast<std::uint64_t>(bits) << 32U | row;
  }
  std::int64_t k_;
  __m512i keys_[registers];
  std::uint64_t worst_ = 0;
};
constexpr bool has_packed_lists = true;

#include "point_tree/cpu/kernels_body.inc"

}  // namespace

const TreeKernels tree_kernels_avx512 = kernels_here;

}  // namespace kith::point_tree
#endif
