// Stable parallel radix sorts of integer keys with a value each.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
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

/// Sorts by the lower `bits` of the keys, least digit first, 11 bits a pass (8 where there are few keys, for
/// which counters would be most of the work); passes in which all keys agree are left out. Takes as much
/// memory again.
template <class Key, class Value>
void radix_sort(AlignedBuffer<Keyed<Key, Value>>& items, int bits, int threads) {
  const std::int64_t count = items.size();
  if (count < 2) return;
  const int digit_bits = count < (1 << 13) ? 8 : 11;
  const std::size_t digits = std::size_t{1} << static_cast<unsigned>(digit_bits);
  const std::int64_t blocks = threads == 1 || count < (1 << 15) ? 1 : threads;
  const auto part = [&](std::int64_t b) { return count * b / blocks; };
  AlignedBuffer<Keyed<Key, Value>> other(count);
  std::vector<std::vector<std::int64_t>> offsets(static_cast<std::size_t>(blocks));
  for (int shift = 0; shift < bits; shift += digit_bits) {
    const auto digit_of = [&](const Keyed<Key, Value>& item) {
      return static_cast<std::size_t>(item.key >> shift) & (digits - 1);
    };
    parallel_for(threads, blocks, [&](std::int64_t b) {
      auto& counts = offsets[static_cast<std::size_t>(b)];
      counts.assign(digits, 0);
      for (std::int64_t i = part(b); i < part(b + 1); ++i) ++counts[digit_of(items[i])];
    });
    std::int64_t at = 0;
    bool constant = false;
    for (std::size_t d = 0; d < digits; ++d) {
      const std::int64_t first = at;
      for (auto& block : offsets) at += std::exchange(block[d], at);
      constant = constant || at - first == count;
    }
    if (constant) continue;
    parallel_for(threads, blocks, [&](std::int64_t b) {
      auto& next = offsets[static_cast<std::size_t>(b)];
      for (std::int64_t i = part(b); i < part(b + 1); ++i) other[next[digit_of(items[i])]++] = items[i];
    });
    std::swap(items, other);
  }
}

/// The same order by all bits of the keys, highest digit first: a part whose keys agree in a digit skips it,
/// and a part that fits a cache stays there until it is sorted. Keys that differ early, as places of n points
/// do, are read log(n) / 11 times, however many bits they have. Takes as much memory again.
template <class Key, class Value>
class SortFromTop {
  using Item = Keyed<Key, Value>;

 public:
  static void sort(AlignedBuffer<Item>& items, int threads, const Execution& execution) {
    const std::int64_t count = items.size();
    if (count < 2) return;
    AlignedBuffer<Item> other(count);
    SortFromTop(items.data(), other.data(), threads, execution).run(count);
  }

 private:
  static constexpr int most_bits = 11;
  static constexpr std::int64_t few = 24;            // insertion is quicker
  static constexpr std::int64_t own_part = 1 << 16;  // not worth more than one thread
  using Counts = std::array<std::int64_t, (1U << most_bits) + 1>;

  struct Part {
    std::int64_t begin;
    std::int64_t count;
    bool moved;  // lies in other_
  };

  SortFromTop(Item* items, Item* other, int threads, const Execution& execution)
      : items_(items), other_(other), threads_(threads), stop_(execution) {}

  // Large parts are dealt out by all threads together, what they come to by one thread each.
  void run(std::int64_t count) {
    const std::int64_t shared = threads_ == 1 ? count : std::max(own_part, count / (4 * threads_));
    std::vector<Part> large = {{0, count, false}};
    std::vector<Part> jobs;
    while (!large.empty()) {
      const Part part = large.back();
      large.pop_back();
      if (part.count <= shared) {
        jobs.push_back(part);
      } else {
        deal(part, large);
      }
    }
    std::sort(jobs.begin(), jobs.end(), [](const Part& a, const Part& b) { return a.count > b.count; });
    parallel_for(threads_, static_cast<std::int64_t>(jobs.size()), [&](std::int64_t j) {
      stop_.check();
      const Part& part = jobs[static_cast<std::size_t>(j)];
      Item* items = items_ + part.begin;
      Item* other = other_ + part.begin;
      part.moved ? sort_part(other, items, part.count, false) : sort_part(items, other, part.count, true);
    });
  }

  // The highest digit in which some keys differ.
  struct Digit {
    int shift = 0;
    std::size_t values = 0;  // 0: all keys agree
    std::size_t of(const Item& item) const {
      return static_cast<std::size_t>(item.key >> shift) & (values - 1);
    }
  };
  static Digit digit_of(Key differing, int bits) {
    if (differing == 0) return {};
    const int width = static_cast<int>(std::bit_width(differing));
    return {std::max(0, width - bits), std::size_t{1} << static_cast<unsigned>(std::min(bits, width))};
  }
  static Key differing(const Item* items, std::int64_t count) {
    Key bits = 0;
    for (std::int64_t i = 1; i < count; ++i) bits |= items[i].key ^ items[0].key;
    return bits;
  }

  void deal(const Part& part, std::vector<Part>& parts) {
    stop_.check();
    const Item* from = (part.moved ? other_ : items_) + part.begin;
    Item* to = (part.moved ? items_ : other_) + part.begin;
    const std::int64_t blocks = 4 * threads_;
    const auto at = [&](std::int64_t b) { return part.count * b / blocks; };
    std::vector<Key> found(static_cast<std::size_t>(blocks));
    parallel_for(threads_, blocks, [&](std::int64_t b) {
      found[static_cast<std::size_t>(b)] =
          differing(from + at(b), at(b + 1) - at(b)) | (from[at(b)].key ^ from[0].key);
    });
    Key bits = 0;
    for (const Key block : found) bits |= block;
    const Digit digit = digit_of(bits, most_bits);
    if (digit.values == 0) {  // sorted, wherever it lies
      if (part.moved) std::copy_n(from, part.count, to);
      return;
    }
    std::vector<std::vector<std::int64_t>> offsets(static_cast<std::size_t>(blocks));
    parallel_for(threads_, blocks, [&](std::int64_t b) {
      auto& counts = offsets[static_cast<std::size_t>(b)];
      counts.assign(digit.values, 0);
      for (std::int64_t i = at(b); i < at(b + 1); ++i) ++counts[digit.of(from[i])];
    });
    std::int64_t end = 0;
    for (std::size_t d = 0; d < digit.values; ++d) {
      const std::int64_t first = end;
      for (auto& block : offsets) end += std::exchange(block[d], end);
      if (end > first) parts.push_back({part.begin + first, end - first, !part.moved});
    }
    parallel_for(threads_, blocks, [&](std::int64_t b) {
      auto& next = offsets[static_cast<std::size_t>(b)];
      for (std::int64_t i = at(b); i < at(b + 1); ++i) to[next[digit.of(from[i])]++] = from[i];
    });
  }

  // Sorts `from`; the result lies there if `stays`, else in `to`.
  void sort_part(Item* from, Item* to, std::int64_t count, bool stays) {
    if (count <= few) {
      insert(from, stays ? from : to, count);
      return;
    }
    const auto pause = [&] {
      if (count > own_part) stop_.check();
    };
    pause();
    // About eight a value.
    const int wanted = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(count))) - 3;
    const Digit digit = digit_of(differing(from, count), std::min(most_bits, wanted));
    if (digit.values == 0) {
      if (!stays) std::copy_n(from, count, to);
      return;
    }
    Counts ends;
    std::fill_n(ends.begin(), digit.values + 1, 0);
    pause();
    for (std::int64_t i = 0; i < count; ++i) ++ends[digit.of(from[i]) + 1];
    for (std::size_t d = 0; d < digit.values; ++d) ends[d + 1] += ends[d];
    pause();
    for (std::int64_t i = 0; i < count; ++i) to[ends[digit.of(from[i])]++] = from[i];  // begins become ends
    std::int64_t begin = 0;
    for (std::size_t d = 0; d < digit.values; ++d) {
      const std::int64_t end = ends[d];
      if (end > begin) sort_part(to + begin, from + begin, end - begin, !stays);
      begin = end;
    }
  }

  static void insert(const Item* from, Item* to, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) {
      const Item item = from[i];
      std::int64_t j = i;
      for (; j > 0 && item.key < to[j - 1].key; --j) to[j] = to[j - 1];
      to[j] = item;
    }
  }

  Item* items_;
  Item* other_;
  int threads_;
  StopRequest stop_;
};

/// As SortFromTop says. @throws Cancelled when `execution` asks to stop
template <class Key, class Value>
void sort_from_top(AlignedBuffer<Keyed<Key, Value>>& items, int threads, const Execution& execution = {}) {
  SortFromTop<Key, Value>::sort(items, threads, execution);
}

}  // namespace kith
