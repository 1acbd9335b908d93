// Tree kernels, AVX2 and FMA: 8 boxes or points at a time.
#include "point_tree/cpu/kernels.hpp"

#if defined(__AVX2__)
#include <immintrin.h>

namespace kith::point_tree {
namespace {

using Floats = __m256;
using Doubles = __m256d;
constexpr int floats = 8;
constexpr int doubles = 4;

inline Floats load(const float* p) {
  return _mm256_loadu_ps(p);
}
inline Doubles load(const double* p) {
  return _mm256_loadu_pd(p);
}
inline Floats spread(float v) {
  return _mm256_set1_ps(v);
}
inline Doubles spread(double v) {
  return _mm256_set1_pd(v);
}
inline Floats sub(Floats a, Floats b) {
  return _mm256_sub_ps(a, b);
}
inline Doubles sub(Doubles a, Doubles b) {
  return _mm256_sub_pd(a, b);
}
inline Floats add(Floats a, Floats b) {
  return _mm256_add_ps(a, b);
}
inline Doubles add(Doubles a, Doubles b) {
  return _mm256_add_pd(a, b);
}
inline Doubles mul(Doubles a, Doubles b) {
  return _mm256_mul_pd(a, b);
}
inline Floats fma(Floats a, Floats b, Floats c) {
  return _mm256_fmadd_ps(a, b, c);
}
inline Doubles fma(Doubles a, Doubles b, Doubles c) {
  return _mm256_fmadd_pd(a, b, c);
}
inline Floats larger(Floats a, Floats b) {
  return _mm256_max_ps(a, b);
}
inline Doubles larger(Doubles a, Doubles b) {
  return _mm256_max_pd(a, b);
}
inline Floats absolute(Floats a) {
  return _mm256_andnot_ps(_mm256_set1_ps(-0.0F), a);
}
inline Doubles absolute(Doubles a) {
  return _mm256_andnot_pd(_mm256_set1_pd(-0.0), a);
}
inline Doubles root(Doubles a) {
  return _mm256_sqrt_pd(a);
}
inline Doubles low_half(Floats a) {
  return _mm256_cvtps_pd(_mm256_castps256_ps128(a));
}
inline Doubles high_half(Floats a) {
  return _mm256_cvtps_pd(_mm256_extractf128_ps(a, 1));
}
inline void store(float* p, Floats v) {
  _mm256_storeu_ps(p, v);
}
inline void store(double* p, Doubles v) {
  _mm256_storeu_pd(p, v);
}
inline void store_narrow(float* p, Doubles v) {
  _mm_storeu_ps(p, _mm256_cvtpd_ps(v));
}
inline unsigned at_most(Floats a, Floats b) {
  return static_cast<unsigned>(_mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_LE_OQ)));
}
inline unsigned at_most(Doubles a, Doubles b) {
  return static_cast<unsigned>(_mm256_movemask_pd(_mm256_cmp_pd(a, b, _CMP_LE_OQ)));
}

// As the AVX-512 list, four lanes a register. Keys stay below 2^63, so signed comparison orders them.
template <int K>
class PackedList {
 public:
  static constexpr bool takes_batches = false;
  static constexpr bool searches_all = false;
  static constexpr bool takes_long = false;
  explicit PackedList(const Task<float>& task) : k_(task.k) {}
  void start(float bound) {
    const std::uint64_t empty = key_of(bound, UINT32_MAX);
    for (std::int64_t i = 0; i < K; ++i) keys_[i] = i < K - k_ ? 0 : empty;
  }
  float bound() const {
    const auto bits = static_cast<std::uint32_t>(keys_[K - 1] >> 32U);
    float value;
    __builtin_memcpy(&value, &bits, sizeof value);
    return value;
  }
  bool full() const { return static_cast<std::uint32_t>(keys_[K - 1]) != UINT32_MAX; }
  bool offer(float distance, std::int64_t row) {
    const std::uint64_t key = key_of(distance, static_cast<std::uint32_t>(row));
    if (key >= keys_[K - 1]) return false;
    const __m256i entry = _mm256_set1_epi64x(static_cast<long long>(key));
    __m256i below = _mm256_setzero_si256();
    for (int r = 0; r < K / 4; ++r) {
      auto* at = reinterpret_cast<__m256i*>(keys_ + 4 * r);
      const __m256i old = _mm256_load_si256(at);
      const __m256i across = _mm256_permute2x128_si256(below, old, 0x21);
      const __m256i moved = _mm256_alignr_epi8(old, across, 8);
      const __m256i larger_one = _mm256_blendv_epi8(entry, moved, _mm256_cmpgt_epi64(moved, entry));
      _mm256_store_si256(at, _mm256_blendv_epi8(old, larger_one, _mm256_cmpgt_epi64(old, larger_one)));
      below = old;
    }
    return true;
  }
  void settle() {}
  void finish(Task<float>& task, std::int64_t query) const {
    const std::uint64_t* first = keys_ + K - k_;
    for (std::int64_t i = 0; i < k_; ++i) {
      const auto row = static_cast<std::uint32_t>(first[i]);
      const bool real = row != UINT32_MAX;
      const auto bits = real ? static_cast<std::uint32_t>(first[i] >> 32U) : 0x7F800000U;
      task.out_rows[query * k_ + i] = real ? static_cast<std::int64_t>(row) : -1;
      __builtin_memcpy(task.out_distances + query * k_ + i, &bits, sizeof bits);
    }
  }

 private:
  static std::uint64_t key_of(float distance, std::uint32_t row) {
    std::uint32_t bits;
    __builtin_memcpy(&bits, &distance, sizeof bits);
    return static_cast<std::uint64_t>(bits) << 32U | row;
  }
  std::int64_t k_;
  alignas(32) std::uint64_t keys_[K];
};
using NearestOne = PackedList<4>;
constexpr bool has_packed_lists = true;

#include "point_tree/cpu/kernels_body.inc"

}  // namespace

const TreeKernels tree_kernels_avx2 = kernels_here;

}  // namespace kith::point_tree
#endif
