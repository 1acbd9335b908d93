// BruteForce around the search itself: arguments, limits, progress, cancelling, many threads at once.
#include "kith/brute_force.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <limits>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "conformance/problem.hpp"
#include "kith/error.hpp"
#include "support/errors.hpp"

namespace kith {
namespace {

using conformance::Problem;
using conformance::Rows;
using test::contains;
using test::message_of;

constexpr Filter all_filters[] = {Filter::automatic, Filter::int8, Filter::fp16, Filter::fp32, Filter::none};

Problem gaussian(std::int64_t n, std::int64_t d, std::int64_t q, Metric metric = Metric::sqeuclidean) {
  return conformance::make_problem("gaussian", conformance::gaussian(n, d, q, 77), Dtype::f32, metric, 10);
}

void expect_truth(const Problem& problem, const Neighbors& result) {
  ASSERT_EQ(result.queries, problem.queries.rows);
  for (std::int64_t q = 0; q < result.queries; ++q) {
    const auto& truth = problem.truth[static_cast<std::size_t>(q)];
    for (std::int64_t j = 0; j < result.k; ++j) {
      ASSERT_EQ(result.indices_of(q)[static_cast<std::size_t>(j)],
                truth.indices[static_cast<std::size_t>(j)]);
      ASSERT_EQ(result.distance(q, j), truth.distances[static_cast<std::size_t>(j)]);
    }
  }
}

TEST(BruteForceArguments, EachErrorNamesTheValueAndTheRemedy) {
  const std::vector<float> values(12, 1.0F);
  const std::vector<double> doubles(12, 1.0);
  const DatasetView data(values.data(), 4, 3);
  const BruteForce index = BruteForce::build(data);
  for (const std::int64_t k : {std::int64_t{0}, std::int64_t{-1}, std::numeric_limits<std::int64_t>::min()}) {
    const std::string message = message_of<InvalidArgument>([&] { index.search(data, k); });
    EXPECT_TRUE(contains(message, std::to_string(k)));
    EXPECT_TRUE(contains(message, "at least 1"));
  }
  const std::string dims =
      message_of<InvalidArgument>([&] { index.search(DatasetView(values.data(), 3, 4), 1); });
  EXPECT_TRUE(contains(dims, "dimension 4"));
  EXPECT_TRUE(contains(dims, "3"));
  const std::string types =
      message_of<InvalidArgument>([&] { index.search(DatasetView(doubles.data(), 4, 3), 1); });
  EXPECT_TRUE(contains(types, "f64"));
  EXPECT_TRUE(contains(types, "f32"));
  EXPECT_TRUE(contains(
      message_of<InvalidArgument>([&] { index.search(DatasetView(values.data(), -4, 3), 1); }), "queries"));
  EXPECT_TRUE(contains(
      message_of<InvalidArgument>([&] { BruteForce::build(DatasetView(values.data(), -4, 3)); }), "dataset"));
  EXPECT_THROW(knn(data, data, 0), InvalidArgument);
}

TEST(BruteForceArguments, ThreadsAndDevicesAreChecked) {
  const std::vector<float> values(12, 1.0F);
  const DatasetView data(values.data(), 4, 3);
  const BruteForce index = BruteForce::build(data);
  for (const int threads : {-1, 5000}) {
    Execution execution;
    execution.threads = threads;
    EXPECT_TRUE(contains(message_of<InvalidArgument>([&] { index.search(data, 1, execution); }),
                         std::to_string(threads)));
    EXPECT_THROW(BruteForce::build(data, {}, execution), InvalidArgument);
  }
  Execution execution;
  execution.devices = {Device{Device::Kind::cuda, 0}};
  EXPECT_THROW(index.search(data, 1, execution), Error) << "a device that is not supported is not ignored";
  execution.devices = {};
  EXPECT_THROW(index.search(data, 1, execution), InvalidArgument);
}

TEST(BruteForceArguments, AnImpossibleKIsRefused) {
  const std::vector<float> values(12, 1.0F);
  const DatasetView data(values.data(), 4, 3);
  const BruteForce index = BruteForce::build(data);
  std::vector<std::int64_t> sizes = {std::numeric_limits<std::int64_t>::max()};
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  sizes.push_back(std::int64_t{1} << 45U);  // the sanitizers' allocators abort instead of throwing
#endif
  for (const std::int64_t k : sizes) EXPECT_THROW(index.search(data, k), OutOfMemory) << k;
}

TEST(BruteForceProperties, TellsWhatItHolds) {
  const Problem problem = gaussian(300, 20, 1, Metric::cosine);
  const Rows rows(problem.data, problem.dtype);
  for (const Filter filter : all_filters) {
    const BruteForce index = BruteForce::build(rows.view(), {Metric::cosine, filter});
    EXPECT_EQ(index.rows(), 300);
    EXPECT_EQ(index.dim(), 20);
    EXPECT_EQ(index.dtype(), Dtype::f32);
    EXPECT_EQ(index.metric(), Metric::cosine);
    if (filter == Filter::automatic) {
      EXPECT_NE(index.filter(), Filter::automatic);
    } else {
      EXPECT_EQ(index.filter(), filter);
    }
    if (filter == Filter::none) {
      EXPECT_LT(index.memory_bytes(), 300U * 20U);
    } else if (filter != Filter::automatic) {
      const std::uint64_t width = filter == Filter::int8 ? 1 : filter == Filter::fp16 ? 2 : 4;
      EXPECT_GE(index.memory_bytes(), filter == Filter::fp32 ? 0 : 300 * 20 * width);
    }
  }
}

TEST(BruteForceOwnership, ADatasetIsKeptAlive) {
  Problem problem = gaussian(200, 7, 5);
  const Rows rows(problem.data, problem.dtype);
  const Rows queries(problem.queries, problem.dtype);
  Dataset data = Dataset::copy(rows.view());
  const BruteForce index = BruteForce::build(data);
  data = Dataset();
  const BruteForce copy = index;
  expect_truth(problem, copy.search(queries.view(), 10));
}

// Too little memory is refused before any is taken, with the amount, the limit and what to do.
TEST(BruteForceMemory, TheLimitIsHonoured) {
  const Problem problem = gaussian(20000, 64, 200);
  const Rows rows(problem.data, problem.dtype);
  const Rows queries(problem.queries, problem.dtype);
  Execution execution;
  execution.memory_limit = 1000;
  for (const Filter filter : {Filter::int8, Filter::fp16}) {
    const std::string message = message_of<OutOfMemory>([&] {
      BruteForce::build(rows.view(), {Metric::sqeuclidean, filter}, execution);
    });
    EXPECT_TRUE(contains(message, "1000"));
  }
  const BruteForce index = BruteForce::build(rows.view());
  const std::string message = message_of<OutOfMemory>([&] { index.search(queries.view(), 10, execution); });
  EXPECT_TRUE(contains(message, "1000"));
  execution.memory_limit = std::uint64_t{1} << 30U;
  expect_truth(problem, index.search(queries.view(), 10, execution));
  expect_truth(problem, knn(rows.view(), queries.view(), 10, {}, execution));
}

// A filter may have several forms of unequal size: none above the limit is taken.
TEST(BruteForceMemory, NoCodesAboveTheLimit) {
  const Problem problem = gaussian(1000, 128, 5);
  const Rows rows(problem.data, problem.dtype);
  for (const Filter filter : {Filter::int8, Filter::fp16, Filter::fp32}) {
    const std::uint64_t most = BruteForce::build(rows.view(), {Metric::sqeuclidean, filter}).memory_bytes();
    int built = 0;
    for (std::uint64_t limit = most; limit > most / 10 * 9; limit -= most / 200) {
      Execution execution;
      execution.memory_limit = limit;
      try {
        const BruteForce index = BruteForce::build(rows.view(), {Metric::sqeuclidean, filter}, execution);
        EXPECT_LE(index.memory_bytes(), limit) << name(filter);
        ++built;
      } catch (const OutOfMemory&) {
        EXPECT_LT(limit, most);
      }
    }
    EXPECT_GT(built, 0) << name(filter);
  }
}

TEST(BruteForceMemory, EqualRowsAreGroupedWhereThereIsRoom) {
  constexpr std::int64_t rows = 10000;
  std::vector<float> values;
  for (std::int64_t i = 0; i < rows; ++i) values.push_back(static_cast<float>(i / 4));
  const DatasetView data(values.data(), rows, 1);
  Execution execution;
  for (const bool room : {true, false}) {
    const BruteForce index = BruteForce::build(data, {}, execution);
    const Neighbors result = index.search(data.slice(5000, 1), 5, execution);
    EXPECT_EQ(result.statistics.collapsed_rows, room ? rows / 4 * 3 : 0);
    EXPECT_EQ(result.indices, (std::vector<std::int64_t>{5000, 5001, 5002, 5003, 4996}));
    execution.memory_limit = 60000;  // the codes take 40,000
    EXPECT_TRUE(room || index.memory_bytes() <= execution.memory_limit);
  }
}

// Two clusters too far apart for any code to tell the rows of one: every query leaves the filter, in every
// part of the rows, and counts once.
TEST(BruteForceStatistics, AQueryFallsBackOnce) {
  constexpr std::int64_t n = 300000;
  constexpr std::int64_t d = 17;
  conformance::Random random(5);
  std::vector<double> values(n * d);
  for (std::int64_t i = 0; i < n * d; ++i) {
    values[static_cast<std::size_t>(i)] =
        (i / d % 2 == 0 ? 1e8 : -1e8) + static_cast<double>(random.below(9));
  }
  const DatasetView data(values.data(), n, d);
  const BruteForce index = BruteForce::build(data, {Metric::sqeuclidean, Filter::int8});
  Neighbors first;
  for (const int threads : {1, 2, 4}) {
    Execution execution;
    execution.threads = threads;
    const Neighbors result = index.search(data.slice(7, 3), 5, execution);
    EXPECT_LE(result.statistics.fallbacks, 3) << threads;
    EXPECT_LT(result.statistics.candidates, 3 * n);
    if (threads < 4) {
      EXPECT_EQ(result.statistics.fallbacks, 3) << threads;
    }
    if (threads == 1) {
      EXPECT_LT(result.statistics.pairs, 3 * n) << "what is evaluated without the filter is not looked at";
      first = result;
    }
    EXPECT_EQ(result.indices, first.indices);
  }
}

TEST(BruteForceStatistics, PairsAreQueriesTimesRows) {
  const Problem problem = gaussian(1001, 20, 7);
  const Rows rows(problem.data, problem.dtype);
  const Rows queries(problem.queries, problem.dtype);
  for (const Filter filter : {Filter::int8, Filter::fp16, Filter::fp32}) {
    const BruteForce index = BruteForce::build(rows.view(), {Metric::sqeuclidean, filter});
    EXPECT_EQ(index.search(queries.view(), 10).statistics.pairs, 1001 * 7);
  }
}

struct Reports {
  std::mutex mutex;
  std::vector<Progress> list;
  std::atomic<int> inside = 0;
  bool overlapped = false;

  Execution execution(int threads) {
    Execution out;
    out.threads = threads;
    out.progress = [this](const Progress& progress) {
      if (inside.fetch_add(1) != 0) overlapped = true;
      {
        const std::lock_guard lock(mutex);
        list.push_back(progress);
      }
      inside.fetch_sub(1);
    };
    return out;
  }
};

TEST(BruteForceProgress, GrowsAndEndsAtTheTotal) {
  const Problem problem = gaussian(30000, 48, 150);
  const Rows rows(problem.data, problem.dtype);
  const Rows queries(problem.queries, problem.dtype);
  for (const int threads : {1, 4}) {
    for (const std::int64_t count : {std::int64_t{1}, std::int64_t{150}}) {
      const BruteForce index = BruteForce::build(rows.view());
      Reports reports;
      index.search(queries.view().slice(0, count), 10, reports.execution(threads));
      ASSERT_FALSE(reports.list.empty());
      EXPECT_FALSE(reports.overlapped) << "reports never come concurrently";
      std::int64_t last = 0;
      for (const Progress& progress : reports.list) {
        EXPECT_STREQ(progress.stage, "search");
        EXPECT_GT(progress.total, 0);
        EXPECT_EQ(progress.total, reports.list.front().total);
        EXPECT_GE(progress.done, last);
        EXPECT_LE(progress.done, progress.total);
        last = progress.done;
      }
      EXPECT_EQ(last, reports.list.back().total);
    }
  }
}

TEST(BruteForceProgress, BuildingReportsToo) {
  const Problem problem = gaussian(30000, 48, 1);
  const Rows rows(problem.data, problem.dtype);
  Reports reports;
  BruteForce::build(rows.view(), {Metric::sqeuclidean, Filter::int8}, reports.execution(2));
  ASSERT_FALSE(reports.list.empty());
  EXPECT_FALSE(reports.overlapped);
  EXPECT_STREQ(reports.list.back().stage, "build");
  EXPECT_EQ(reports.list.back().done, reports.list.back().total);
}

TEST(BruteForceCancel, ThrowsCancelled) {
  const Problem problem = gaussian(30000, 48, 150);
  const Rows rows(problem.data, problem.dtype);
  const Rows queries(problem.queries, problem.dtype);
  const BruteForce index = BruteForce::build(rows.view());
  for (const int threads : {1, 3}) {
    for (const std::int64_t count : {std::int64_t{1}, std::int64_t{150}}) {
      for (const int polls : {0, 2}) {
        Execution execution;
        execution.threads = threads;
        std::atomic<int> left = polls;
        execution.cancelled = [&] { return left.fetch_sub(1) <= 0; };
        EXPECT_THROW(index.search(queries.view().slice(0, count), 10, execution), Cancelled)
            << threads << " threads, " << count << " queries, " << polls << " polls";
      }
    }
  }
  Execution execution;
  execution.cancelled = [] { return true; };
  EXPECT_THROW(BruteForce::build(rows.view(), {Metric::sqeuclidean, Filter::int8}, execution), Cancelled);
  EXPECT_THROW(knn(rows.view(), queries.view(), 10, {}, execution), Cancelled);
  // The index is as good as before.
  expect_truth(problem, index.search(queries.view(), 10));
}

// Rows that no filter speaks for (here all of them) are no reason to be deaf.
TEST(BruteForceCancel, IsNoticedAmongRowsWithoutAFilter) {
  constexpr std::int64_t n = 60000;
  constexpr std::int64_t d = 16;
  conformance::Random random(6);
  std::vector<double> values(n * d);
  for (double& value : values) value = 1e300 * static_cast<double>(1 + random.below(99));
  const DatasetView data(values.data(), n, d);
  const BruteForce index = BruteForce::build(data, {Metric::inner_product, Filter::int8});
  const auto seconds = [&](bool stop) {
    Execution execution;
    execution.threads = 1;
    execution.cancelled = [stop] { return stop; };
    const auto start = std::chrono::steady_clock::now();
    if (stop) {
      EXPECT_THROW(index.search(data.slice(0, 100), 5, execution), Cancelled);
    } else {
      EXPECT_EQ(index.search(data.slice(0, 100), 5, execution).statistics.candidates, 100 * n);
    }
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  double whole = seconds(false);
  double stopped = seconds(true);
  for (int again = 0; again < 3; ++again) {  // another program may have been in the way
    whole = std::min(whole, seconds(false));
    stopped = std::min(stopped, seconds(true));
  }
  EXPECT_LT(stopped, whole / 6);  // a block of one of three chunks of queries
}

// More threads than cores, differently many at once: TBB would complain on stderr of the smaller limit.
TEST(BruteForceConcurrency, WideSearchesAtOnceAreSilent) {
  const Problem problem = gaussian(20000, 8, 40);
  const Rows rows(problem.data, problem.dtype);
  const Rows queries(problem.queries, problem.dtype);
  const BruteForce index = BruteForce::build(rows.view());
  std::vector<Neighbors> results(4);
  std::vector<std::thread> threads;
  testing::internal::CaptureStderr();
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  for (std::size_t t = 0; t < results.size(); ++t) {
    threads.emplace_back([&, t] {
      Execution execution;
      execution.threads = cores + 1 + 20 * static_cast<int>(t);
      for (int repeat = 0; repeat < 10; ++repeat) results[t] = index.search(queries.view(), 10, execution);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  for (const Neighbors& result : results) expect_truth(problem, result);
}

// Any number of threads may search one index, each with its own settings.
TEST(BruteForceConcurrency, ManyThreadsSearchOneIndex) {
  const Problem problem = gaussian(3000, 24, 20);
  const Rows rows(problem.data, problem.dtype);
  const Rows queries(problem.queries, problem.dtype);
  for (const Filter filter : all_filters) {
    const BruteForce index = BruteForce::build(rows.view(), {Metric::sqeuclidean, filter});
    std::vector<Neighbors> results(8);
    std::vector<std::thread> threads;
    for (std::size_t t = 0; t < results.size(); ++t) {
      threads.emplace_back([&, t] {
        Execution execution;
        execution.threads = static_cast<int>(t % 3);
        for (int repeat = 0; repeat < 3; ++repeat) results[t] = index.search(queries.view(), 10, execution);
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const Neighbors& result : results) expect_truth(problem, result);
  }
}

TEST(BruteForceConcurrency, ACancelledSearchDisturbsNoOther) {
  const Problem problem = gaussian(20000, 24, 40);
  const Rows rows(problem.data, problem.dtype);
  const Rows queries(problem.queries, problem.dtype);
  const BruteForce index = BruteForce::build(rows.view());
  std::atomic<int> cancelled = 0;
  Neighbors result;
  std::thread first([&] {
    for (int i = 0; i < 5; ++i) {
      Execution execution;
      execution.cancelled = [] { return true; };
      try {
        index.search(queries.view(), 10, execution);
      } catch (const Cancelled&) {
        ++cancelled;
      }
    }
  });
  std::thread second([&] {
    for (int i = 0; i < 3; ++i) result = index.search(queries.view(), 10);
  });
  first.join();
  second.join();
  EXPECT_EQ(cancelled, 5);
  expect_truth(problem, result);
}

}  // namespace
}  // namespace kith
