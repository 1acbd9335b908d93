// Stable parallel radix sort of integer keys with a value each.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/aligned_buffer.hpp"
#include "core/parallel.hpp"

namespace kith {

template <class Key, class Value>
struct Keyed {
  Key key;
  Value value;
};

/// Sorts by the lower `bits` of the keys, least digit first, 8 bits a pass; passes in which all keys agree
/// are left out. Takes as much memory again.
template <class Key, class Value>
void radix_sort(AlignedBuffer<Keyed<Key, Value>>& items, int bits, int threads) {
  constexpr int digit_bits = 8;
  constexpr std::size_t digits = std::size_t{1} << digit_bits;
  const std::int64_t count = items.size();
  if (count < 2) return;
  const std::int64_t blocks = threads == 1 || count < (1 << 15) ? 1 : threads;
  const auto part = [&](std::int64_t b) { return count * b / blocks; };
  AlignedBuffer<Keyed<Key, Value>> other(count);
  std::vector<std::array<std::int64_t, digits>> places(static_cast<std::size_t>(blocks));
  for (int shift = 0; shift < bits; shift += digit_bits) {
    const auto digit_of = [&](const Keyed<Key, Value>& item) {
      return static_cast<std::size_t>(item.key >> shift) & (digits - 1);
    };
    parallel_for(threads, blocks, [&](std::int64_t b) {
      auto& seen = places[static_cast<std::size_t>(b)];
      seen.fill(0);
      for (std::int64_t i = part(b); i < part(b + 1); ++i) ++seen[digit_of(items[i])];
    });
    std::int64_t at = 0;
    bool constant = false;
    for (std::size_t d = 0; d < digits; ++d) {
      const std::int64_t first = at;
      for (auto& block : places) at += std::exchange(block[d], at);
      constant = constant || at - first == count;
    }
    if (constant) continue;
    parallel_for(threads, blocks, [&](std::int64_t b) {
      auto& place = places[static_cast<std::size_t>(b)];
      for (std::int64_t i = part(b); i < part(b + 1); ++i) other[place[digit_of(items[i])]++] = items[i];
    });
    std::swap(items, other);
  }
}

}  // namespace kith
