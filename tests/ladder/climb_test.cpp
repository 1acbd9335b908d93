// What is around the rungs: cases, names, which rungs run, times, the data, the floor.
#include "climb.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <thread>

#include <gtest/gtest.h>

#include "grid.hpp"
#include "machine.hpp"
#include "published.hpp"
#include "ran_on_cpu.hpp"

namespace kith::ladder {
namespace {

TEST(Case, IsReadStrictly) {
  const Case c = parse_case("16,1024,65536,4");
  EXPECT_EQ(c.dim, 16);
  EXPECT_EQ(c.queries, 1024);
  EXPECT_EQ(c.points, 65536);
  EXPECT_EQ(c.k, 4);
  EXPECT_EQ(c.name(), "16,1024,65536,4");
  EXPECT_EQ(parse_case("3,1,5").k, 1);
  EXPECT_EQ(parse_case("3,1,5").list_size, 0);
  const Case graph = parse_case("graph:96,7,500");
  EXPECT_EQ(graph.k, 10);
  EXPECT_EQ(graph.list_size, default_list_size);
  EXPECT_EQ(graph.name(), "graph:96,7,500,10");
  EXPECT_EQ(parse_case("graph:96,7,500,100").list_size, 100);
  for (const char* bad : {"", "3", "3,1", "3,1,5,1,1", "3,1,0", "-3,1,5", "3,1,5,", "3;1;5", "3,1,5x",
                          " 3,1,5", "3,1,99999999999999999999", "3,1,2147483648", "3,2147483648,1",
                          "16777217,1,5", "graph:", "graph:3,1", "grph:3,1,5"}) {
    EXPECT_THROW((void)parse_case(bad), InvalidArgument) << bad;
  }
  EXPECT_NO_THROW((void)parse_case("16777216,1,2147483647"));
}

TEST(Case, ListsAreTheReports) {
  EXPECT_EQ(published_cases().size(), 7U);
  EXPECT_EQ(all_cases().size(), 13U);
  for (const Case& c : published_cases()) {
    bool found = false;
    for (const Case& other : all_cases()) found = found || other.name() == c.name();
    EXPECT_TRUE(found) << c.name();
  }
  for (const Published& entry : published()) {
    bool found = false;
    for (const Case& c : published_cases()) {
      found = found || (entry.dim == c.dim && entry.queries == c.queries && entry.points == c.points &&
                        entry.k == c.k);
    }
    EXPECT_TRUE(found) << entry.what;
    EXPECT_TRUE(std::is_sorted(entry.ms.begin(), entry.ms.end()));
  }
}

// Rungs of two layers run there and, unless they are named, nowhere else.
TEST(Case, TilesAreForTwoLayers) {
  EXPECT_EQ(tile_cases().size(), 3U);
  for (const Case& c : tile_cases()) {
    EXPECT_TRUE(c.tiles);
    EXPECT_EQ(c.k, 20);
  }
  EXPECT_FALSE(parse_case(tile_cases().front().name()).tiles);
  ClimbOptions options;
  options.no_gpus = "none";
  options.repeat = 1;
  for (const bool tiles : {false, true}) {
    const Climb climb = ladder::climb({3, 4, 20000, 3, tiles}, options);
    for (const Step& step : climb.steps) {
      if (step.rung->number < 27 || step.rung->number > 40) continue;
      EXPECT_EQ(step.skipped, tiles ? "" : "is for --case tiles; --rungs runs it all the same");
      EXPECT_EQ(step.wrong, 0) << step.rung->id;
    }
  }
}

TEST(RungNames, AreNumbersRangesAndIds) {
  EXPECT_EQ(parse_rungs({}), std::set<int>{});
  EXPECT_EQ(parse_rungs({"1", "4-6", "engine", "kd-tree-gpu"}), (std::set<int>{1, 4, 5, 6, 16, 23}));
  for (const char* bad : {"", "0", "56", "4-", "-4", "6-4", "4-99", "fusd", "1.5", "99999999999"}) {
    EXPECT_THROW((void)parse_rungs({bad}), InvalidArgument) << bad;
  }
}

TEST(Grid, HoldsSumsThatFloat32Counts) {
  EXPECT_EQ(largest_coordinate(3), 2047);
  EXPECT_EQ(largest_coordinate(16), 1023);
  EXPECT_EQ(largest_coordinate(128), 255);
  EXPECT_EQ(largest_coordinate(1), 4095);
  for (std::int64_t dim = 1; dim < 70000; dim = dim * 3 / 2 + 1) {
    const std::int64_t m = largest_coordinate(dim);
    EXPECT_LE(dim * m * m, std::int64_t{1} << 24) << dim;
    if (m < 4095) {
      EXPECT_GT(dim * (2 * m + 1) * (2 * m + 1), std::int64_t{1} << 24) << dim;
    }
  }
  EXPECT_EQ(largest_coordinate((std::int64_t{1} << 24) + 1), 0);

  Dataset points = grid(5000, 3, 7, 1);
  std::vector<int> seen(8);
  for (const float value : points.mutable_values<float>()) {
    ASSERT_EQ(value, std::floor(value));
    ++seen.at(static_cast<std::size_t>(value));
  }
  for (const int count : seen) EXPECT_NEAR(count, 15000 / 8, 300);
  EXPECT_NE(std::memcmp(points.view().data, grid(5000, 3, 7, 2).view().data, 60000), 0);
  EXPECT_THROW((void)grid(5, 3, 0, 1), InvalidArgument);
  EXPECT_THROW((void)grid(5, 3, 2048, 1), InvalidArgument);
}

TEST(Run, TimesAsOftenAsItIsTold) {
  ladder::Run run;
  int calls = 0;
  run.repeat = 4;
  run.search([&] { ++calls; });
  EXPECT_EQ(calls, 5);
  EXPECT_EQ(run.times.size(), 4U);
  run.repeat = 1;
  calls = 0;
  run.search([&] { ++calls; });
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(run.times.size(), 1U);
  // What takes longer than `seconds` is run once, and that run counts.
  run.repeat = 4;
  run.seconds = 1e-3;
  calls = 0;
  run.search([&] {
    ++calls;
    std::this_thread::sleep_for(std::chrono::milliseconds(3));
  });
  EXPECT_EQ(calls, 1);
  EXPECT_GE(run.times.at(0), 3);
  EXPECT_LT(run.build_ms, 0);
  run.build([] {});
  EXPECT_GE(run.build_ms, 0);
}

TEST(Climbing, SeesADifferenceInIndicesAndInDistances) {
  const Problem problem{3, 2, 5, 2, nullptr, nullptr};
  const Answer a(problem);
  Answer b(problem);
  EXPECT_EQ(cells_that_differ(a, b), 0);
  b.indices[1] = 3;
  EXPECT_EQ(cells_that_differ(a, b), 1);
  b.distances[3] = 0;
  EXPECT_EQ(cells_that_differ(a, b), 2);
}

ClimbOptions on_cpu() {
  ClimbOptions options;
  options.no_gpus = "a test";
  options.threads = 2;
  options.repeat = 2;
  return options;
}

TEST(Climbing, RunsWhatCanRunAndSaysWhyTheRestDidNot) {
  const Climb out = climb({3, 40, 2000, 1, true}, on_cpu());
  EXPECT_EQ(out.largest, 2047);
  ASSERT_EQ(out.steps.size(), rungs().size());
  for (const Step& step : out.steps) {
    const bool of_graphs = step.rung->recall_floor < 1;
    const bool ran = step.rung->hardware == Hardware::cpu && !of_graphs;
    EXPECT_EQ(step.skipped.empty(), ran) << step.rung->id;
    EXPECT_TRUE(std::isnan(step.recall) && !step.below());
    EXPECT_EQ(std::isfinite(step.ms), ran) << step.rung->id;
    EXPECT_EQ(step.wrong, 0) << step.rung->id;
    EXPECT_TRUE(std::isnan(step.ms_with_copies));
    if (ran) {
      EXPECT_LE(step.min_ms, step.ms);
      EXPECT_LE(step.ms, step.max_ms);
      EXPECT_EQ(step.runs, 2);
    } else if (step.rung->hardware == Hardware::cpu) {
      EXPECT_EQ(step.skipped, "is for --case graph");
    } else {
      EXPECT_EQ(step.skipped, "no GPU: a test");
    }
  }
}

TEST(Climbing, RunsOnlyWhatIsChosenAndTimesCopiesWhenAsked) {
  ClimbOptions options = on_cpu();
  options.chosen = {15, 20};
  options.copies = true;
  const Climb out = climb({3, 40, 2000, 1}, options);
  for (const Step& step : out.steps) {
    const bool chosen = options.chosen.contains(step.rung->number);
    EXPECT_EQ(step.skipped, chosen ? "" : "not among --rungs");
    EXPECT_EQ(std::isfinite(step.ms_with_copies), chosen);
  }
}

TEST(Climbing, LeavesOutWhatTakesTooLongUnlessChosen) {
  ClimbOptions options = on_cpu();
  options.most_seconds = 1e-9;
  const Climb bounded = climb({3, 40, 2000, 1}, options);
  for (const int number : {1, 15, 17}) {
    const std::string& reason = bounded.steps.at(static_cast<std::size_t>(number - 1)).skipped;
    EXPECT_NE(reason.find("would take about"), std::string::npos) << reason;
    EXPECT_NE(reason.find("--rungs"), std::string::npos) << reason;
  }
  EXPECT_EQ(bounded.steps.at(19).skipped, "");  // the engine
  options.chosen = {1};
  EXPECT_EQ(climb({3, 40, 2000, 1}, options).steps.at(0).skipped, "");
}

TEST(Climbing, LeavesOutWhatACaseIsNoGoodFor) {
  const Climb one = climb({20, 1, (std::int64_t{1} << 20) + 1, 1}, on_cpu());
  EXPECT_NE(one.steps.at(14).skipped.find("one thread builds the tree"), std::string::npos);
  EXPECT_NE(one.steps.at(16).skipped.find("3 dimensions"), std::string::npos);
  EXPECT_NE(one.steps.at(20).skipped.find("one query"), std::string::npos);
  const Climb wide = climb({20, 1, 3000, 1}, on_cpu());
  for (const std::size_t tree : {14, 20}) {
    EXPECT_NE(wide.steps.at(tree).skipped.find("visits every point"), std::string::npos);
  }
  ClimbOptions options = on_cpu();
  options.chosen = {15, 17, 21};
  const Climb asked = climb({20, 1, 3000, 1}, options);
  EXPECT_EQ(asked.steps.at(14).skipped, "");
  EXPECT_NE(asked.steps.at(16).skipped, "");  // it cannot
  EXPECT_EQ(asked.steps.at(20).skipped, "");
}

// Exact searches beside them; recall and its floor are said, and the floor only of lists long enough.
TEST(Climbing, OfAGraphMeasuresRecall) {
  for (const std::int64_t list_size : {default_list_size, std::int64_t{10}}) {
    const Climb out = climb({24, 30, 3000, 10, false, list_size}, on_cpu());
    EXPECT_EQ(out.sizes.name(), "graph:24,30,3000,10");
    EXPECT_GE(out.degree, 64);
    for (const Step& step : ran_on_cpu(out)) {
      const int number = step.rung->number;
      EXPECT_EQ(step.wrong, 0) << step.rung->id;
      EXPECT_GT(step.recall, number == 20 ? 0.9999 : 0.5);
      EXPECT_FALSE(step.below());
      const bool promised = number == 20 || list_size == default_list_size;
      EXPECT_EQ(step.recall_floor == step.rung->recall_floor, promised) << step.rung->id;
    }
  }
}

TEST(Climbing, SeesARecallBelowTheFloor) {
  Step step;
  step.recall = 0.89;
  step.recall_floor = 0.9;
  EXPECT_TRUE(step.below());
  step.recall_floor = std::numeric_limits<double>::quiet_NaN();
  EXPECT_FALSE(step.below());
}

TEST(Floor, IsTheSlowerOfMemoryAndArithmetic) {
  GpuMachine machine;
  machine.bandwidth_gbs = 1000;
  machine.fp32_gflops = 10000;
  // 4 * 16 * (1e6 + 1) + 12 bytes at 1 TB/s against 4 * 16 * 1e6 operations at 10 TFLOP/s
  const auto one = float32_floor({16, 1, 1'000'000, 1, nullptr, nullptr}, machine);
  ASSERT_TRUE(one);
  EXPECT_TRUE(one->by_bandwidth);
  EXPECT_NEAR(one->ms, 0.064, 1e-4);
  const auto many = float32_floor({16, 1000, 1'000'000, 1, nullptr, nullptr}, machine);
  EXPECT_FALSE(many->by_bandwidth);
  EXPECT_NEAR(many->ms, 6.4, 1e-6);
  machine.bandwidth_gbs = 0;
  EXPECT_FALSE(float32_floor({16, 1, 1, 1, nullptr, nullptr}, machine));
  EXPECT_FALSE(gpu_machine({}));
}

}  // namespace
}  // namespace kith::ladder
