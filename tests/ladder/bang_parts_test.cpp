// BANG's parts one by one, on the host: keys, filter, sort, merge.
#include "bang_parts.hpp"

#include <algorithm>
#include <iterator>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "bang_steps.hpp"

namespace kith::ladder {
namespace {

TEST(BangParts, KeysOrderByDistanceThenRow) {
  const Key near = make_key(1.5F, 7);
  const Key far = make_key(2.25F, 3);
  EXPECT_TRUE(before(near, far));
  EXPECT_TRUE(before(make_key(1.5F, 6), near));
  EXPECT_FALSE(before(near, near | 1U));  // expanded or not, it is the same row
  EXPECT_FALSE(before(near | 1U, near));
  EXPECT_EQ(row_of(near | 1U), 7U);
  EXPECT_EQ(distance_of(far), 2.25F);
  EXPECT_TRUE(expanded(near | 1U));
  EXPECT_FALSE(expanded(near));
  EXPECT_TRUE(before(make_key(0, 0), make_key(1e-40F, 0)));
  EXPECT_TRUE(before(make_key(3e38F, 0x7FFFFFFE), no_key));
  EXPECT_EQ(row_of(make_key(3e38F, 0x7FFFFFFE)), 0x7FFFFFFEU);
}

TEST(BangParts, FilterHasNoFalseNegativesAndFewFalsePositives) {
  std::vector<std::uint32_t> words(static_cast<std::size_t>(bloom_words), 0);
  std::mt19937 random(1);
  std::vector<std::uint32_t> rows(5000);
  for (std::uint32_t& row : rows) row = static_cast<std::uint32_t>(random() >> 1U);
  const auto meet = [&](std::uint32_t bit) {
    ASSERT_LT(bit, bloom_bits);
    words.at(bit / 32) |= 1U << bit % 32;
  };
  for (const std::uint32_t row : rows) {
    meet(first_bit(row));
    meet(second_bit(row));
  }
  for (const std::uint32_t row : rows) ASSERT_TRUE(maybe_met(words.data(), row));
  // One in 1,600 by the rows that are in it; rows that follow one another are not worse than others.
  int false_positives = 0;
  for (std::uint32_t row = 0; row < 100'000; ++row) false_positives += maybe_met(words.data(), row) ? 1 : 0;
  EXPECT_LT(false_positives, 200);
  EXPECT_GT(false_positives, 10);
}

std::vector<Key> random_keys(int count, std::uint32_t distances, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<Key> out;
  for (int i = 0; i < count; ++i) {
    out.push_back(
        make_key(static_cast<float>(random() % distances), static_cast<std::uint32_t>(random() % distances)) |
        random() % 2);
  }
  return out;
}

TEST(BangParts, MergeSortSortsAnyNumberOfKeys) {
  for (int count = 0; count < 150; ++count) {
    for (const std::uint32_t distances : {1U, 3U, 1000U}) {  // all equal, many, few
      std::vector<Key> keys = random_keys(count, distances, static_cast<unsigned>(count));
      const std::vector<Key> sorted = merge_sorted(keys);
      std::stable_sort(keys.begin(), keys.end(), before);
      ASSERT_EQ(sorted, keys) << count << " keys, " << distances << " distances";
    }
  }
}

TEST(BangParts, MergeKeepsTheSmallestAndThoseOfTheListFirst) {
  for (int count = 0; count < 60; count += 7) {
    for (int more = 0; more < 60; more += 5) {
      std::vector<Key> list = random_keys(count, 20, 1);
      std::vector<Key> incoming = random_keys(more, 20, 2);
      std::stable_sort(list.begin(), list.end(), before);
      std::stable_sort(incoming.begin(), incoming.end(), before);
      std::vector<Key> expected;
      std::merge(list.begin(), list.end(), incoming.begin(), incoming.end(), std::back_inserter(expected),
                 before);
      expected.resize(std::min<std::size_t>(expected.size(), 40));
      ASSERT_EQ(merged(list, incoming, 40), expected);
    }
  }
}

}  // namespace
}  // namespace kith::ladder
