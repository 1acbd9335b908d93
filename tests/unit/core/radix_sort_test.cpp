// Radix sorts: the order of a stable sort, whatever the keys.
#include "core/radix_sort.hpp"

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace kith {
namespace {

using Item = Keyed<std::uint64_t, std::uint32_t>;

struct Case {
  std::string name;
  std::uint64_t (*key)(std::int64_t i, std::mt19937_64& random);
};

const Case cases[] = {
    {"Random", [](std::int64_t, std::mt19937_64& random) -> std::uint64_t { return random(); }},
    {"Sorted", [](std::int64_t i, std::mt19937_64&) { return static_cast<std::uint64_t>(i) << 20U; }},
    {"Falling", [](std::int64_t i, std::mt19937_64&) { return ~static_cast<std::uint64_t>(i); }},
    {"AllEqual", [](std::int64_t, std::mt19937_64&) { return std::uint64_t{1} << 63U; }},
    {"FewValues", [](std::int64_t, std::mt19937_64& random) { return (random() & 3U) << 61U; }},
    {"LowBits", [](std::int64_t, std::mt19937_64& random) { return random() & 0xFFFU; }},
    // Each digit tells one key from the rest: the parts shrink by little.
    {"OneBitEach", [](std::int64_t i, std::mt19937_64&) { return std::uint64_t{1} << (i % 64); }},
    {"Clusters",
     [](std::int64_t, std::mt19937_64& random) { return (random() % 5) << 60U | (random() & 0xFFFFFU); }},
};

class RadixSort : public testing::TestWithParam<Case> {};

TEST_P(RadixSort, IsAStableSort) {
  std::mt19937_64 random(7);
  for (const std::int64_t count : {0, 1, 2, 24, 25, 1000, 8191, 200000}) {
    std::vector<Item> expected;
    for (std::int64_t i = 0; i < count; ++i) {
      expected.push_back({GetParam().key(i, random), static_cast<std::uint32_t>(i)});
    }
    const auto unsorted = expected;
    std::stable_sort(expected.begin(), expected.end(),
                     [](const Item& a, const Item& b) { return a.key < b.key; });
    for (const int threads : {1, 2, 5}) {
      for (const bool from_top : {false, true}) {
        AlignedBuffer<Item> items(count);
        std::copy(unsorted.begin(), unsorted.end(), items.data());
        from_top ? sort_from_top(items, threads) : radix_sort(items, 64, threads);
        std::int64_t wrong = 0;
        for (std::int64_t i = 0; i < count; ++i) {
          const Item& at = expected[static_cast<std::size_t>(i)];
          wrong += items[i].key != at.key || items[i].value != at.value ? 1 : 0;
        }
        EXPECT_EQ(wrong, 0) << count << " keys, " << threads << " threads, from top: " << from_top;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Keys, RadixSort, testing::ValuesIn(cases),
                         [](const auto& tested) { return tested.param.name; });

}  // namespace
}  // namespace kith
