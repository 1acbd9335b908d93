// Loops on several threads: one after the other, within each other, at once, and after an error.
#include "core/parallel.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>
#include <vector>

namespace kith {
namespace {

// Whether a loop of `count` did each of its parts once.
bool does_each_once(int threads, std::int64_t count) {
  std::vector<std::atomic<int>> done(static_cast<std::size_t>(count));
  parallel_for(threads, count, [&](std::int64_t i) { ++done[static_cast<std::size_t>(i)]; });
  return std::all_of(done.begin(), done.end(), [](const auto& times) { return times == 1; });
}

// Each part waits for all others: they end only where each has a thread of its own.
bool has_threads(int threads) {
  using Clock = std::chrono::steady_clock;
  const auto deadline = Clock::now() + std::chrono::seconds(60);
  std::atomic<int> here{0};
  parallel_for(threads, threads, [&](std::int64_t) {
    ++here;
    while (here < threads && Clock::now() < deadline) std::this_thread::yield();
  });
  return Clock::now() < deadline;
}

TEST(ParallelFor, HasAsManyThreadsAsAskedEveryTime) {
  for (int turn = 0; turn < 20; ++turn) {
    for (const int threads : {2, 5, 3}) ASSERT_TRUE(has_threads(threads)) << threads << ", turn " << turn;
  }
}

TEST(ParallelFor, RunsWithinALoop) {
  std::atomic<int> whole{0};
  parallel_for(3, 40,
               [&](std::int64_t i) { whole += does_each_once(2 + static_cast<int>(i % 3), 30) ? 1 : 0; });
  EXPECT_EQ(whole, 40);
}

// More loops at once than arenas are kept.
TEST(ParallelFor, RunsForManyCallersAtOnce) {
  std::atomic<int> whole{0};
  std::atomic<int> waiting{0};
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 80; ++caller) {
    callers.emplace_back([&, caller] {
      ++waiting;
      parallel_for(2, 2, [&](std::int64_t) {
        while (waiting < 80) std::this_thread::yield();
      });
      for (int turn = 0; turn < 5; ++turn) whole += does_each_once(2 + (caller + turn) % 3, 7) ? 1 : 0;
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(whole, 400);
}

TEST(ParallelFor, IsWholeAgainAfterAnError) {
  for (int turn = 0; turn < 20; ++turn) {
    EXPECT_THROW(parallel_for(3, 100,
                              [&](std::int64_t i) {
                                if (i == turn * 5) throw std::runtime_error("stop");
                              }),
                 std::runtime_error);
    EXPECT_TRUE(does_each_once(3, 100));
  }
}

}  // namespace
}  // namespace kith
