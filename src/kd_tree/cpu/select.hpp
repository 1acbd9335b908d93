// Dividing a range of records in place, without a branch that depends on the data.
#pragma once

#include <algorithm>
#include <cstdint>

namespace kith::kd_tree {
namespace {

// Moves items for which `before` holds to the front, without a branch that depends on the data (Lomuto's
// partition, as in Edelkamp and Weiss, "BlockQuicksort", 2016). Returns how many.
template <class R, class Before>
std::int64_t partition(R* items, std::int64_t count, const Before& before) {
  std::int64_t front = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const R item = items[i];
    items[i] = items[front];
    items[front] = item;
    front += before(item) ? 1 : 0;
  }
  return front;
}

// As std::nth_element by key(item): for medians of many small ranges a branch a comparison costs most.
template <class R, class Key>
void nth_element(R* items, std::int64_t nth, std::int64_t count, const Key& key) {
  constexpr std::int64_t small = 24;
  for (int round = 0; count > small; ++round) {
    if (round == 64) {  // pivots that divide badly again and again
      std::nth_element(items, items + nth, items + count,
                       [&](const R& a, const R& b) { return key(a) < key(b); });
      return;
    }
    // The pivot is a median of nine near the wanted rank.
    decltype(key(items[0])) sample[9];
    for (std::int64_t i = 0; i < 9; ++i) sample[i] = key(items[(2 * i + 1) * count / 18]);
    const auto rank = std::clamp<std::int64_t>(nth * 9 / count, 1, 7);
    std::nth_element(sample, sample + rank, sample + 9);
    const auto pivot = sample[rank];
    const std::int64_t less = partition(items, count, [&](const R& item) { return key(item) < pivot; });
    if (nth < less) {
      count = less;
      continue;
    }
    if (less > 0) {  // equal ones are moved when nothing else is left of the pivot
      items += less;
      nth -= less;
      count -= less;
      continue;
    }
    const std::int64_t equal = partition(items, count, [&](const R& item) { return !(pivot < key(item)); });
    if (nth < equal) return;
    items += equal;
    nth -= equal;
    count -= equal;
  }
  for (std::int64_t i = 1; i < count; ++i) {
    const R item = items[i];
    std::int64_t j = i;
    for (; j > 0 && key(item) < key(items[j - 1]); --j) items[j] = items[j - 1];
    items[j] = item;
  }
}

}  // namespace
}  // namespace kith::kd_tree
