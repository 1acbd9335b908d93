// Tree kernels, AVX2 and FMA: 8 boxes or points at a time.
#include "point_tree/cpu/kernels.hpp"

#if defined(__AVX2__)
#include <immintrin.h>

namespace kith::point_tree {
namespace {

#include "point_tree/cpu/registers_avx2.inc"

#include "point_tree/cpu/near_points_x86.inc"

constexpr int batch = 8;

// By a mask of four 8-byte lanes: those of its bits first.
struct Packing {
  alignas(32) int lanes[16][8];
};
constexpr Packing make_packing() {
  Packing packing{};
  for (unsigned mask = 0; mask < 16; ++mask) {
    int to = 0;
    for (int lane = 0; lane < 4; ++lane) {
      if ((mask >> static_cast<unsigned>(lane) & 1U) == 0) continue;
      packing.lanes[mask][to++] = 2 * lane;
      packing.lanes[mask][to++] = 2 * lane + 1;
    }
  }
  return packing;
}
constexpr Packing packing = make_packing();

inline __m256i packed(__m256i lanes, unsigned mask) {
  const __m256i order = _mm256_load_si256(reinterpret_cast<const __m256i*>(packing.lanes[mask]));
  return _mm256_permutevar8x32_epi32(lanes, order);
}
inline void store(std::uint64_t* p, __m256i v) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), v);
}
inline __m256i load_rows(const std::uint32_t* rows) {
  return _mm256_cvtepu32_epi64(_mm_loadu_si128(reinterpret_cast<const __m128i*>(rows)));
}
inline unsigned but(unsigned wanted, __m256i rows, std::int64_t exclude) {
  const __m256i excluded = _mm256_cmpeq_epi64(rows, _mm256_set1_epi64x(exclude));
  return wanted & ~static_cast<unsigned>(_mm256_movemask_pd(_mm256_castsi256_pd(excluded)));
}

// Ascending in the upper k lanes of K / 4 registers, zeros in the lower ones, so that the worst is always the
// last lane.
template <int K>
class SmallestKeys {
 public:
  void start(std::int64_t k, std::uint64_t empty) {
    const __m256i all = _mm256_set1_epi64x(static_cast<long long>(empty));
    const __m256i unused = _mm256_set1_epi64x(K - k);
    for (int r = 0; r < registers; ++r) {
      const __m256i lane = _mm256_add_epi64(_mm256_set_epi64x(3, 2, 1, 0), _mm256_set1_epi64x(4 * r));
      keys_[r] = _mm256_castsi256_pd(_mm256_andnot_si256(_mm256_cmpgt_epi64(unused, lane), all));
    }
  }

  // Every lane becomes the middle one of itself, the lane before it and the new key.
  void insert(std::uint64_t key) {
    const __m256d more = spread_key(key);
    __m256d before = _mm256_setzero_pd();
    for (int r = 0; r < registers; ++r) {
      const __m256d turned = turn(keys_[r]);
      keys_[r] = _mm256_max_pd(_mm256_blend_pd(turned, before, 1), _mm256_min_pd(keys_[r], more));
      before = turned;
    }
  }

  // The same for two of them, each lane with two before it: one waits for the other no longer.
  void insert_two(std::uint64_t key, std::uint64_t other) {
    const __m256d less = _mm256_min_pd(spread_key(key), spread_key(other));
    const __m256d more = _mm256_max_pd(spread_key(key), spread_key(other));
    __m256d before = _mm256_setzero_pd();
    __m256d turned_before = _mm256_setzero_pd();
    for (int r = 0; r < registers; ++r) {
      const __m256d turned = turn(keys_[r]);
      const __m256d by_one = _mm256_blend_pd(turned, turned_before, 1);
      const __m256d by_two = _mm256_permute2f128_pd(before, keys_[r], 0x21);
      before = keys_[r];
      turned_before = turned;
      keys_[r] =
          _mm256_max_pd(by_two, _mm256_max_pd(_mm256_min_pd(by_one, more), _mm256_min_pd(keys_[r], less)));
    }
  }

  std::uint64_t worst() const {
    const __m128i last = _mm256_extracti128_si256(_mm256_castpd_si256(keys_[registers - 1]), 1);
    return static_cast<std::uint64_t>(_mm_extract_epi64(last, 1));
  }

  void store(std::uint64_t* to) const {
    for (int r = 0; r < registers; ++r) _mm256_storeu_pd(reinterpret_cast<double*>(to) + 4 * r, keys_[r]);
  }

 private:
  static __m256d spread_key(std::uint64_t key) {
    return _mm256_castsi256_pd(_mm256_set1_epi64x(static_cast<long long>(key)));
  }
  static __m256d turn(__m256d lanes) { return _mm256_permute4x64_pd(lanes, 0x93); }

  static constexpr int registers = K / 4;
  __m256d keys_[registers];
};

using Counts = __m256i;
inline void count_less(Counts& counts, Doubles than, Doubles values) {
  counts = _mm256_sub_epi64(counts, _mm256_castpd_si256(_mm256_cmp_pd(than, values, _CMP_LT_OQ)));
}

inline __m256i keys_of(Doubles distances, __m256i rows) {
  const __m256i bits = _mm256_cvtepu32_epi64(_mm_castps_si128(_mm256_cvtpd_ps(distances)));
  return _mm256_add_epi64(_mm256_or_si256(_mm256_slli_epi64(bits, 32), rows),
                          _mm256_set1_epi64x(std::int64_t{1} << 52U));
}
inline void distance_keys(Doubles distances, const std::uint32_t* rows, std::uint64_t* to) {
  store(to, keys_of(distances, load_rows(rows)));
}

// By a mask of eight lanes: those of its bits first.
struct Orders {
  alignas(64) unsigned char lanes[256][8];
};
constexpr Orders make_orders() {
  Orders orders{};
  for (unsigned mask = 0; mask < 256; ++mask) {
    int to = 0;
    for (unsigned lane = 0; lane < 8; ++lane) {
      if ((mask >> lane & 1U) != 0) orders.lanes[mask][to++] = static_cast<unsigned char>(lane);
    }
  }
  return orders;
}
constexpr Orders orders = make_orders();

struct Order {
  __m256i lanes;
  unsigned mask;
};
inline Doubles widen(const float* values) {
  return _mm256_cvtps_pd(_mm_loadu_ps(values));
}
inline Order packing_order(unsigned mask) {
  const __m128i lanes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(orders.lanes[mask]));
  return {_mm256_cvtepu8_epi32(lanes), mask};
}
inline void pack(float* to, Floats values, const Order& order) {
  _mm256_storeu_ps(to, _mm256_permutevar8x32_ps(values, order.lanes));
}
inline __m256i load_eight(const std::uint32_t* rows) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(rows));
}
inline void pack_rows(std::uint32_t* to, const std::uint32_t* rows, const Order& order) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to),
                      _mm256_permutevar8x32_epi32(load_eight(rows), order.lanes));
}
inline void pack_places(std::uint32_t* to, std::uint32_t first, const Order& order) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to),
                      _mm256_add_epi32(order.lanes, _mm256_set1_epi32(static_cast<int>(first))));
}
inline int packed_count(const Order& order) {
  return __builtin_popcount(order.mask);
}
inline unsigned equal_rows(const std::uint32_t* rows, std::int64_t row) {
  const __m256i equal = _mm256_cmpeq_epi32(load_eight(rows), _mm256_set1_epi32(static_cast<int>(row)));
  return static_cast<unsigned>(_mm256_movemask_ps(_mm256_castsi256_ps(equal)));
}

inline __m256i load_places(const float* points, const std::uint32_t* places, Doubles (&at)[3]) {
  __m128 a = _mm_load_ps(points + std::size_t{4} * places[0]);
  __m128 b = _mm_load_ps(points + std::size_t{4} * places[1]);
  __m128 c = _mm_load_ps(points + std::size_t{4} * places[2]);
  __m128 d = _mm_load_ps(points + std::size_t{4} * places[3]);
  _MM_TRANSPOSE4_PS(a, b, c, d);
  at[0] = _mm256_cvtps_pd(a);
  at[1] = _mm256_cvtps_pd(b);
  at[2] = _mm256_cvtps_pd(c);
  return _mm256_cvtepu32_epi64(_mm_castps_si128(d));
}
inline __m256i load_places(const double* points, const std::uint32_t* places, Doubles (&at)[3]) {
  __m256d all[4];
  transpose_four(points + std::size_t{4} * places[0], points + std::size_t{4} * places[1],
                 points + std::size_t{4} * places[2], points + std::size_t{4} * places[3], all);
  for (int j = 0; j < 3; ++j) at[j] = all[j];
  return _mm256_castpd_si256(all[3]);
}
inline void distance_keys(Doubles distances, __m256i rows, std::int64_t exclude, std::uint64_t* to) {
  const __m256i excluded = _mm256_cmpeq_epi64(rows, _mm256_set1_epi64x(exclude));
  const __m256i none = _mm256_set1_epi64x(static_cast<long long>(no_key));
  store(to, _mm256_blendv_epi8(keys_of(distances, rows), none, excluded));
}

inline int pack_keys(Doubles distances, const std::uint32_t* rows, unsigned wanted, std::int64_t exclude,
                     std::uint64_t worst, std::uint64_t* to) {
  const __m256i row = load_rows(rows);
  const __m256i keys = keys_of(distances, row);
  const __m256d limit = _mm256_castsi256_pd(_mm256_set1_epi64x(static_cast<long long>(worst)));
  const __m256d below = _mm256_cmp_pd(_mm256_castsi256_pd(keys), limit, _CMP_LT_OQ);
  const unsigned kept = but(wanted, row, exclude) & static_cast<unsigned>(_mm256_movemask_pd(below));
  store(to, packed(keys, kept));
  return __builtin_popcount(kept);
}

inline int pack_entries(Doubles distances, __m256i rows, unsigned wanted, std::int64_t exclude, double* to,
                        std::uint64_t* to_rows) {
  const unsigned kept = but(wanted, rows, exclude);
  store(to, _mm256_castsi256_pd(packed(_mm256_castpd_si256(distances), kept)));
  store(to_rows, packed(rows, kept));
  return __builtin_popcount(kept);
}

inline void slot_keys(const double* distances, int place, std::uint64_t* to) {
  const __m256i bits = _mm256_srli_epi64(_mm256_castpd_si256(_mm256_loadu_pd(distances)), 1);
  const __m256i places = _mm256_add_epi64(_mm256_set1_epi64x(place), _mm256_set_epi64x(3, 2, 1, 0));
  const __m256i keys = _mm256_or_si256(_mm256_andnot_si256(_mm256_set1_epi64x(255), bits), places);
  store(to, _mm256_add_epi64(keys, _mm256_set1_epi64x(std::int64_t{1} << 52U)));
}

#include "point_tree/cpu/packed_lists.inc"

// The nearest of all: a key at once, so that the next box meets the new bound.
class NearestOne {
 public:
  static constexpr bool takes_batches = false;
  static constexpr bool searches_all = false;
  static constexpr bool packs_points = false;
  static constexpr bool gathers = false;
  static constexpr bool takes_places = false;
  static constexpr bool takes_long = false;

  explicit NearestOne(const Task<float>& /*task*/) {}
  void start(float bound) { best_ = key_of(bound, UINT32_MAX); }
  float bound() const { return float_of(best_); }
  bool full() const { return static_cast<std::uint32_t>(best_) != UINT32_MAX; }
  bool offer(float distance, std::int64_t row) {
    const std::uint64_t key = key_of(distance, static_cast<std::uint32_t>(row));
    if (key >= best_) return false;
    best_ = key;
    return true;
  }
  void settle() {}
  void finish(Task<float>& task, std::int64_t query) const {
    task.out_rows[query] = full() ? static_cast<std::int64_t>(static_cast<std::uint32_t>(best_)) : -1;
    task.out_distances[query] = full() ? float_of(best_) : __builtin_inff();
  }

 private:
  static std::uint64_t key_of(float distance, std::uint32_t row) {
    std::uint32_t bits;
    __builtin_memcpy(&bits, &distance, sizeof bits);
    return static_cast<std::uint64_t>(bits) << 32U | row;
  }
  std::uint64_t best_ = 0;
};
constexpr bool has_packed_lists = true;

#include "point_tree/cpu/kernels_body.inc"

}  // namespace

const TreeKernels tree_kernels_avx2 = kernels_here;

}  // namespace kith::point_tree
#endif
