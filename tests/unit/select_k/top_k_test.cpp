// TopK against a full sort: both of its regimes, ties, and rows offered in any order.
#include "select_k/top_k.hpp"

#include <algorithm>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "conformance/problem.hpp"

namespace kith {
namespace {

using Entry = TopK<float>::Entry;

std::vector<Entry> random_entries(std::int64_t count, std::int64_t distinct, std::uint64_t seed) {
  conformance::Random random(seed);
  std::vector<Entry> entries;
  for (std::int64_t i = 0; i < count; ++i)
    entries.emplace_back(static_cast<float>(random.below(distinct)), i);
  for (std::int64_t i = count - 1; i > 0; --i) {
    std::swap(entries[static_cast<std::size_t>(i)], entries[static_cast<std::size_t>(random.below(i + 1))]);
  }
  return entries;
}

TEST(TopK, EqualsASortForEveryK) {
  for (const std::int64_t count : {0, 1, 63, 64, 65, 1000, 5000}) {
    for (const std::int64_t distinct : {1, 7, 100000}) {
      const auto entries = random_entries(count, distinct, static_cast<std::uint64_t>(count * 31 + distinct));
      for (const std::int64_t k : {1, 2, 64, 65, 255, 256, 257, 1000, 2049, 6000}) {
        TopK<float> list(k);
        for (const auto& [distance, row] : entries) list.offer(distance, row);
        auto want = entries;
        std::sort(want.begin(), want.end());
        want.resize(std::min(want.size(), static_cast<std::size_t>(k)));
        EXPECT_EQ(list.take(), want) << count << " entries, " << distinct << " distances, k = " << k;
      }
    }
  }
}

TEST(TopK, BoundIsInfiniteUntilFullAndNeverBelowTheKth) {
  for (const std::int64_t k : {1, 10, 256, 300, 1000}) {
    const auto entries = random_entries(4000, 1000, static_cast<std::uint64_t>(k));
    TopK<float> list(k);
    std::vector<Entry> seen;
    for (const auto& [distance, row] : entries) {
      list.offer(distance, row);
      seen.emplace_back(distance, row);
      if (static_cast<std::int64_t>(seen.size()) < k) {
        EXPECT_EQ(list.bound(), std::numeric_limits<float>::infinity());
        continue;
      }
      std::nth_element(seen.begin(), seen.begin() + (k - 1), seen.end());
      ASSERT_GE(list.bound(), seen[static_cast<std::size_t>(k - 1)].first);
    }
  }
}

TEST(TopK, TheKthMayBeAskedForAtAnyTime) {
  for (const std::int64_t k : {1, 10, 256, 300, 1000}) {
    const auto entries = random_entries(3000, 1000, static_cast<std::uint64_t>(k));
    TopK<float> list(k);
    TopK<float> unasked(k);
    std::vector<Entry> seen;
    for (const auto& [distance, row] : entries) {
      list.offer(distance, row);
      unasked.offer(distance, row);
      seen.emplace_back(distance, row);
      if (seen.size() % 16 != 0) continue;
      if (static_cast<std::int64_t>(seen.size()) < k) {
        EXPECT_EQ(list.kth(), std::numeric_limits<float>::infinity());
        continue;
      }
      std::nth_element(seen.begin(), seen.begin() + (k - 1), seen.end());
      ASSERT_EQ(list.kth(), seen[static_cast<std::size_t>(k - 1)].first);
    }
    EXPECT_EQ(list.take(), unasked.take());
  }
}

TEST(TopK, RefusesWhatCannotEnter) {
  TopK<double> list(2);
  EXPECT_TRUE(list.offer(1.0, 5));
  EXPECT_TRUE(list.offer(2.0, 7));
  EXPECT_FALSE(list.offer(2.0, 8));  // a tie goes to the lower row
  EXPECT_TRUE(list.offer(2.0, 6));
  EXPECT_FALSE(list.offer(3.0, 0));
  EXPECT_EQ(list.take(), (std::vector<TopK<double>::Entry>{{1.0, 5}, {2.0, 6}}));
}

}  // namespace
}  // namespace kith
