// Records of a k-d tree's builder, AVX2: two a register, or eight of one axis. No branch depends on how
// single points compare.
#if defined(__x86_64__)
#include <cstddef>

#include <immintrin.h>

#include "kd_tree/cpu/records.hpp"

namespace kith::kd_tree {
namespace {

constexpr std::int64_t bytes = 16;  // a record

// Eight records, axis by axis.
struct Eight {
  __m256 x, y, z, w;
};
inline __m256 load_two(const float* low, const float* high) {
  return _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(low)), _mm_loadu_ps(high), 1);
}
// Of points `stride` floats apart; what lies behind a point is its w.
template <int stride>
inline Eight by_axis(const float* at) {
  const __m256 a = load_two(at, at + 4 * stride);
  const __m256 b = load_two(at + stride, at + 5 * stride);
  const __m256 c = load_two(at + 2 * stride, at + 6 * stride);
  const __m256 d = load_two(at + 3 * stride, at + 7 * stride);
  const __m256 xy0 = _mm256_unpacklo_ps(a, b);
  const __m256 xy1 = _mm256_unpacklo_ps(c, d);
  const __m256 zw0 = _mm256_unpackhi_ps(a, b);
  const __m256 zw1 = _mm256_unpackhi_ps(c, d);
  return {_mm256_shuffle_ps(xy0, xy1, 0x44), _mm256_shuffle_ps(xy0, xy1, 0xEE),
          _mm256_shuffle_ps(zw0, zw1, 0x44), _mm256_shuffle_ps(zw0, zw1, 0xEE)};
}
// The same where `left` points are left, and nothing may be read behind the last.
template <int stride>
inline Eight load_eight(const float* at, std::int64_t left) {
  if (left * stride >= 7 * stride + 4) return by_axis<stride>(at);
  float copied[7 * stride + 4] = {};
  const std::int64_t points = left < 8 ? left : 8;
  __builtin_memcpy(copied, at, static_cast<std::size_t>(points * stride) * sizeof(float));
  return by_axis<stride>(copied);
}

void box(const void* records, std::int64_t count, float* lower, float* upper) {
  const auto* items = static_cast<const float*>(records);
  const __m128 first = _mm_loadu_ps(items);
  __m256 low[2];
  __m256 high[2];
  for (int part = 0; part < 2; ++part) low[part] = high[part] = _mm256_set_m128(first, first);
  std::int64_t i = 0;
  for (; i + 4 <= count; i += 4) {
    for (int part = 0; part < 2; ++part) {
      const __m256 v = _mm256_loadu_ps(items + 4 * (i + 2 * part));
      low[part] = _mm256_min_ps(low[part], v);
      high[part] = _mm256_max_ps(high[part], v);
    }
  }
  const __m256 lows = _mm256_min_ps(low[0], low[1]);
  const __m256 highs = _mm256_max_ps(high[0], high[1]);
  __m128 least = _mm_min_ps(_mm256_castps256_ps128(lows), _mm256_extractf128_ps(lows, 1));
  __m128 most = _mm_max_ps(_mm256_castps256_ps128(highs), _mm256_extractf128_ps(highs, 1));
  for (; i < count; ++i) {
    const __m128 v = _mm_loadu_ps(items + 4 * i);
    least = _mm_min_ps(least, v);
    most = _mm_max_ps(most, v);
  }
  _mm_storeu_ps(lower, least);
  _mm_storeu_ps(upper, most);
}

inline int sum_of(__m256i v) {
  const __m128i half = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  const __m128i quarter = _mm_add_epi32(half, _mm_shuffle_epi32(half, 0x4E));
  return _mm_cvtsi128_si32(_mm_add_epi32(quarter, _mm_shuffle_epi32(quarter, 0xB1)));
}
inline unsigned mask_of(__m256 v) {
  return static_cast<unsigned>(_mm256_movemask_ps(v));
}

// The keys of records along an axis, eight a register; infinite behind the last.
class Keys {
 public:
  Keys(const float* items, std::int64_t count, std::int64_t axis) : count_(count) {
    const __m256i lanes = _mm256_add_epi32(_mm256_set1_epi32(static_cast<int>(axis)),
                                           _mm256_setr_epi32(0, 4, 0, 4, 0, 4, 0, 4));
    const auto two = [&](std::int64_t i) {
      return _mm256_castps_pd(_mm256_permutevar8x32_ps(_mm256_loadu_ps(items + 4 * i), lanes));
    };
    std::int64_t i = 0;
    for (; i + 8 <= count; i += 8) {
      const __m256d low = _mm256_unpacklo_pd(two(i), two(i + 2));
      const __m256d high = _mm256_unpacklo_pd(two(i + 4), two(i + 6));
      _mm256_store_ps(keys_ + i, _mm256_castpd_ps(_mm256_permute2f128_pd(low, high, 0x20)));
    }
    if (i == count) return;
    for (std::int64_t j = i; j < i + 8; ++j) keys_[j] = j < count ? items[4 * j + axis] : __builtin_inff();
  }

  __m256 at(std::int64_t i) const { return _mm256_load_ps(keys_ + i); }

  std::int64_t below(float pivot) const { return count_where<_CMP_LT_OQ>(pivot); }
  std::int64_t equal(float value) const { return count_where<_CMP_EQ_OQ>(value); }

  // The least of the keys above a value.
  float least_above(float value) const {
    const __m256 other = _mm256_set1_ps(value);
    __m256 least = _mm256_set1_ps(__builtin_inff());
    for (std::int64_t i = 0; i < count_; i += 8) {
      const __m256 above = _mm256_cmp_ps(at(i), other, _CMP_GT_OQ);
      least = _mm256_min_ps(least, _mm256_blendv_ps(least, at(i), above));
    }
    float all[8];
    _mm256_storeu_ps(all, least);
    for (int i = 1; i < 8; ++i) all[0] = all[i] < all[0] ? all[i] : all[0];
    return all[0];
  }

  // A key in [low, high), which some are.
  float any_between(float low, float high) const {
    for (std::int64_t i = 0; i < count_; i += 8) {
      const unsigned in = between(i, low, high);
      if (in != 0) return keys_[i + __builtin_ctz(in)];
    }
    return low;
  }

  // The keys in [low, high), at most 16, infinite behind the last.
  void take_between(float low, float high, float* taken) const {
    int count = 0;
    for (std::int64_t i = 0; i < count_; i += 8) {
      for (unsigned in = between(i, low, high); in != 0; in &= in - 1)
        taken[count++] = keys_[i + __builtin_ctz(in)];
    }
    for (; count < 16; ++count) taken[count] = __builtin_inff();
  }

 private:
  template <int comparison>
  std::int64_t count_where(float value) const {
    const __m256 other = _mm256_set1_ps(value);
    __m256i found = _mm256_setzero_si256();
    for (std::int64_t i = 0; i < count_; i += 8) {
      found = _mm256_sub_epi32(found, _mm256_castps_si256(_mm256_cmp_ps(at(i), other, comparison)));
    }
    return sum_of(found);
  }

  unsigned between(std::int64_t i, float low, float high) const {
    const __m256 above = _mm256_cmp_ps(at(i), _mm256_set1_ps(low), _CMP_GE_OQ);
    return mask_of(_mm256_and_ps(above, _mm256_cmp_ps(at(i), _mm256_set1_ps(high), _CMP_LT_OQ)));
  }

  std::int64_t count_;
  alignas(32) float keys_[most_selected];
};

// What divides: below it `below` keys, and it is the nth.
struct Divider {
  float value;
  std::int64_t below;
};

// The nth of 16 keys, and how many are below it: each key's rank is the number of those below it.
inline Divider nth_of_sixteen(const float* keys, std::int64_t nth) {
  const __m256 low = _mm256_loadu_ps(keys);
  const __m256 high = _mm256_loadu_ps(keys + 8);
  __m256i ranks[2] = {_mm256_setzero_si256(), _mm256_setzero_si256()};
  for (int i = 0; i < 16; ++i) {
    const __m256 key = _mm256_set1_ps(keys[i]);
    ranks[0] = _mm256_sub_epi32(ranks[0], _mm256_castps_si256(_mm256_cmp_ps(key, low, _CMP_LT_OQ)));
    ranks[1] = _mm256_sub_epi32(ranks[1], _mm256_castps_si256(_mm256_cmp_ps(key, high, _CMP_LT_OQ)));
  }
  int rank[16];
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(rank), ranks[0]);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(rank + 8), ranks[1]);
  int best = -1;  // of the keys whose rank is at most nth the largest
  float value = 0;
  for (int i = 0; i < 16; ++i) {
    const bool better = rank[i] <= nth && rank[i] > best;
    best = better ? rank[i] : best;
    value = better ? keys[i] : value;
  }
  return {value, best};
}

#include "kd_tree/cpu/find_divider.inc"

// Those below the divider, and as many of its equals as there is room for, go to the front of where they came
// from, the rest aside and then behind them. A record is stored to both places and stays in one.
void partition(unsigned char* items, std::int64_t count, const Keys& keys, const Divider& divider,
               std::int64_t nth) {
  alignas(32) unsigned char aside[(most_selected + 1) * bytes];
  const __m256 value = _mm256_set1_ps(divider.value);
  auto equals = static_cast<unsigned>(nth - divider.below);
  unsigned char* front = items;
  unsigned char* behind = aside;
  for (std::int64_t i = 0; i < count; i += 8) {
    const __m256 key = keys.at(i);
    const unsigned less = mask_of(_mm256_cmp_ps(key, value, _CMP_LT_OQ));
    const unsigned equal = mask_of(_mm256_cmp_ps(key, value, _CMP_EQ_OQ));
    const unsigned taken = _pdep_u32(_bzhi_u32(0xFFU, equals < 8U ? equals : 8U), equal);
    equals -= static_cast<unsigned>(__builtin_popcount(taken));
    const unsigned first = less | taken;
    const std::int64_t here = count - i < 8 ? count - i : 8;
    for (std::int64_t j = 0; j < here; ++j) {
      const __m128i record = _mm_loadu_si128(reinterpret_cast<const __m128i*>(items + (i + j) * bytes));
      const auto ahead = static_cast<std::int64_t>(first >> static_cast<unsigned>(j) & 1U) * bytes;
      _mm_storeu_si128(reinterpret_cast<__m128i*>(front), record);
      _mm_storeu_si128(reinterpret_cast<__m128i*>(behind), record);
      front += ahead;
      behind += bytes - ahead;
    }
  }
  // A call of memcpy takes longer than a few records do.
  for (const unsigned char* at = aside; at < behind; at += bytes, front += bytes) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(front),
                     _mm_loadu_si128(reinterpret_cast<const __m128i*>(at)));
  }
}

bool select(void* records, std::int64_t nth, std::int64_t count, std::int64_t axis, float low, float high,
            float* value) {
  const Keys keys(static_cast<const float*>(records), count, axis);
  Divider divider;
  if (!find_divider(keys, nth, count, low, high, divider)) return false;
  partition(static_cast<unsigned char*>(records), count, keys, divider, nth);
  *value = divider.value;
  return true;
}

// The parts of eight points: a comparison a level, its axis and value looked up by the node that a point has
// come to. Nodes of the first three levels are below 8, those of the fourth are not.
template <int levels>
inline __m256i part_of(const Eight& p, const Sieve<float>& sieve) {
  __m256i node = _mm256_set1_epi32(1);
  for (int level = 0; level < levels; ++level) {
    const int half = level < 3 ? 0 : 8;
    const __m256i axes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(sieve.axis + half));
    const __m256i axis = _mm256_permutevar8x32_epi32(axes, node);
    const __m256 value = _mm256_permutevar8x32_ps(_mm256_loadu_ps(sieve.value + half), node);
    __m256 x = _mm256_blendv_ps(p.x, p.y, _mm256_castsi256_ps(_mm256_slli_epi32(axis, 31)));
    x = _mm256_blendv_ps(x, p.z, _mm256_castsi256_ps(_mm256_slli_epi32(axis, 30)));
    const __m256i second = _mm256_castps_si256(_mm256_cmp_ps(x, value, _CMP_GE_OQ));
    node = _mm256_sub_epi32(_mm256_add_epi32(node, node), second);
  }
  return _mm256_sub_epi32(node, _mm256_set1_epi32(1 << levels));
}

template <int stride, int levels>
void sift_as(const float* values, std::int64_t count, const Sieve<float>& sieve, unsigned char* parts,
             std::int64_t* counts) {
  std::int64_t seen[1 << levels] = {};
  for (std::int64_t i = 0; i < count; i += 32) {
    alignas(32) unsigned char found[32] = {};
    const std::int64_t here = count - i < 32 ? count - i : 32;
    for (std::int64_t j = 0; j < here; j += 8) {
      const __m256i part =
          part_of<levels>(load_eight<stride>(values + (i + j) * stride, count - i - j), sieve);
      const __m128i words = _mm_packus_epi32(_mm256_castsi256_si128(part), _mm256_extracti128_si256(part, 1));
      _mm_storel_epi64(reinterpret_cast<__m128i*>(found + j), _mm_packus_epi16(words, words));
    }
    const unsigned there = here == 32 ? ~0U : (1U << static_cast<unsigned>(here)) - 1U;
    const __m256i all = _mm256_load_si256(reinterpret_cast<const __m256i*>(found));
    if (here == 32) {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(parts + i), all);
    } else {
      __builtin_memcpy(parts + i, found, static_cast<std::size_t>(here));
    }
    for (int part = 0; part < 1 << levels; ++part) {
      const __m256i same = _mm256_cmpeq_epi8(all, _mm256_set1_epi8(static_cast<char>(part)));
      seen[part] += __builtin_popcount(static_cast<unsigned>(_mm256_movemask_epi8(same)) & there);
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
  const auto move = [&](std::int64_t i, std::int64_t place) {
    const float* values = from.values + i * stride;
    float* target = to.values + place * to_stride;
    std::uint32_t row = 0;
    if constexpr (from_records) {
      __builtin_memcpy(&row, values + 3, sizeof row);
    } else {
      row = numbered ? static_cast<std::uint32_t>(from.first_row + i) : from.rows[i];
    }
    if constexpr (from_records && to_records) {
      _mm_storeu_ps(target, _mm_loadu_ps(values));
      return;
    }
    __builtin_memcpy(target, values, 3 * sizeof(float));
    if constexpr (to_records) {
      __builtin_memcpy(target + 3, &row, sizeof row);
    } else {
      to.rows[place] = row;
    }
  };
  std::int64_t i = 0;
  for (; i + 16 <= count; i += 16) {
    const __m128i here = _mm_loadu_si128(reinterpret_cast<const __m128i*>(parts + i));
    const __m128i same = _mm_cmpeq_epi8(here, _mm_set1_epi8(static_cast<char>(parts[i])));
    if (_mm_movemask_epi8(same) != 0xFFFF) {
      for (std::int64_t j = i; j < i + 16; ++j) move(j, next[parts[j]]++);
      continue;
    }
    const std::int64_t place = next[parts[i]];
    next[parts[i]] = place + 16;
    for (std::int64_t j = 0; j < 16; ++j) move(i + j, place + j);
  }
  for (; i < count; ++i) move(i, next[parts[i]]++);
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
  std::int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const Eight p = by_axis<4>(items + 4 * i);
    _mm256_storeu_ps(coordinates + i, p.x);
    _mm256_storeu_ps(coordinates + count + i, p.y);
    _mm256_storeu_ps(coordinates + 2 * count + i, p.z);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(rows + i), _mm256_castps_si256(p.w));
  }
  for (; i < count; ++i) {
    for (std::int64_t j = 0; j < 3; ++j) coordinates[j * count + i] = items[4 * i + j];
    __builtin_memcpy(rows + i, items + 4 * i + 3, sizeof(std::uint32_t));
  }
}

}  // namespace

const RecordKernels record_kernels_avx2 = {box, select, sift, deal, write_leaf};

}  // namespace kith::kd_tree
#endif
