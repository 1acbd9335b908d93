// Stopping because the caller asks to, and the memory that tasks share.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <numeric>
#include <thread>
#include <vector>

#include "core/large_vector.hpp"
#include "core/long_sort.hpp"
#include "core/memory_budget.hpp"
#include "core/parallel.hpp"
#include "kith/error.hpp"

namespace kith {
namespace {

TEST(StopRequest, IsAskedByOneThreadAtATimeAndHeardByAll) {
  std::atomic<int> inside{0};
  std::atomic<bool> together{false};
  std::atomic<int> polls{0};
  Execution execution;
  execution.threads = 4;
  execution.cancelled = [&] {
    if (++inside > 1) together = true;
    std::this_thread::sleep_for(std::chrono::microseconds(200));
    --inside;
    return ++polls > 20;
  };
  std::atomic<std::int64_t> done{0};
  EXPECT_THROW(parallel_for(execution, 1'000'000,
                            [&](std::int64_t) {
                              ++done;
                              std::this_thread::sleep_for(std::chrono::microseconds(50));
                            }),
               Cancelled);
  EXPECT_FALSE(together);
  EXPECT_LT(done, 100'000);
}

TEST(StopRequest, ManyOfThemMayAskOneAtATime) {
  std::atomic<int> inside{0};
  std::atomic<bool> together{false};
  std::atomic<std::int64_t> asked{0};
  Execution execution;
  execution.cancelled = [&] {
    if (inside.fetch_add(1) != 0) together = true;
    for (int i = 0; i < 5; ++i) std::this_thread::yield();
    inside.fetch_sub(1);
    return ++asked >= 50;
  };
  const Execution shared = asked_by_one(execution);
  std::atomic<int> stopped{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      StopRequest stop(shared);
      try {
        while (true) stop.check();
      } catch (const Cancelled&) {
        ++stopped;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(stopped, 8);
  EXPECT_FALSE(together);
  EXPECT_EQ(asked, 50) << "nobody is asked again";
  EXPECT_FALSE(asked_by_one({}).cancelled);
}

TEST(StopRequest, WithoutACallbackNothingHappens) {
  const Execution execution;
  StopRequest stop(execution);
  stop.check();
  std::atomic<int> done{0};
  parallel_for(execution, 100, [&](std::int64_t) { ++done; });
  EXPECT_EQ(done, 100);
}

TEST(LongSort, SortsAndSelectsAsTheStandardDoes) {
  for (const std::int64_t count : {std::int64_t{0}, std::int64_t{1}, long_list - 1, 3 * long_list}) {
    std::vector<std::uint32_t> values(static_cast<std::size_t>(count));
    std::uint32_t state = 1;
    for (auto& v : values) v = state = state * 1664525U + 1013904223U;
    std::vector<std::uint32_t> sorted = values;
    std::sort(sorted.begin(), sorted.end());
    std::vector<std::uint32_t> ours = values;
    sort_long(ours.begin(), ours.end(), std::less<>(), [] {});
    EXPECT_EQ(ours, sorted);
    if (count == 0) continue;
    ours = values;
    select_long(ours.begin(), ours.begin() + count / 2, ours.end(), std::less<>(), [] {});
    EXPECT_EQ(ours[static_cast<std::size_t>(count / 2)], sorted[static_cast<std::size_t>(count / 2)]);
  }
}

TEST(LongSort, EndsWhenItIsToldTo) {
  std::vector<std::uint32_t> values(static_cast<std::size_t>(8 * long_list));
  std::uint32_t state = 1;
  for (auto& v : values) v = state = state * 1664525U + 1013904223U;
  int asked = 0;
  const auto stop = [&] {
    if (++asked == 3) throw Cancelled("enough");
  };
  EXPECT_THROW(sort_long(values.begin(), values.end(), std::less<>(), stop), Cancelled);
  EXPECT_EQ(asked, 3);
}

TEST(LargeVector, IsFilledAndStopped) {
  Execution execution;
  const auto values = large_vector<std::int64_t>(20'000'000, execution, -1);
  EXPECT_EQ(values.size(), 20'000'000U);
  EXPECT_EQ(std::count(values.begin(), values.end(), -1), 20'000'000);
  EXPECT_TRUE(large_vector<double>(0, execution).empty());
  execution.cancelled = [] { return true; };
  EXPECT_THROW((void)large_vector<std::int64_t>(20'000'000, execution), Cancelled);
}

TEST(MemoryBudget, GivesWhatThereIs) {
  MemoryBudget budget(100);
  EXPECT_TRUE(budget.take(60));
  EXPECT_FALSE(budget.take(41));
  EXPECT_TRUE(budget.take(40));
  EXPECT_FALSE(budget.take(1));
  budget.give_back(50);
  EXPECT_TRUE(budget.take(50));
}

TEST(MemoryBudget, TheMachineHasSome) {
  EXPECT_GT(machine_memory(), std::int64_t{1} << 20);
  EXPECT_GT(available_memory(), 0);
  EXPECT_LE(available_memory(), machine_memory());
}

}  // namespace
}  // namespace kith
