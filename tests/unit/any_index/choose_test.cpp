// choose_index at points where the answer is not in doubt: a factor of three and more between the costs
// measured.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "core/cpu_device.hpp"
#include "kith/any_index.hpp"
#include "kith/calibration.hpp"
#include "kith/error.hpp"
#include "support/calibration.hpp"
#include "support/environment.hpp"
#include "support/errors.hpp"
#include "support/files.hpp"

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

TEST(ChooseIndex, MeasuringFindsEveryTime) {
  // A file that says otherwise, or nothing, has no part in it.
  const test::TemporaryFolder folder;
  test::write_file(folder / "damaged.json", "{");
  const test::Environment damaged("KITH_CALIBRATION", (folder / "damaged.json").string());
  Execution execution;
  execution.threads = 1;
  std::int64_t steps = 0;
  execution.progress = [&](const Progress& progress) { steps = progress.done; };
  const Calibration c = calibrate(execution);
  EXPECT_EQ(steps, 6);
  for (const auto& [name, nanoseconds] : named(c.times)) {
    EXPECT_GT(nanoseconds, 0) << name;
    EXPECT_LT(nanoseconds, 1e12) << name;
  }
  EXPECT_EQ(c.threads, 1);
  EXPECT_EQ(c.cores, cpu_device().cores);
  EXPECT_EQ(c.model, cpu_device().description);
  EXPECT_GT(c.bandwidth, 1e6);
  EXPECT_EQ(c.date.size(), std::string("2026-01-01T00:00:00Z").size());
  keep_calibration(c, folder / "kept.json");
  EXPECT_EQ(read_calibrations(folder / "kept.json").size(), 1U);
}

// What the two cores that the built-in figures are of were measured to take.
const WorkTimes two_cores = {0.0021, 0.0021, 0.0092, 0.0081, 0.15, 1.45,  0.6,   0.042,
                             13.2,   9700,   24e3,   17.7,   350,  112e3, 16.5e3};

IndexChoice chosen_by(const WorkTimes& times, std::int64_t rows, std::int64_t dim, std::int64_t queries,
                      double recall = 1, int threads = 0) {
  const test::ChoicesBy calibration(test::calibration_of_this_cpu(times));
  Execution execution;
  execution.threads = threads;
  return choose_index(rows, dim, queries, 10, Metric::sqeuclidean, execution, recall);
}

TEST(ChooseIndex, CalibratedOrNotTheSameMachineChoosesTheSame) {
  for (const std::int64_t rows : {10'000, 1'000'000}) {
    for (const std::int64_t dim : {3, 8, 128}) {
      for (const std::int64_t queries : {1, 100, 1'000'000}) {
        for (const double recall : {1.0, 0.95}) {
          const IndexChoice built_in_choice =
              choose_index(rows, dim, queries, 10, Metric::sqeuclidean, {}, recall);
          const IndexChoice choice = chosen_by(two_cores, rows, dim, queries, recall);
          EXPECT_EQ(choice.index, built_in_choice.index);
          std::string reason = choice.reason;
          if (const auto at = reason.find("calibrated"); at != std::string::npos)
            reason.replace(at, std::string("calibrated").size(), "two cores");
          EXPECT_EQ(reason, built_in_choice.reason);
        }
      }
    }
  }
}

TEST(ChooseIndex, ACalibrationDecides) {
  EXPECT_EQ(chosen_by(two_cores, 1'000'000, 3, 1'000'000).index, "kd_tree");
  EXPECT_EQ(chosen_by(two_cores, 1'000'000, 3, 1).index, "brute_force");
  EXPECT_EQ(chosen_by(two_cores, 10'000'000, 128, 10'000'000, 0.95).index, "vamana");
  const auto with = [](double WorkTimes::*what, double times, WorkTimes base = two_cores) {
    base.*what *= times;
    return base;
  };
  for (double WorkTimes::*const what : {&WorkTimes::tree_build, &WorkTimes::tree_search}) {
    EXPECT_EQ(chosen_by(with(what, 1e5), 1'000'000, 3, 1'000'000).index, "brute_force");
  }
  EXPECT_EQ(chosen_by(with(&WorkTimes::scan_few, 1e5), 1'000'000, 3, 1).index, "kd_tree");
  const WorkTimes quick_scans = with(&WorkTimes::scan, 1e-6);
  EXPECT_EQ(chosen_by(quick_scans, 1'000'000, 3, 1'000'000).index, "brute_force");
  // Long rows cost what their first values do and a part of their own.
  EXPECT_EQ(chosen_by(quick_scans, 10'000'000, 768, 10'000'000, 0.95).index, "vamana");
  EXPECT_EQ(
      chosen_by(with(&WorkTimes::scan_values, 1e-6, quick_scans), 10'000'000, 768, 10'000'000, 0.95).index,
      "brute_force");
  for (double WorkTimes::*const what : {&WorkTimes::graph_build, &WorkTimes::graph_search}) {
    EXPECT_EQ(chosen_by(with(what, 1e6), 10'000'000, 128, 10'000'000, 0.95).index, "brute_force");
  }
  // Fewer threads than were measured take longer, whichever index it is.
  const int cores = cpu_device().cores;
  EXPECT_NE(chosen_by(two_cores, 1'000'000, 3, 1'000'000, 1, 100 * cores).reason,
            chosen_by(two_cores, 1'000'000, 3, 1'000'000).reason);
}

TEST(ChooseIndex, MeasuringStopsAndRefuses) {
  Execution execution;
  execution.cancelled = [] { return true; };
  EXPECT_THROW(calibrate(execution), Cancelled);
  execution.cancelled = nullptr;
  execution.memory_limit = 1 << 20;
  EXPECT_TRUE(contains(test::message_of<OutOfMemory>([&] { calibrate(execution); }), "limit is 1048576"));
  execution.memory_limit = 0;
  execution.devices = {{Device::Kind::cuda, 1 << 20}};
  EXPECT_TRUE(contains(test::message_of<DeviceError>([&] { calibrate(execution); }), "1048576"));
  EXPECT_TRUE(contains(test::message_of<InvalidArgument>([] { calibrate(std::filesystem::path()); }),
                       "KITH_CALIBRATION"));
  // A file that cannot be is known before anything is measured.
  execution.devices = {Device{}};
  execution.cancelled = [] { return true; };
  EXPECT_THROW(calibrate("/proc/none/c.json", execution), IoError);
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
