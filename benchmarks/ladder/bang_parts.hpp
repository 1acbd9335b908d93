// The parts of BANG that are more than a loop: keys, Bloom filter, the places of elements in a merge. The
// rungs' kernels and the tests run the same functions.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "cuda/host_device.hpp"

namespace kith::ladder {

/// Marks the end of a list of neighbours, and a query that has nothing left to expand.
inline constexpr std::uint32_t no_row = 0xFFFFFFFFU;

/// An entry of a worklist: the distance's bits, which ascend as distances from 0 on do, the row, and in the
/// lowest bit whether the row was expanded. So one comparison of integers orders by (distance, row), and a
/// distance never parts from its row.
using Key = std::uint64_t;
inline constexpr Key no_key = ~Key{0};

KITH_HOST_DEVICE inline Key make_key(float distance, std::uint32_t row) {
  std::uint32_t bits = 0;
  memcpy(&bits, &distance, sizeof bits);
  return static_cast<Key>(bits) << 32U | static_cast<Key>(row) << 1U;
}
KITH_HOST_DEVICE inline std::uint32_t row_of(Key key) {
  return static_cast<std::uint32_t>(key) >> 1U;
}
KITH_HOST_DEVICE inline float distance_of(Key key) {
  const auto bits = static_cast<std::uint32_t>(key >> 32U);
  float distance = 0;
  memcpy(&distance, &bits, sizeof distance);
  return distance;
}
KITH_HOST_DEVICE inline bool expanded(Key key) {
  return (key & 1U) != 0;
}
/// By distance, then row, whether expanded or not.
KITH_HOST_DEVICE inline bool before(Key a, Key b) {
  return a >> 1U < b >> 1U;
}

/// sum + difference^2, rounded once: written out, so that host and device have the same bits.
KITH_HOST_DEVICE inline float add_square(float sum, float difference) {
  return fmaf(difference, difference, sum);
}

// --- Bloom filter (Bloom 1970) of the rows that a query has met

/// As many bits a query as BANG's filter has entries: with the 5,000 rows that a walk meets, one in 1,600
/// others is taken for met. The filters of a batch lie one after the other, so offsets have 64 bits: 10,741
/// of them with a byte an entry would pass 2^32.
inline constexpr std::uint32_t bloom_bits = 399'887;
inline constexpr std::int64_t bloom_words = (bloom_bits + 31) / 32;

/// FNV-1a (Fowler, Noll, Vo 1991) of a row's four bytes. The two hashes begin from different states.
KITH_HOST_DEVICE inline std::uint32_t fnv1a(std::uint32_t row, std::uint32_t state) {
  for (int byte = 0; byte < 4; ++byte) {
    state ^= row >> (8U * static_cast<unsigned>(byte)) & 0xFFU;
    state *= 16'777'619U;
  }
  return state;
}
KITH_HOST_DEVICE inline std::uint32_t first_bit(std::uint32_t row) {
  return fnv1a(row, 2'166'136'261U) % bloom_bits;
}
KITH_HOST_DEVICE inline std::uint32_t second_bit(std::uint32_t row) {
  return fnv1a(row, 0x9E3779B9U) % bloom_bits;
}
KITH_HOST_DEVICE inline bool bit_is_set(const std::uint32_t* words, std::uint32_t bit) {
  return (words[bit / 32] >> bit % 32 & 1U) != 0;
}
/// True for every row that was inserted, and for a few others.
KITH_HOST_DEVICE inline bool maybe_met(const std::uint32_t* words, std::uint32_t row) {
  return bit_is_set(words, first_bit(row)) && bit_is_set(words, second_bit(row));
}

// --- places in a merge: every element finds its own by a binary search, so all are placed at once

/// How many of the ascending `keys` come before `key`.
KITH_HOST_DEVICE inline int keys_before(const Key* keys, int count, Key key) {
  int low = 0;
  int high = count;
  while (low < high) {
    const int middle = (low + high) / 2;
    if (before(keys[middle], key)) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}
/// How many come before it or are equal to it.
KITH_HOST_DEVICE inline int keys_up_to(const Key* keys, int count, Key key) {
  int low = 0;
  int high = count;
  while (low < high) {
    const int middle = (low + high) / 2;
    if (before(key, keys[middle])) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

/// Where element i goes when neighbouring sorted runs of `width` become runs of twice that. Of equal keys
/// those of the left run come first, so no two elements go to one place.
KITH_HOST_DEVICE inline int place_in_merge(const Key* keys, int count, int width, int i) {
  const int run = i / width;
  const bool left = run % 2 == 0;
  const int begin = (left ? run + 1 : run - 1) * width;  // of the other run, which may be short or empty
  const int length = begin >= count ? 0 : (begin + width <= count ? width : count - begin);
  const int passed = length == 0 ? 0
                     : left      ? keys_before(keys + begin, length, keys[i])
                                 : keys_up_to(keys + begin, length, keys[i]);
  return run / 2 * 2 * width + (i - run * width) + passed;
}

}  // namespace kith::ladder
