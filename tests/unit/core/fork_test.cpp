// Loops in forked processes, and loops on threads of our own.
#include "core/fork.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <numeric>
#include <random>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

#include "core/own_threads.hpp"
#include "core/parallel.hpp"
#include "core/parallel_sort.hpp"
#include "cuda/fork.hpp"
#include "support/errors.hpp"
#include "support/forked.hpp"

namespace kith {
namespace {

using test::contains;
using test::in_child;
using test::message_of;

std::int64_t sum_of_squares(int threads, std::int64_t count) {
  std::atomic<std::int64_t> sum{0};
  parallel_for(threads, count, [&](std::int64_t i) { sum += i * i; });
  return sum;
}

TEST(OwnThreads, RunEveryIndexOnce) {
  for (const int threads : {1, 2, 7, 64}) {
    for (const std::int64_t count : {0, 1, 2, 1000, 100000}) {
      std::vector<std::atomic<int>> seen(static_cast<std::size_t>(count));
      own_threads::run(threads, count, [&](std::int64_t i) { ++seen[static_cast<std::size_t>(i)]; });
      EXPECT_TRUE(std::all_of(seen.begin(), seen.end(), [](const auto& times) { return times == 1; }));
    }
  }
}

TEST(OwnThreads, WorkAtOnce) {
  // Nobody leaves before two have come: with one thread this would never end.
  std::atomic<int> here{0};
  own_threads::run(2, 2, [&](std::int64_t) {
    ++here;
    while (here < 2) std::this_thread::yield();
  });
  EXPECT_EQ(here, 2);
}

TEST(OwnThreads, MayBeNestedAndCalledByMany) {
  std::atomic<std::int64_t> sum{0};
  std::vector<std::thread> callers;
  for (int t = 0; t < 4; ++t) {
    callers.emplace_back([&] {
      for (int round = 0; round < 50; ++round) {
        own_threads::run(4, 8,
                         [&](std::int64_t) { own_threads::run(3, 100, [&](std::int64_t i) { sum += i; }); });
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(sum, 4 * 50 * 8 * 4950);
}

TEST(OwnThreads, RethrowTheFirstExceptionAndStop) {
  std::atomic<std::int64_t> done{0};
  const auto body = [&](std::int64_t i) {
    if (i == 3) throw std::runtime_error("the third");
    ++done;
  };
  EXPECT_THROW(own_threads::run(4, 1'000'000'000, body), std::runtime_error);
  EXPECT_LT(done, 1'000'000'000);
}

#if !defined(__SANITIZE_THREAD__)  // which ends a forked process that starts threads

TEST(Fork, AChildKnowsThatItIsOne) {
  EXPECT_FALSE(forked());
  EXPECT_EQ(in_child([] { return forked(); }), 0);
}

TEST(Fork, LoopsRunInChildrenAfterLoopsInThreads) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) threads.emplace_back([] { sum_of_squares(4, 10000); });
  for (std::thread& thread : threads) thread.join();
  const std::int64_t expected = sum_of_squares(4, 1000);
  for (int child = 0; child < 32; ++child) {
    ASSERT_EQ(in_child([&] { return sum_of_squares(4, 1000) == expected; }), 0);
  }
}

TEST(Fork, LoopsRunInChildrenWhileThreadsAreAtWork) {
  if (!test::forks_among_threads) GTEST_SKIP() << "AddressSanitizer's locks do not survive this fork";
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      while (!stop) sum_of_squares(64, 5000);  // more than there are cores
    });
  }
  const std::int64_t expected = sum_of_squares(1, 1000);
  for (int child = 0; child < 64; ++child) {
    EXPECT_EQ(in_child([&] { return sum_of_squares(8, 1000) == expected; }), 0);
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
}

TEST(Fork, ChildrenOfChildrenWork) {
  if (!test::forks_among_threads) GTEST_SKIP() << "AddressSanitizer's locks do not survive this fork";
  const std::int64_t expected = sum_of_squares(1, 1000);
  EXPECT_EQ(in_child([&] {
              std::atomic<bool> stop{false};
              std::thread busy([&] {
                while (!stop) sum_of_squares(4, 5000);
              });
              bool good = true;
              for (int child = 0; child < 8; ++child) {
                good = good && in_child([&] { return sum_of_squares(4, 1000) == expected; }) == 0;
              }
              stop = true;
              busy.join();
              return good;
            }),
            0);
}

TEST(Fork, SortsInChildren) {
  std::vector<std::uint64_t> values(100'003);
  std::mt19937_64 random(1);
  for (std::uint64_t& value : values) value = random() % 50'000;
  std::vector<std::uint64_t> expected = values;
  std::sort(expected.begin(), expected.end());
  for (const int threads : {1, 2, 3, 16}) {
    std::vector<std::uint64_t> here = values;
    parallel_sort(threads, here);
    EXPECT_EQ(here, expected);
    EXPECT_EQ(in_child([&] {
                parallel_sort(threads, values);
                return values == expected;
              }),
              0);
  }
}

#endif

TEST(Fork, CudaIsRefusedAfterItsUse) {
  EXPECT_EQ(in_child([] {  // of its own, so that this process stays one without CUDA
              if (in_child([] {
                    cuda::use_driver();
                    return !cuda::driver_lost();
                  }) != 0) {
                return false;
              }
              cuda::use_driver();
              return in_child([] {
                       const std::string message = message_of<DeviceError>([] { cuda::use_driver(); });
                       return cuda::driver_lost() && contains(message, "forked") &&
                              contains(message, "\"spawn\"") && contains(message, "\"forkserver\"");
                     }) == 0;
            }),
            0);
}

}  // namespace
}  // namespace kith
