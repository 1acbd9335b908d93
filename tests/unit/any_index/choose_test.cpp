// choose_index at points where the answer is not in doubt: a factor of three and more between the costs
// measured.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "core/cpu_device.hpp"
#include "kith/any_index.hpp"
#include "kith/calibration.hpp"
#include "kith/error.hpp"
#include "support/calibration.hpp"
#include "support/errors.hpp"
#include "support/gpus.hpp"

namespace kith {
namespace {

using test::contains;

// The built-in figures, whatever this machine has been measured to do.
const test::Environment built_in("KITH_CALIBRATION", "off");

std::string chosen(std::int64_t rows, std::int64_t dim, std::int64_t queries, std::int64_t k = 1,
                   Metric metric = Metric::sqeuclidean) {
  return choose_index(rows, dim, queries, k, metric).index;
}

TEST(ChooseIndex, ManyQueriesInLowDimensionRepayATree) {
  for (const std::int64_t dim : {1, 2, 3, 4, 6}) {
    EXPECT_EQ(chosen(1'000'000, dim, 1'000'000), "kd_tree") << dim;
    EXPECT_EQ(chosen(100'000, dim, 100'000, 10), "kd_tree") << dim;
    EXPECT_EQ(chosen(10'000, dim, 10'000, 100), "kd_tree") << dim;
  }
  EXPECT_EQ(chosen(1'000'000, 8, 1'000'000, 10), "kd_tree");
  EXPECT_EQ(chosen(11'000'000, 3, 1'000'000), "kd_tree");
}

TEST(ChooseIndex, OneQueryDoesNot) {
  for (const std::int64_t dim : {2, 3, 8, 16}) {
    EXPECT_EQ(chosen(1'000'000, dim, 1), "brute_force") << dim;
    EXPECT_EQ(chosen(100'000, dim, 1, 100), "brute_force") << dim;
  }
  EXPECT_TRUE(
      contains(choose_index(1'000'000, 3, 1, 1, Metric::euclidean).reason, "does not pay off for 1 query "));
}

TEST(ChooseIndex, TheNumberOfQueriesDecides) {
  EXPECT_EQ(chosen(1'000'000, 3, 4), "brute_force");
  EXPECT_EQ(chosen(1'000'000, 3, 100'000), "kd_tree");
  EXPECT_EQ(chosen(1'000'000, 3, 0), chosen(1'000'000, 3, 1'000'000));  // 0: as many as rows
}

TEST(ChooseIndex, HighDimensionIsForBruteForce) {
  for (const std::int64_t dim : {17, 128, 4096}) {
    const IndexChoice choice = choose_index(1'000'000, dim, 1'000'000, 10, Metric::sqeuclidean);
    EXPECT_EQ(choice.index, "brute_force");
    EXPECT_TRUE(contains(choice.reason, "dimension " + std::to_string(dim)));
  }
  EXPECT_EQ(chosen(100'000, 16, 100), "brute_force");  // a tree would visit nearly all leaves
}

TEST(ChooseIndex, TreesKnowEuclideanDistancesAndManhattan) {
  for (const Metric metric : {Metric::sqeuclidean, Metric::euclidean, Metric::manhattan}) {
    EXPECT_EQ(chosen(1'000'000, 3, 1'000'000, 8, metric), "kd_tree") << name(metric);
  }
  for (const Metric metric : {Metric::cosine, Metric::inner_product}) {
    const IndexChoice choice = choose_index(1'000'000, 3, 1'000'000, 8, metric);
    EXPECT_EQ(choice.index, "brute_force");
    EXPECT_TRUE(contains(choice.reason, std::string(name(metric))));
  }
}

TEST(ChooseIndex, OnAGpuTreesAreForManyQueriesOverManyRows) {
  Execution execution;
  execution.devices = {{Device::Kind::cuda, 0}};
  const auto on_gpu = [&](std::int64_t rows, std::int64_t dim, std::int64_t queries, std::int64_t k,
                          Metric metric = Metric::sqeuclidean) {
    return choose_index(rows, dim, queries, k, metric, execution);
  };
  EXPECT_EQ(on_gpu(1'000'000, 3, 1'000'000, 8).index, "kd_tree");
  EXPECT_EQ(on_gpu(10'000'000, 2, 10'000'000, 20).index, "kd_tree");
  EXPECT_EQ(on_gpu(100'000, 3, 100'000, 8).index, "kd_tree");
  EXPECT_EQ(on_gpu(1'000'000, 6, 10'000, 10).index, "kd_tree");
  EXPECT_EQ(on_gpu(1'000'000, 8, 1'000'000, 10).index, "kd_tree");
  // A scan is over before a tree is built.
  EXPECT_EQ(on_gpu(10'000'000, 3, 100, 8).index, "brute_force");
  EXPECT_EQ(on_gpu(10'000'000, 3, 1, 1).index, "brute_force");
  EXPECT_EQ(on_gpu(1'000'000, 16, 1'000'000, 10).index, "brute_force");
  EXPECT_EQ(on_gpu(1'000'000, 12, 10'000, 10).index, "brute_force");
  EXPECT_EQ(on_gpu(1'000'000, 3, 1'000'000, 8, Metric::cosine).index, "brute_force");
  EXPECT_TRUE(contains(on_gpu(1'000'000, 3, 1'000'000, 8).reason, "H200"));
}

TEST(ChooseIndex, GraphsAreForManyQueriesAndARecallBelowOne) {
  for (const bool gpu : {false, true}) {
    Execution execution;
    if (gpu) execution.devices = {{Device::Kind::cuda, 0}};
    const auto chosen = [&](std::int64_t rows, std::int64_t queries, std::int64_t k, double recall,
                            Metric metric = Metric::sqeuclidean, std::int64_t dim = 128) {
      return choose_index(rows, dim, queries, k, metric, execution, recall);
    };
    EXPECT_EQ(chosen(10'000'000, 0, 10, 0.95).index, "vamana") << gpu;
    EXPECT_EQ(chosen(10'000'000, 0, 10, 0.95, Metric::cosine).index, "vamana") << gpu;
    EXPECT_EQ(chosen(10'000'000, 0, 10, 1).index, "brute_force") << gpu;
    // For more than 100 neighbours a graph would have the exact engine answer.
    EXPECT_EQ(chosen(10'000'000, 0, 100, 0.9).index, "vamana") << gpu;
    EXPECT_EQ(chosen(10'000'000, 0, 101, 0.9).index, "brute_force") << gpu;
    // No graph knows manhattan; few queries, or few rows, are over before one is built.
    EXPECT_EQ(chosen(10'000'000, 0, 10, 0.95, Metric::manhattan).index, "brute_force") << gpu;
    EXPECT_EQ(chosen(10'000'000, 100, 10, 0.95).index, "brute_force") << gpu;
    EXPECT_EQ(chosen(2'000, 0, 10, 0.95).index, "brute_force") << gpu;
    EXPECT_EQ(chosen(1'000'000, 0, 8, 0.95, Metric::sqeuclidean, 3).index, "kd_tree") << gpu;
    EXPECT_TRUE(contains(chosen(2'000, 0, 10, 0.95).reason, "sooner than a graph")) << gpu;
    EXPECT_TRUE(contains(chosen(10'000'000, 0, 10, 0.95).reason, "sooner than an exact search")) << gpu;
  }
}

// What measuring this machine says at first, the figures below a multiple of it.
const WorkTimes& measured() {
  static const WorkTimes times = calibrate().times;
  return times;
}

TEST(ChooseIndex, MeasuringFindsEveryTime) {
  for (const auto& [name, nanoseconds] : named(measured())) {
    EXPECT_GT(nanoseconds, 0) << name;
    EXPECT_LT(nanoseconds, 1e9) << name;
  }
  Execution one;
  one.threads = 1;
  const Calibration c = calibrate(one);
  EXPECT_EQ(c.threads, 1);
  EXPECT_EQ(c.cores, cpu_device().cores);
  EXPECT_EQ(c.model, cpu_device().description);
  EXPECT_GT(c.bandwidth, 1e7);
  EXPECT_EQ(c.date.size(), std::string("2026-01-01T00:00:00Z").size());
}

TEST(ChooseIndex, ACalibrationDecides) {
  const auto by = [](const WorkTimes& times, std::int64_t rows, std::int64_t dim, std::int64_t queries,
                     double recall = 1) {
    const test::ChoicesBy calibration(test::calibration_of_this_cpu(times));
    return choose_index(rows, dim, queries, 10, Metric::sqeuclidean, {}, recall);
  };
  const WorkTimes times = measured();
  EXPECT_EQ(by(times, 1'000'000, 3, 1'000'000).index, "kd_tree");
  EXPECT_TRUE(contains(by(times, 1'000'000, 3, 1'000'000).reason, "calibrated"));
  EXPECT_EQ(by(times, 10'000'000, 128, 10'000'000, 0.95).index, "vamana");
  WorkTimes other = times;
  other.tree_build *= 1e6;
  EXPECT_EQ(by(other, 1'000'000, 3, 1'000'000).index, "brute_force");
  other = times;
  other.tree_search *= 1e6;
  EXPECT_EQ(by(other, 1'000'000, 3, 1'000'000).index, "brute_force");
  other = times;
  other.scan_few *= 1e6;
  EXPECT_EQ(by(other, 1'000'000, 3, 1).index, "kd_tree");
  other = times;
  other.scan /= 1e6;
  EXPECT_EQ(by(other, 1'000'000, 3, 1'000'000).index, "brute_force");
  // Long rows cost what their first values do and a part of their own.
  other = times;
  other.scan /= 1e6;
  EXPECT_EQ(by(other, 10'000'000, 768, 10'000'000, 0.95).index, "vamana");
  other.scan_values /= 1e6;
  EXPECT_EQ(by(other, 10'000'000, 768, 10'000'000, 0.95).index, "brute_force");
  for (double WorkTimes::*const what : {&WorkTimes::graph_build, &WorkTimes::graph_search}) {
    other = times;
    other.*what *= 1e6;
    EXPECT_EQ(by(other, 10'000'000, 128, 10'000'000, 0.95).index, "brute_force");
  }
}

TEST(ChooseIndex, AGpuIsMeasured) {
  if (test::gpus() == 0) GTEST_SKIP() << "no usable CUDA device here";
  Execution execution;
  execution.devices = {{Device::Kind::cuda, 0}};
  const Calibration c = calibrate(execution);
  RecordProperty("calibration", to_json(c));
  EXPECT_EQ(c.kind, Device::Kind::cuda);
  EXPECT_NE(c.model, cpu_device().description);
  EXPECT_GT(c.cores, 1);
  EXPECT_TRUE(c.instruction_set.empty());
  for (const double time : {c.times.scan_few, c.times.scan, c.times.scan_values, c.times.tree_build,
                            c.times.tree_search, c.times.graph_build, c.times.graph_search}) {
    EXPECT_GT(time, 0);
  }
  EXPECT_EQ(c.times.int8, 0);  // filters of the CPU
  const test::ChoicesBy by(c);
  const auto chosen = [&](std::int64_t queries) {
    return choose_index(1'000'000, 3, queries, 8, Metric::sqeuclidean, execution);
  };
  EXPECT_EQ(chosen(1'000'000).index, "kd_tree");
  EXPECT_TRUE(contains(chosen(1'000'000).reason, "calibrated"));
}

TEST(ChooseIndex, MeasuringStopsAndRefuses) {
  Execution execution;
  execution.cancelled = [] { return true; };
  EXPECT_THROW(calibrate(execution), Cancelled);
  execution.cancelled = nullptr;
  execution.memory_limit = 1 << 20;
  EXPECT_TRUE(contains(test::message_of<OutOfMemory>([&] { calibrate(execution); }), "limit is 1048576"));
  execution.memory_limit = 0;
  execution.devices.clear();
  EXPECT_THROW(calibrate(execution), InvalidArgument);
}

TEST(ChooseIndex, OddSizesHaveAnAnswer) {
  for (const std::int64_t rows : {0, 1, 2}) {
    for (const std::int64_t k : {1, 1000}) {
      EXPECT_FALSE(choose_index(rows, 3, 1, k, Metric::sqeuclidean).reason.empty());
    }
  }
  EXPECT_EQ(chosen(1'000, 3, 1'000, 1'000'000), chosen(1'000, 3, 1'000, 1'000));  // k counts up to the rows
}

}  // namespace
}  // namespace kith
