// Tree kernels, AVX-512: 16 boxes or points at a time, the k-list of float distances in registers.
#include "point_tree/cpu/kernels.hpp"

#if defined(__AVX512F__)
#include <immintrin.h>

namespace kith::point_tree {
namespace {

#include "point_tree/cpu/registers_avx512.inc"

#include "point_tree/cpu/near_points_x86.inc"

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
  static constexpr bool packs_points = false;
  static constexpr bool gathers = false;
  static constexpr bool takes_places = false;
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

constexpr int batch = 8;

// Ascending in the upper k lanes of K / 8 registers, zeros in the lower ones, so that the worst is always the
// last lane.
template <int K>
class SmallestKeys {
 public:
  void start(std::int64_t k, std::uint64_t empty) {
    const __m512i lane = _mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0);
    for (int r = 0; r < registers; ++r) {
      const __mmask8 used =
          _mm512_cmpge_epi64_mask(_mm512_add_epi64(lane, _mm512_set1_epi64(8 * r)), _mm512_set1_epi64(K - k));
      keys_[r] = _mm512_castsi512_pd(_mm512_maskz_set1_epi64(used, static_cast<long long>(empty)));
    }
  }

  // Every lane becomes the middle one of itself, the lane before it and the new key.
  void insert(std::uint64_t key) {
    const __m512d more = spread_key(key);
    __m512i before = _mm512_setzero_si512();
    for (int r = 0; r < registers; ++r) {
      const __m512i old = _mm512_castpd_si512(keys_[r]);
      const __m512d shifted = _mm512_castsi512_pd(_mm512_alignr_epi64(old, before, 7));
      keys_[r] = _mm512_max_pd(shifted, _mm512_min_pd(keys_[r], more));
      before = old;
    }
  }

  // The same for two of them, each lane with two before it: one waits for the other no longer.
  void insert_two(std::uint64_t key, std::uint64_t other) {
    const __m512d less = _mm512_min_pd(spread_key(key), spread_key(other));
    const __m512d more = _mm512_max_pd(spread_key(key), spread_key(other));
    __m512i before = _mm512_setzero_si512();
    for (int r = 0; r < registers; ++r) {
      const __m512i old = _mm512_castpd_si512(keys_[r]);
      const __m512d by_one = _mm512_castsi512_pd(_mm512_alignr_epi64(old, before, 7));
      const __m512d by_two = _mm512_castsi512_pd(_mm512_alignr_epi64(old, before, 6));
      keys_[r] =
          _mm512_max_pd(by_two, _mm512_max_pd(_mm512_min_pd(by_one, more), _mm512_min_pd(keys_[r], less)));
      before = old;
    }
  }

  std::uint64_t worst() const {
    const __m128i last = _mm512_extracti64x2_epi64(_mm512_castpd_si512(keys_[registers - 1]), 3);
    return static_cast<std::uint64_t>(_mm_extract_epi64(last, 1));
  }

  void store(std::uint64_t* to) const {
    for (int r = 0; r < registers; ++r) _mm512_storeu_pd(to + 8 * r, keys_[r]);
  }

 private:
  static __m512d spread_key(std::uint64_t key) {
    double value;
    __builtin_memcpy(&value, &key, sizeof value);
    return _mm512_set1_pd(value);
  }

  static constexpr int registers = K / 8;
  __m512d keys_[registers];
};

using Counts = __m512i;
inline void store(std::uint64_t* p, Counts counts) {
  _mm512_storeu_si512(p, counts);
}
inline void count_less(Counts& counts, Doubles than, Doubles values) {
  const __mmask8 less = _mm512_cmp_pd_mask(than, values, _CMP_LT_OQ);
  counts = _mm512_mask_add_epi64(counts, less, counts, _mm512_set1_epi64(1));
}

// Keys whose exponent is a step up (packed_lists.inc).
inline __m512i raised_keys(Doubles distances, __m512i rows) {
  return _mm512_add_epi64(keys_of(distances, rows), _mm512_set1_epi64(std::int64_t{1} << 52U));
}
inline void distance_keys(Doubles distances, const std::uint32_t* rows, std::uint64_t* to) {
  _mm512_storeu_si512(to, raised_keys(distances, load_rows(rows)));
}

inline Doubles widen(const float* values) {
  return _mm512_cvtps_pd(_mm256_loadu_ps(values));
}
inline __mmask16 packing_order(unsigned mask) {
  return static_cast<__mmask16>(mask);
}
inline void pack(float* to, Floats values, __mmask16 order) {
  _mm512_storeu_ps(to, _mm512_maskz_compress_ps(order, values));
}
inline void pack_rows(std::uint32_t* to, const std::uint32_t* rows, __mmask16 order) {
  _mm512_storeu_si512(to, _mm512_maskz_compress_epi32(order, _mm512_loadu_si512(rows)));
}
inline void pack_places(std::uint32_t* to, std::uint32_t first, __mmask16 order) {
  const __m512i lane = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
  const __m512i places = _mm512_add_epi32(lane, _mm512_set1_epi32(static_cast<int>(first)));
  _mm512_storeu_si512(to, _mm512_maskz_compress_epi32(order, places));
}
inline int packed_count(__mmask16 order) {
  return __builtin_popcount(order);
}
inline unsigned equal_rows(const std::uint32_t* rows, std::int64_t row) {
  return _mm512_cmpeq_epi32_mask(_mm512_loadu_si512(rows), _mm512_set1_epi32(static_cast<int>(row)));
}

inline __m512i load_places(const float* points, const std::uint32_t* places, Doubles (&at)[3]) {
  const auto two = [&](int i) {
    return _mm256_set_m128(_mm_load_ps(points + std::size_t{4} * places[i + 4]),
                           _mm_load_ps(points + std::size_t{4} * places[i]));
  };
  const __m256 a = _mm256_unpacklo_ps(two(0), two(1));
  const __m256 b = _mm256_unpackhi_ps(two(0), two(1));
  const __m256 c = _mm256_unpacklo_ps(two(2), two(3));
  const __m256 d = _mm256_unpackhi_ps(two(2), two(3));
  at[0] = _mm512_cvtps_pd(_mm256_shuffle_ps(a, c, _MM_SHUFFLE(1, 0, 1, 0)));
  at[1] = _mm512_cvtps_pd(_mm256_shuffle_ps(a, c, _MM_SHUFFLE(3, 2, 3, 2)));
  at[2] = _mm512_cvtps_pd(_mm256_shuffle_ps(b, d, _MM_SHUFFLE(1, 0, 1, 0)));
  return _mm512_cvtepu32_epi64(_mm256_castps_si256(_mm256_shuffle_ps(b, d, _MM_SHUFFLE(3, 2, 3, 2))));
}
// Points 0 and 2, 1 and 3, 4 and 6, 5 and 7 side by side, so that coordinates come out in order.
inline __m512i load_places(const double* points, const std::uint32_t* places, Doubles (&at)[3]) {
  const auto two = [&](int low, int high) {
    return _mm512_insertf64x4(_mm512_castpd256_pd512(_mm256_load_pd(points + std::size_t{4} * places[low])),
                              _mm256_load_pd(points + std::size_t{4} * places[high]), 1);
  };
  const __m512d xz = _mm512_unpacklo_pd(two(0, 2), two(1, 3));
  const __m512d yr = _mm512_unpackhi_pd(two(0, 2), two(1, 3));
  const __m512d xz_2 = _mm512_unpacklo_pd(two(4, 6), two(5, 7));
  const __m512d yr_2 = _mm512_unpackhi_pd(two(4, 6), two(5, 7));
  at[0] = _mm512_shuffle_f64x2(xz, xz_2, _MM_SHUFFLE(2, 0, 2, 0));
  at[1] = _mm512_shuffle_f64x2(yr, yr_2, _MM_SHUFFLE(2, 0, 2, 0));
  at[2] = _mm512_shuffle_f64x2(xz, xz_2, _MM_SHUFFLE(3, 1, 3, 1));
  return _mm512_castpd_si512(_mm512_shuffle_f64x2(yr, yr_2, _MM_SHUFFLE(3, 1, 3, 1)));
}

inline void distance_keys(Doubles distances, __m512i rows, std::int64_t exclude, std::uint64_t* to) {
  const __m512i keys = raised_keys(distances, rows);
  const __mmask8 excluded = _mm512_cmpeq_epi64_mask(rows, _mm512_set1_epi64(exclude));
  const __m512i none = _mm512_set1_epi64(static_cast<long long>(no_key));
  _mm512_storeu_si512(to, _mm512_mask_mov_epi64(keys, excluded, none));
}

inline int pack_keys(Doubles distances, const std::uint32_t* rows, unsigned wanted, std::int64_t exclude,
                     std::uint64_t worst, std::uint64_t* to) {
  const __m512i row = load_rows(rows);
  const __m512i keys = raised_keys(distances, row);
  auto kept = static_cast<__mmask8>(wanted);
  kept = _mm512_mask_cmplt_epu64_mask(kept, keys, _mm512_set1_epi64(static_cast<long long>(worst)));
  kept = _mm512_mask_cmpneq_epi64_mask(kept, row, _mm512_set1_epi64(exclude));
  _mm512_storeu_si512(to, _mm512_maskz_compress_epi64(kept, keys));
  return __builtin_popcount(kept);
}

inline int pack_entries(Doubles distances, __m512i rows, unsigned wanted, std::int64_t exclude, double* to,
                        std::uint64_t* to_rows) {
  const __mmask8 kept =
      _mm512_mask_cmpneq_epi64_mask(static_cast<__mmask8>(wanted), rows, _mm512_set1_epi64(exclude));
  _mm512_storeu_pd(to, _mm512_maskz_compress_pd(kept, distances));
  _mm512_storeu_si512(to_rows, _mm512_maskz_compress_epi64(kept, rows));
  return __builtin_popcount(kept);
}

inline void slot_keys(const double* distances, int place, std::uint64_t* to) {
  const __m512i bits = _mm512_srli_epi64(_mm512_castpd_si512(_mm512_loadu_pd(distances)), 1);
  const __m512i places = _mm512_add_epi64(_mm512_set1_epi64(place), _mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0));
  const __m512i keys = _mm512_or_si512(_mm512_andnot_si512(_mm512_set1_epi64(255), bits), places);
  _mm512_storeu_si512(to, _mm512_add_epi64(keys, _mm512_set1_epi64(std::int64_t{1} << 52U)));
}

#include "point_tree/cpu/packed_lists.inc"

constexpr bool has_packed_lists = true;

#include "point_tree/cpu/kernels_body.inc"

}  // namespace

const TreeKernels tree_kernels_avx512 = kernels_here;

}  // namespace kith::point_tree
#endif
