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

// An entry as an integer, the distance's bits above the row: their order is the contract's.
inline std::uint64_t key_of(float distance, std::uint32_t row) {
  std::uint32_t bits;
  __builtin_memcpy(&bits, &distance, sizeof bits);
  return static_cast<std::uint64_t>(bits) << 32U | row;
}
inline float distance_of(std::uint64_t key) {
  const auto bits = static_cast<std::uint32_t>(key >> 32U);
  float value;
  __builtin_memcpy(&value, &bits, sizeof value);
  return value;
}

// Eight distances as keys.
inline __m512i keys_of(Doubles distances, __m512i rows) {
  const __m512i bits = _mm512_cvtepu32_epi64(_mm256_castps_si256(_mm512_cvtpd_ps(distances)));
  return _mm512_or_si512(_mm512_slli_epi64(bits, 32), rows);
}
inline __m512i load_rows(const std::uint32_t* rows) {
  return _mm512_cvtepu32_epi64(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(rows)));
}

// The nearest of all: the smallest key of a register at once, so that the next box meets the new bound.
class NearestOne {
 public:
  static constexpr bool takes_batches = true;
  static constexpr bool searches_all = false;
  static constexpr bool takes_long = false;

  explicit NearestOne(const Task<float>& /*task*/) {}
  void start(float bound) { best_ = key_of(bound, UINT32_MAX); }
  float bound() const { return distance_of(best_); }
  bool full() const { return static_cast<std::uint32_t>(best_) != UINT32_MAX; }

  bool take(unsigned mask, Doubles low, Doubles high, const std::uint32_t* rows, std::int64_t exclude) {
    const __m512i excluded = _mm512_set1_epi64(exclude);
    const __m512i none = _mm512_set1_epi64(-1);
    const auto wanted = [&](Doubles distances, const std::uint32_t* at, unsigned half) {
      const __m512i row = load_rows(at);
      const __mmask8 kept = _mm512_mask_cmpneq_epi64_mask(static_cast<__mmask8>(half), row, excluded);
      return _mm512_mask_mov_epi64(none, kept, keys_of(distances, row));
    };
    const __m512i all = _mm512_min_epu64(wanted(low, rows, mask & 255U), wanted(high, rows + 8, mask >> 8U));
    const std::uint64_t best = _mm512_reduce_min_epu64(all);
    best_ = best < best_ ? best : best_;
    return true;
  }

  bool offer(float distance, std::int64_t row) {
    const std::uint64_t key = key_of(distance, static_cast<std::uint32_t>(row));
    if (key >= best_) return false;
    best_ = key;
    return true;
  }

  void settle() {}
  void finish(Task<float>& task, std::int64_t query) const {
    task.out_rows[query] = full() ? static_cast<std::int64_t>(static_cast<std::uint32_t>(best_)) : -1;
    task.out_distances[query] = full() ? distance_of(best_) : __builtin_inff();
  }

 private:
  std::uint64_t best_ = 0;
};

// Up to K entries as keys, ascending in the upper k lanes of K / 8 registers, zeros in the lower ones, so
// that the worst is always the last lane. A key is read as a double, whose minimum takes half as long as an
// integer's: the order of positive doubles is that of their bits, and a step up of the exponent keeps all of
// them normal. Candidates wait until there are eight.
template <int K>
class PackedList {
 public:
  static constexpr bool takes_batches = true;
  static constexpr bool searches_all = false;
  static constexpr bool takes_long = false;

  explicit PackedList(const Task<float>& task) : k_(task.k) {}
  void start(float bound) {
    const std::uint64_t bits = key_of(bound, UINT32_MAX) + normal;
    const auto empty = static_cast<long long>(bits);
    const __m512i lane = _mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0);
    for (int r = 0; r < registers; ++r) {
      const __mmask8 used = _mm512_cmpge_epi64_mask(_mm512_add_epi64(lane, _mm512_set1_epi64(8 * r)),
                                                    _mm512_set1_epi64(K - k_));
      keys_[r] = _mm512_castsi512_pd(_mm512_maskz_set1_epi64(used, empty));
    }
    worst_ = static_cast<std::uint64_t>(empty);
    waiting_ = 0;
  }
  float bound() const { return distance_of(worst_ - normal); }
  bool full() const { return static_cast<std::uint32_t>(worst_) != UINT32_MAX; }

  // The distances of the 16 points of which `mask` has a bit. True when the bound may have changed.
  bool take(unsigned mask, Doubles low, Doubles high, const std::uint32_t* rows, std::int64_t exclude) {
    const __m512i worst = _mm512_set1_epi64(static_cast<long long>(worst_));
    const __m512i excluded = _mm512_set1_epi64(exclude);
    const auto add_half = [&](Doubles distances, const std::uint32_t* at, unsigned wanted) {
      const __m512i row = load_rows(at);
      const __m512i keys = _mm512_add_epi64(keys_of(distances, row), _mm512_set1_epi64(normal));
      auto kept = static_cast<__mmask8>(wanted);
      kept = _mm512_mask_cmplt_epu64_mask(kept, keys, worst);
      kept = _mm512_mask_cmpneq_epi64_mask(kept, row, excluded);
      _mm512_storeu_si512(wait_ + waiting_, _mm512_maskz_compress_epi64(kept, keys));
      waiting_ += __builtin_popcount(kept);
    };
    add_half(low, rows, mask & 255U);
    add_half(high, rows + 8, mask >> 8U);
    if (waiting_ < batch) return false;
    while (waiting_ >= batch) {
      waiting_ -= batch;
      for (int i = 0; i < batch; ++i) insert(wait_[waiting_ + i]);
    }
    note_worst();
    return true;
  }

  bool offer(float distance, std::int64_t row) {
    settle();
    const std::uint64_t key = key_of(distance, static_cast<std::uint32_t>(row)) + normal;
    if (key >= worst_) return false;
    insert(key);
    note_worst();
    return true;
  }

  void settle() {
    if (waiting_ == 0) return;
    for (int i = 0; i < waiting_; ++i) insert(wait_[i]);
    waiting_ = 0;
    note_worst();
  }

  void finish(Task<float>& task, std::int64_t query) {
    settle();
    alignas(64) std::uint64_t keys[K];
    for (int r = 0; r < registers; ++r) _mm512_store_pd(keys + 8 * r, keys_[r]);
    const std::uint64_t* first = keys + K - k_;
    for (std::int64_t i = 0; i < k_; ++i) {
      const auto row = static_cast<std::uint32_t>(first[i]);
      const bool real = row != UINT32_MAX;
      const auto bits = real ? static_cast<std::uint32_t>((first[i] - normal) >> 32U) : 0x7F800000U;
      task.out_rows[query * k_ + i] = real ? static_cast<std::int64_t>(row) : -1;
      __builtin_memcpy(task.out_distances + query * k_ + i, &bits, sizeof bits);
    }
  }

 private:
  static constexpr int registers = K / 8;
  static constexpr int batch = 8;
  static constexpr std::uint64_t normal = std::uint64_t{1} << 52U;  // a double's smallest exponent

  // Every lane becomes the middle one of itself, the lane before it and the new key.
  void insert(std::uint64_t key) {
    double value;
    __builtin_memcpy(&value, &key, sizeof value);
    const __m512d more = _mm512_set1_pd(value);
    __m512i before = _mm512_setzero_si512();
    for (int r = 0; r < registers; ++r) {
      const __m512i old = _mm512_castpd_si512(keys_[r]);
      const __m512d shifted = _mm512_castsi512_pd(_mm512_alignr_epi64(old, before, 7));
      keys_[r] = _mm512_max_pd(shifted, _mm512_min_pd(keys_[r], more));
      before = old;
    }
  }
  void note_worst() {
    const __m128i last = _mm512_extracti64x2_epi64(_mm512_castpd_si512(keys_[registers - 1]), 3);
    worst_ = static_cast<std::uint64_t>(_mm_extract_epi64(last, 1));
  }

  __m512d keys_[registers];
  std::int64_t k_;
  std::uint64_t worst_ = 0;
  std::uint64_t wait_[8 + 16 + 8];
  int waiting_ = 0;
};
constexpr bool has_packed_lists = true;

#include "point_tree/cpu/kernels_body.inc"

}  // namespace

const TreeKernels tree_kernels_avx512 = kernels_here;

}  // namespace kith::point_tree
#endif
