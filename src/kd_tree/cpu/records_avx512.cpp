// Records of a k-d tree's builder, AVX-512: four a register, or sixteen of one axis. No branch depends on how
// single points compare.
#if defined(__x86_64__)
#include <cstddef>

#include <immintrin.h>

#include "kd_tree/cpu/records.hpp"

namespace kith::kd_tree {
namespace {

constexpr std::int64_t bytes = 16;  // a record

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

// The keys of records along an axis, sixteen a register; infinite behind the last.
class Keys {
 public:
  Keys(const unsigned char* items, std::int64_t count, std::int64_t axis) : count_(count) {
    const __m512i lanes =
        _mm512_add_epi32(_mm512_set1_epi32(static_cast<int>(axis)),
                         _mm512_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28, 0, 0, 0, 0, 0, 0, 0, 0));
    for (std::int64_t i = 0; i < count; i += 16) {
      __m512i four[4];
      for (int f = 0; f < 4; ++f) {
        const std::int64_t left = count - i - 4 * f;
        four[f] = left >= 4  ? _mm512_loadu_si512(items + (i + 4 * f) * bytes)
                  : left > 0 ? load4(items + (i + 4 * f) * bytes, left)
                             : _mm512_setzero_si512();
      }
      const __m512i low = _mm512_permutex2var_epi32(four[0], lanes, four[1]);
      const __m512i high = _mm512_permutex2var_epi32(four[2], lanes, four[3]);
      const __m512 all = _mm512_castsi512_ps(_mm512_inserti64x4(low, _mm512_castsi512_si256(high), 1));
      _mm512_store_ps(keys_ + i,
                      _mm512_mask_mov_ps(_mm512_set1_ps(__builtin_inff()), first16(count - i), all));
    }
  }

  __m512 at(std::int64_t i) const { return _mm512_load_ps(keys_ + i); }

  std::int64_t below(float pivot) const { return count_where<_CMP_LT_OQ>(pivot); }
  std::int64_t equal(float value) const { return count_where<_CMP_EQ_OQ>(value); }

  // The least of the keys above a value.
  float least_above(float value) const {
    __m512 least = _mm512_set1_ps(__builtin_inff());
    for (std::int64_t i = 0; i < count_; i += 16) {
      const __mmask16 above = _mm512_cmp_ps_mask(at(i), _mm512_set1_ps(value), _CMP_GT_OQ);
      least = _mm512_mask_min_ps(least, above, least, at(i));
    }
    return _mm512_reduce_min_ps(least);
  }

  // A key in [low, high), which some are.
  float any_between(float low, float high) const {
    for (std::int64_t i = 0; i < count_; i += 16) {
      const __mmask16 in = between(i, low, high);
      if (in != 0) return keys_[i + __builtin_ctz(in)];
    }
    return low;
  }

  // The keys in [low, high), at most 16, infinite behind the last.
  __m512 take_between(float low, float high) const {
    alignas(64) float taken[32];
    std::int64_t count = 0;
    for (std::int64_t i = 0; i < count_; i += 16) {
      const __mmask16 in = between(i, low, high);
      _mm512_storeu_ps(taken + count, _mm512_maskz_compress_ps(in, at(i)));
      count += __builtin_popcount(in);
    }
    return _mm512_mask_loadu_ps(_mm512_set1_ps(__builtin_inff()), first16(count), taken);
  }

 private:
  template <int comparison>
  std::int64_t count_where(float value) const {
    const __m512 other = _mm512_set1_ps(value);
    unsigned found = 0;
    for (std::int64_t i = 0; i < count_; i += 16) {
      found += static_cast<unsigned>(__builtin_popcount(_mm512_cmp_ps_mask(at(i), other, comparison)));
    }
    return found;
  }

  __mmask16 between(std::int64_t i, float low, float high) const {
    const __mmask16 above = _mm512_cmp_ps_mask(at(i), _mm512_set1_ps(low), _CMP_GE_OQ);
    return _mm512_mask_cmp_ps_mask(above, at(i), _mm512_set1_ps(high), _CMP_LT_OQ);
  }

  std::int64_t count_;
  alignas(64) float keys_[most_selected];
};

// What divides: below it `below` keys, and it is the nth.
struct Divider {
  float value;
  std::int64_t below;
};

// The nth of 16 keys, and how many are below it: each key's rank is the number of those below it.
inline Divider nth_of_sixteen(__m512 keys, std::int64_t nth) {
  __m512i rank = _mm512_setzero_si512();
  const __m512i one = _mm512_set1_epi32(1);
  for (int i = 0; i < 16; ++i) {
    const __m512 key = _mm512_permutexvar_ps(_mm512_set1_epi32(i), keys);
    rank = _mm512_mask_add_epi32(rank, _mm512_cmp_ps_mask(key, keys, _CMP_LT_OQ), rank, one);
  }
  // Of the keys whose rank is at most nth the largest.
  const __m512i wanted = _mm512_set1_epi32(static_cast<int>(nth));
  const int best = _mm512_mask_reduce_max_epi32(_mm512_cmple_epi32_mask(rank, wanted), rank);
  const __mmask16 there = _mm512_cmpeq_epi32_mask(rank, _mm512_set1_epi32(best));
  return {_mm512_cvtss_f32(_mm512_maskz_compress_ps(there, keys)), best};
}

// Narrows [low, high) around the nth key by counting what is below a guess, until 16 keys are left. First
// guesses are as if keys were spread evenly between the bounds; where they are not, or are equal, one of the
// keys is the guess.
bool find_divider(const Keys& keys, std::int64_t nth, std::int64_t count, float low, float high,
                  Divider& found) {
  std::int64_t below_low = 0;
  std::int64_t below_high = count;
  bool open = true;  // keys equal to `high` are still among those that are left
  for (int round = 0; below_high - below_low > 16; ++round) {
    float guess = low;
    if (round < 6) {
      const float share =
          (static_cast<float>(nth - below_low) + 0.5F) / static_cast<float>(below_high - below_low);
      guess = low + (high - low) * share;
    }
    if (!(guess > low && guess < high)) {
      if (round >= 64) return false;
      guess = keys.any_between(low, open ? __builtin_inff() : high);
      const std::int64_t below = keys.below(guess);
      const std::int64_t equal = keys.equal(guess);
      if (below <= nth && nth < below + equal) {
        found = {guess, below};
        return true;
      }
      if (below > nth) {
        high = guess;
        below_high = below;
        open = false;
      } else {
        low = keys.least_above(guess);
        below_low = below + equal;
      }
      continue;
    }
    const std::int64_t below = keys.below(guess);
    const bool left = below > nth;
    high = left ? guess : high;
    below_high = left ? below : below_high;
    open = open && !left;
    low = left ? low : guess;
    below_low = left ? below_low : below;
  }
  found = nth_of_sixteen(keys.take_between(low, open ? __builtin_inff() : high), nth - below_low);
  found.below += below_low;
  return true;
}

// Those below the divider, and as many of its equals as there is room for, go to the front of where they came
// from, the rest aside and then behind them. A record takes part in one permutation (vectorised quicksort:
// Bramas, "A Novel Hybrid Quicksort Algorithm Vectorized using AVX-512", 2017).
void partition(unsigned char* items, std::int64_t count, const Keys& keys, const Divider& divider,
               std::int64_t nth) {
  alignas(64) unsigned char aside[(most_selected + 16) * bytes];
  const __m512 value = _mm512_set1_ps(divider.value);
  auto equals = static_cast<unsigned>(nth - divider.below);
  unsigned char* front = items;
  unsigned char* behind = aside;
  const auto move = [&](const unsigned char* from, unsigned first) {
    const __m512i four = _mm512_loadu_si512(from);
    const unsigned rest = first ^ 15U;
    _mm512_storeu_si512(front, _mm512_permutexvar_epi64(_mm512_load_si512(orders.lanes[first]), four));
    _mm512_storeu_si512(behind, _mm512_permutexvar_epi64(_mm512_load_si512(orders.lanes[rest]), four));
    const auto moved = static_cast<std::int64_t>(__builtin_popcount(first)) * bytes;
    front += moved;
    behind += 4 * bytes - moved;
  };
  for (std::int64_t i = 0; i < count; i += 16) {
    const __m512 key = keys.at(i);
    const unsigned less = _mm512_cmp_ps_mask(key, value, _CMP_LT_OQ);
    const unsigned equal = _mm512_cmp_ps_mask(key, value, _CMP_EQ_OQ);
    const unsigned taken = _pdep_u32(_bzhi_u32(0xFFFFU, equals < 16U ? equals : 16U), equal);
    equals -= static_cast<unsigned>(__builtin_popcount(taken));
    const unsigned first = less | taken;
    const unsigned char* from = items + i * bytes;
    if (count - i >= 16) {
      move(from, first & 15U);
      move(from + 4 * bytes, first >> 4U & 15U);
      move(from + 8 * bytes, first >> 8U & 15U);
      move(from + 12 * bytes, first >> 12U);
      continue;
    }
    // One by one: nothing is written past the last.
    for (std::int64_t j = 0; j < count - i; ++j) {
      const __m128i one = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + j * bytes));
      const bool to_front = (first >> static_cast<unsigned>(j) & 1U) != 0;
      unsigned char* to = to_front ? front : behind;
      _mm_storeu_si128(reinterpret_cast<__m128i*>(to), one);
      front += to_front ? bytes : 0;
      behind += to_front ? 0 : bytes;
    }
  }
  __builtin_memcpy(front, aside, static_cast<std::size_t>(behind - aside));
}

bool select(void* records, std::int64_t nth, std::int64_t count, std::int64_t axis, float low, float high,
            float* value) {
  auto* items = static_cast<unsigned char*>(records);
  const Keys keys(items, count, axis);
  Divider divider;
  if (!find_divider(keys, nth, count, low, high, divider)) return false;
  partition(items, count, keys, divider, nth);
  *value = divider.value;
  return true;
}

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

template <int stride>
void sift_from(const float* values, std::int64_t count, const Sieve<float>& sieve, unsigned char* parts,
               std::int64_t* counts) {
  switch (sieve.levels) {
    case 1: return sift_as<stride, 1>(values, count, sieve, parts, counts);
    case 2: return sift_as<stride, 2>(values, count, sieve, parts, counts);
    case 3: return sift_as<stride, 3>(values, count, sieve, parts, counts);
    default: return sift_as<stride, 4>(values, count, sieve, parts, counts);
  }
}

void sift(const float* values, std::int64_t stride, std::int64_t count, const Sieve<float>& sieve,
          unsigned char* parts, std::int64_t* counts) {
  if (stride == 3) return sift_from<3>(values, count, sieve, parts, counts);
  return sift_from<4>(values, count, sieve, parts, counts);
}

// Sixteen points side by side that go to one part move as they are; where points come in some order most do.
template <bool from_records, bool numbered, bool to_records>
void deal_as(const PointsFrom& from, std::int64_t count, const unsigned char* parts, const PointsTo& to,
             std::int64_t* next) {
  constexpr std::int64_t stride = from_records ? 4 : 3;
  constexpr std::int64_t to_stride = to_records ? 4 : 3;
  const auto one = [&](std::int64_t i) {
    const std::int64_t place = next[parts[i]]++;
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
      _mm_storeu_si128(reinterpret_cast<__m128i*>(to.values + place * to_stride), record);
    } else {
      _mm_mask_storeu_epi32(to.values + place * to_stride, 7, record);
      to.rows[place] = numbered       ? static_cast<std::uint32_t>(from.first_row + i)
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
    const std::int64_t place = next[parts[i]];
    next[parts[i]] = place + 16;
    const float* values = from.values + i * stride;
    float* target = to.values + place * to_stride;
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
        _mm512_storeu_si512(to.rows + place, rows);
      }
    } else if constexpr (!to_records) {
      for (std::int64_t j = 0; j < 16; ++j) {
        const __m128i record = _mm_loadu_si128(reinterpret_cast<const __m128i*>(values + 4 * j));
        _mm_mask_storeu_epi32(target + 3 * j, 7, record);
        to.rows[place + j] = static_cast<std::uint32_t>(_mm_extract_epi32(record, 3));
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
