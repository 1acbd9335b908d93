// Sorting and selecting that can be given up: long lists take seconds.
#pragma once

#include <algorithm>
#include <cstdint>

namespace kith {

/// Below this many elements sorting takes some milliseconds.
inline constexpr std::int64_t long_list = 1 << 17;

/// `less`, calling `check` every 2^20th time; what `check` throws ends the algorithm that compares.
template <class Less, class Check>
auto checking(const Less& less, const Check& check, std::uint32_t& calls) {
  return [&](const auto& a, const auto& b) {
    if ((++calls & 0xFFFFFU) == 0) check();
    return less(a, b);
  };
}

/// std::sort. What `check` throws leaves the elements in no order, some of them twice.
template <class Iterator, class Less, class Check>
void sort_long(Iterator first, Iterator last, const Less& less, const Check& check) {
  if (last - first < long_list) {
    std::sort(first, last, less);
    return;
  }
  std::uint32_t calls = 0;
  std::sort(first, last, checking(less, check, calls));
}

/// std::nth_element; likewise.
template <class Iterator, class Less, class Check>
void select_long(Iterator first, Iterator nth, Iterator last, const Less& less, const Check& check) {
  if (last - first < long_list) {
    std::nth_element(first, nth, last, less);
    return;
  }
  std::uint32_t calls = 0;
  std::nth_element(first, nth, last, checking(less, check, calls));
}

}  // namespace kith
