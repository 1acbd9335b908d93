// Records of a k-d tree's builder, AVX-512: four a register, or sixteen of one axis. No branch depends on how
// single points compare.
#if defined(__x86_64__)
#include <cstddef>

#include <immintrin.h>

#include "kd_tree/cpu/records.hpp"

namespace kith::kd_tree {
namespace {

constexpr std::int64_t bytes = 16;  // a record

inline __mmask16 first16(std::int64_t count) {
  const unsigned some = count <= 0 ? 0U : (1U << static_cast<unsigned>(count & 15)) - 1U;
  return static_cast<__mmask16>(count >= 16 ? 0xFFFFU : some);
}
// Of registers of four records.
inline __mmask8 first4(std::int64_t count) {
  const unsigned some = count <= 0 ? 0U : (1U << static_cast<unsigned>(2 * (count & 3))) - 1U;
  return static_cast<__mmask8>(count >= 4 ? 0xFFU : some);
}
inline __m512i load4(const unsigned char* items, std::int64_t there) {
  return _mm512_maskz_loadu_epi64(first4(there), items);
}

// Sixteen records, axis by axis.
struct Sixteen {
  __m512 x, y, z, w;
};
inline Sixteen by_axis(__m512i a, __m512i b, __m512i c, __m512i d) {
  const __m512i first = _mm512_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28, 1, 5, 9, 13, 17, 21, 25, 29);
  const __m512i second = _mm512_setr_epi32(2, 6, 10, 14, 18, 22, 26, 30, 3, 7, 11, 15, 19, 23, 27, 31);
  const __m512 xy0 = _mm512_castsi512_ps(_mm512_permutex2var_epi32(a, first, b));
  const __m512 xy1 = _mm512_castsi512_ps(_mm512_permutex2var_epi32(c, first, d));
  const __m512 zw0 = _mm512_castsi512_ps(_mm512_permutex2var_epi32(a, second, b));
  const __m512 zw1 = _mm512_castsi512_ps(_mm512_permutex2var_epi32(c, second, d));
  return {_mm512_shuffle_f32x4(xy0, xy1, 0x44), _mm512_shuffle_f32x4(xy0, xy1, 0xEE),
          _mm512_shuffle_f32x4(zw0, zw1, 0x44), _mm512_shuffle_f32x4(zw0, zw1, 0xEE)};
}
// Of values 3 apart; w is nothing.
inline Sixteen by_axis(__m512 a, __m512 b, __m512 c) {
  const __m512i x0 = _mm512_setr_epi32(0, 3, 6, 9, 12, 15, 18, 21, 24, 27, 30, 0, 0, 0, 0, 0);
  const __m512i x1 = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 17, 20, 23, 26, 29);
  const __m512i y0 = _mm512_setr_epi32(1, 4, 7, 10, 13, 16, 19, 22, 25, 28, 31, 0, 0, 0, 0, 0);
  const __m512i y1 = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 18, 21, 24, 27, 30);
  const __m512i z0 = _mm512_setr_epi32(2, 5, 8, 11, 14, 17, 20, 23, 26, 29, 0, 0, 0, 0, 0, 0);
  const __m512i z1 = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 19, 22, 25, 28, 31);
  return {_mm512_permutex2var_ps(_mm512_permutex2var_ps(a, x0, b), x1, c),
          _mm512_permutex2var_ps(_mm512_permutex2var_ps(a, y0, b), y1, c),
          _mm512_permutex2var_ps(_mm512_permutex2var_ps(a, z0, b), z1, c), _mm512_setzero_ps()};
}

// The smallest (largest) of four records' numbers.
inline void store_smallest(float* to, __m512 v) {
  const __m256 half = _mm256_min_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
  _mm_storeu_ps(to, _mm_min_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1)));
}
inline void store_largest(float* to, __m512 v) {
  const __m256 half = _mm256_max_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
  _mm_storeu_ps(to, _mm_max_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1)));
}

void box(const void* records, std::int64_t count, float* lower, float* upper) {
  const auto* items = static_cast<const float*>(records);
  const __m512 first = _mm512_broadcast_f32x4(_mm_loadu_ps(items));
  __m512 low[2] = {first, first};
  __m512 high[2] = {first, first};
  std::int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    for (int part = 0; part < 2; ++part) {
      const __m512 v = _mm512_loadu_ps(items + 4 * (i + 4 * part));
      low[part] = _mm512_min_ps(low[part], v);
      high[part] = _mm512_max_ps(high[part], v);
    }
  }
  for (; i < count; i += 4) {
    const __m512 v =
        _mm512_castpd_ps(_mm512_mask_loadu_pd(_mm512_castps_pd(first), first4(count - i), items + 4 * i));
    low[0] = _mm512_min_ps(low[0], v);
    high[0] = _mm512_max_ps(high[0], v);
  }
  store_smallest(lower, _mm512_min_ps(low[0], low[1]));
  store_largest(upper, _mm512_max_ps(high[0], high[1]));
}

#include "kd_tree/cpu/select_avx512.inc"

// The parts of sixteen points: a comparison a level, its axis and value looked up by the node that a point
// has come to.
inline __m512i part_of(const Sixteen& p, int levels, __m512 values, __m512i axes) {
  __m512i node = _mm512_set1_epi32(1);
  const __m512i one = _mm512_set1_epi32(1);
  const __m512i two = _mm512_set1_epi32(2);
  for (int level = 0; level < levels; ++level) {
    const __m512i axis = _mm512_permutexvar_epi32(node, axes);
    __m512 x = _mm512_mask_mov_ps(p.x, _mm512_test_epi32_mask(axis, one), p.y);
    x = _mm512_mask_mov_ps(x, _mm512_test_epi32_mask(axis, two), p.z);
    const __mmask16 second = _mm512_cmp_ps_mask(x, _mm512_permutexvar_ps(node, values), _CMP_GE_OQ);
    node = _mm512_add_epi32(node, node);
    node = _mm512_mask_add_epi32(node, second, node, one);
  }
  return _mm512_sub_epi32(node, _mm512_set1_epi32(1 << levels));
}

template <int stride>
inline Sixteen load16(const float* at, std::int64_t left) {
  const auto part = [&](int number) {
    return _mm512_maskz_loadu_ps(first16(left * stride - 16 * number), at + 16 * number);
  };
  if constexpr (stride == 3) {
    if (left >= 16) return by_axis(_mm512_loadu_ps(at), _mm512_loadu_ps(at + 16), _mm512_loadu_ps(at + 32));
    return by_axis(part(0), part(1), part(2));
  } else {
    if (left >= 16) {
      return by_axis(_mm512_loadu_si512(at), _mm512_loadu_si512(at + 16), _mm512_loadu_si512(at + 32),
                     _mm512_loadu_si512(at + 48));
    }
    return by_axis(_mm512_castps_si512(part(0)), _mm512_castps_si512(part(1)), _mm512_castps_si512(part(2)),
                   _mm512_castps_si512(part(3)));
  }
}

template <int stride, int levels>
void sift_as(const float* values, std::int64_t count, const Sieve<float>& sieve, unsigned char* parts,
             std::int64_t* counts) {
  const __m512 limits = _mm512_loadu_ps(sieve.value);
  const __m512i axes = _mm512_loadu_si512(sieve.axis);
  std::int64_t seen[1 << levels] = {};
  for (std::int64_t i = 0; i < count; i += 64) {
    alignas(64) unsigned char found[64];
    const std::int64_t here = count - i < 64 ? count - i : 64;
    for (std::int64_t j = 0; j < here; j += 16) {
      const Sixteen points = load16<stride>(values + (i + j) * stride, here - j);
      _mm_store_si128(reinterpret_cast<__m128i*>(found + j),
                      _mm512_cvtepi32_epi8(part_of(points, levels, limits, axes)));
    }
    const __mmask64 there = here == 64 ? ~__mmask64{0} : (__mmask64{1} << static_cast<unsigned>(here)) - 1;
    const __m512i all = _mm512_load_si512(found);
    _mm512_mask_storeu_epi8(parts + i, there, all);
    for (int part = 0; part < 1 << levels; ++part) {
      seen[part] += __builtin_popcountll(
          _mm512_mask_cmpeq_epi8_mask(there, all, _mm512_set1_epi8(static_cast<char>(part))));
    }
  }
  for (int part = 0; part < 1 << levels; ++part) counts[part] = seen[part];
}

#include "kd_tree/cpu/sift.inc"

// Sixteen points side by side that go to one part move as they are; where points come in some order most do.
template <bool from_records, bool numbered, bool to_records>
void deal_as(const PointsFrom& from, std::int64_t count, const unsigned char* parts, const PointsTo& to,
             std::int64_t* next) {
  constexpr std::int64_t stride = from_records ? 4 : 3;
  constexpr std::int64_t to_stride = to_records ? 4 : 3;
  const auto one = [&](std::int64_t i) {
    const std::int64_t target_index = next[parts[i]]++;
    __m128i record;
    if constexpr (from_records) {
      record = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from.values + i * stride));
    } else {
      record = _mm_maskz_loadu_epi32(7, from.values + i * stride);
      if constexpr (to_records) {
        const auto row = numbered ? static_cast<int>(from.first_row + i) : static_cast<int>(from.rows[i]);
        record = _mm_insert_epi32(record, row, 3);
      }
    }
    if constexpr (to_records) {
      _mm_storeu_si128(reinterpret_cast<__m128i*>(to.values + target_index * to_stride), record);
    } else {
      _mm_mask_storeu_epi32(to.values + target_index * to_stride, 7, record);
      to.rows[target_index] = numbered       ? static_cast<std::uint32_t>(from.first_row + i)
                              : from_records ? static_cast<std::uint32_t>(_mm_extract_epi32(record, 3))
                                             : from.rows[i];
    }
  };
  std::int64_t i = 0;
  for (; i + 16 <= count; i += 16) {
    const __m128i here = _mm_loadu_si128(reinterpret_cast<const __m128i*>(parts + i));
    if (_mm_cmpneq_epi8_mask(here, _mm_set1_epi8(static_cast<char>(parts[i]))) != 0) {
      for (std::int64_t j = 0; j < 16; ++j) one(i + j);
      continue;
    }
    const std::int64_t target_index = next[parts[i]];
    next[parts[i]] = target_index + 16;
    const float* values = from.values + i * stride;
    float* target = to.values + target_index * to_stride;
    if constexpr (from_records == to_records) {
      __builtin_memcpy(target, values, 16 * stride * sizeof(float));
    }
    if constexpr (!from_records) {
      const __m512i iota = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
      const __m512i rows =
          numbered ? _mm512_add_epi32(_mm512_set1_epi32(static_cast<int>(from.first_row + i)), iota)
                   : _mm512_loadu_si512(from.rows + i);
      if constexpr (to_records) {
        // Four points: 12 values spread over the lanes of records, their rows between.
        const __m512i spread = _mm512_setr_epi32(0, 1, 2, 16, 3, 4, 5, 17, 6, 7, 8, 18, 9, 10, 11, 19);
        for (int f = 0; f < 4; ++f) {
          const __m512i four = _mm512_maskz_loadu_epi32(0xFFF, values + 12 * f);
          const __m512i all_rows =
              _mm512_permutexvar_epi32(_mm512_add_epi32(_mm512_set1_epi32(4 * f), iota), rows);
          _mm512_storeu_si512(target + 16 * f, _mm512_permutex2var_epi32(four, spread, all_rows));
        }
      } else {
        _mm512_storeu_si512(to.rows + target_index, rows);
      }
    } else if constexpr (!to_records) {
      for (std::int64_t j = 0; j < 16; ++j) {
        const __m128i record = _mm_loadu_si128(reinterpret_cast<const __m128i*>(values + 4 * j));
        _mm_mask_storeu_epi32(target + 3 * j, 7, record);
        to.rows[target_index + j] = static_cast<std::uint32_t>(_mm_extract_epi32(record, 3));
      }
    }
  }
  for (; i < count; ++i) one(i);
}

void deal(const PointsFrom& from, std::int64_t count, const unsigned char* parts, const PointsTo& to,
          std::int64_t* next) {
  const bool to_records = to.stride == 4;
  if (from.stride == 4) {
    to_records ? deal_as<true, false, true>(from, count, parts, to, next)
               : deal_as<true, false, false>(from, count, parts, to, next);
  } else if (from.rows == nullptr) {
    to_records ? deal_as<false, true, true>(from, count, parts, to, next)
               : deal_as<false, true, false>(from, count, parts, to, next);
  } else {
    to_records ? deal_as<false, false, true>(from, count, parts, to, next)
               : deal_as<false, false, false>(from, count, parts, to, next);
  }
}

void write_leaf(const void* records, std::int64_t count, float* coordinates, std::uint32_t* rows,
                float* lower, float* upper) {
  const auto* items = static_cast<const float*>(records);
  box(records, count, lower, upper);
  for (std::int64_t i = 0; i < count; i += 16) {
    const Sixteen p = load16<4>(items + 4 * i, count - i);
    const __mmask16 there = first16(count - i);
    _mm512_mask_storeu_ps(coordinates + i, there, p.x);
    _mm512_mask_storeu_ps(coordinates + count + i, there, p.y);
    _mm512_mask_storeu_ps(coordinates + 2 * count + i, there, p.z);
    _mm512_mask_storeu_ps(rows + i, there, p.w);
  }
}

}  // namespace

const RecordKernels record_kernels_avx512 = {box, select, sift, deal, write_leaf};

}  // namespace kith::kd_tree
#endif
