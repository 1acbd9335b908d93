// The rungs of graphs. On a GPU they must give the answer of the same steps taken here one after the other,
// bit for bit: nothing in them may depend on which thread comes first.
#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "bang_host.hpp"
#include "climb.hpp"
#include "graph_case.hpp"
#include "kith/kith.hpp"
#include "support/sanitizers.hpp"

namespace kith::ladder {
namespace {

const Instance& instance() {
  static const Instance made(test::reduced() ? 6000 : 20'000, 96, 100, 10, 64);
  return made;
}

TEST(GraphCase, AnswersAreJudged) {
  const Problem& problem = instance().problem;
  const Answer truth = instance().truth();
  EXPECT_EQ(untrue_cells(problem, truth), 0);
  EXPECT_EQ(recall_of(problem, truth, truth), 1);
  Answer answer = truth;
  answer.indices[9] = -1;
  answer.distances[9] = std::numeric_limits<float>::infinity();
  EXPECT_EQ(untrue_cells(problem, answer), 0);  // fewer found, and nothing untrue
  EXPECT_NEAR(recall_of(problem, answer, truth), 1 - 1e-3, 1e-9);
  answer = truth;
  answer.distances[5] = std::nextafter(answer.distances[5], 0.0F);
  EXPECT_EQ(untrue_cells(problem, answer), 1);
  answer = truth;
  answer.indices[1] = answer.indices[0];
  answer.distances[1] = answer.distances[0];
  EXPECT_EQ(untrue_cells(problem, answer), 1);  // repeated
  answer = truth;
  std::swap(answer.indices[2], answer.indices[3]);
  std::swap(answer.distances[2], answer.distances[3]);
  EXPECT_GE(untrue_cells(problem, answer), 1);  // out of order
  answer = truth;
  answer.indices[0] = problem.points;
  EXPECT_EQ(untrue_cells(problem, answer), 1);
  answer = truth;
  answer.indices[0] = -1;
  answer.distances[0] = std::numeric_limits<float>::infinity();
  EXPECT_EQ(untrue_cells(problem, answer), 9);  // something after the padding
}

TEST(GraphCase, DataAreWholeNumbersAndQueriesOthersOfTheSameKind) {
  Dataset all = embeddings(70'000, 5, 0);  // more than are made at once
  Dataset part = embeddings(100, 5, 65'500);
  const auto values = all.mutable_values<float>();
  const auto its = part.mutable_values<float>();
  EXPECT_TRUE(std::equal(its.begin(), its.end(), values.begin() + 65'500 * 5));
  for (const float value : values) ASSERT_TRUE(value == std::round(value) && value >= 0 && value <= 1023);
}

TEST(GraphCase, WalkOnTheHostIsTheRungsWalk) {
  ladder::Run run;
  const Answer walked = vamana_walk(instance().problem, run);
  const Answer stepwise = OnHost(instance().problem, 0, true).search();
  // But for what the filter takes for met.
  EXPECT_EQ(untrue_cells(instance().problem, walked), 0);
  std::int64_t same = 0;
  for (std::size_t i = 0; i < walked.indices.size(); ++i) same += walked.indices[i] == stepwise.indices[i];
  EXPECT_GE(same, 990);
  EXPECT_GE(recall_of(instance().problem, walked, instance().truth()), 0.97);
}

// {rows, dim, queries, k, list size}: odd sizes, more neighbours than rows, one row, lists as short and as
// long as they may be.
constexpr std::array<std::int64_t, 5> limits[] = {{300, 97, 33, 1, 1},
                                                  {1, 74, 3, 5, 5},
                                                  {70, 75, 1, 100, 100},
                                                  {600, 77, 5, 33, 4096},
                                                  {900, 64, 130, 3, 37}};

TEST(GraphCase, LimitsAreWalkedOnTheHost) {
  for (const auto& [points, dim, queries, k, list_size] : limits) {
    SCOPED_TRACE(std::to_string(points) + " rows of " + std::to_string(dim));
    const Instance at(points, dim, queries, k, list_size);
    for (const std::int64_t subspaces : {std::int64_t{0}, std::int64_t{8}, default_subspaces(at.problem)}) {
      const Answer answer = OnHost(at.problem, subspaces, true).search();
      EXPECT_EQ(untrue_cells(at.problem, answer), 0);
      if (list_size >= points) {
        EXPECT_GE(recall_of(at.problem, answer, at.truth()), 0.99);
      }
    }
    ladder::Run run;
    EXPECT_EQ(untrue_cells(at.problem, vamana_walk(at.problem, run)), 0);
    EXPECT_EQ(untrue_cells(at.problem, engine_graph_cpu(at.problem, run)), 0);
  }
}

TEST(GraphCase, CodesFindWhatTheirRungsMustFind) {
  const Answer truth = instance().truth();
  for (const Rung& rung : rungs()) {
    const std::string id = rung.id;
    const std::size_t digits = id.find_first_of("0123456789");
    if (!id.starts_with("bang-") || digits == std::string::npos) continue;
    OnHost host(instance().problem, std::stoi(id.substr(digits)), true);
    const Answer answer = host.search();
    EXPECT_EQ(untrue_cells(instance().problem, answer), 0) << id;
    const double recall = recall_of(instance().problem, answer, truth);
    RecordProperty(id, std::to_string(recall));
    EXPECT_GE(recall, rung.recall_floor) << id;
    EXPECT_LT(host.longest_walk(), 4 * 64 + 64) << id;
    if (test::reduced()) break;
  }
}

// Rows that were expanded come back and push others off the list.
TEST(GraphCase, WithoutTheFilterFewerAreFound) {
  if (test::reduced()) GTEST_SKIP() << "reduced";
  const std::int64_t subspaces = default_subspaces(instance().problem);
  const Answer truth = instance().truth();
  const double with =
      recall_of(instance().problem, OnHost(instance().problem, subspaces, true).search(), truth);
  const Answer answer = OnHost(instance().problem, subspaces, false).search();
  const double without = recall_of(instance().problem, answer, truth);
  RecordProperty("with", std::to_string(with));
  RecordProperty("without", std::to_string(without));
  EXPECT_EQ(untrue_cells(instance().problem, answer), 0);
  EXPECT_GE(with, 0.97);
  EXPECT_LT(without, with);
}

// --- on a GPU

std::vector<int> usable_gpus() {
  std::vector<int> out;
  for (const DeviceInfo& info : devices()) {
    if (info.device.kind == Device::Kind::cuda && info.usable) out.push_back(info.device.ordinal);
  }
  return out;
}

const Rung& rung_named(const std::string& id) {
  return *std::find_if(rungs().begin(), rungs().end(), [&](const Rung& rung) { return id == rung.id; });
}

const Instance& instance_of_bytes() {
  static const Instance made(20'000, 96, 100, 10, 64, true);
  return made;
}

// A rung, and whether rows are bytes.
class Bang : public testing::TestWithParam<std::tuple<const char*, bool>> {
 protected:
  void SetUp() override {
    if (rung().search == nullptr || usable_gpus().empty()) GTEST_SKIP() << "no usable CUDA device";
  }
  static std::string id() { return std::get<0>(GetParam()); }
  static bool bytes() { return std::get<1>(GetParam()); }
  static const Rung& rung() { return rung_named(id()); }
  static const Instance& large() { return bytes() ? instance_of_bytes() : instance(); }
  static Answer go(const Problem& problem, ladder::Run& run) {
    run.gpus = usable_gpus();
    run.threads = 2;
    return rung().search(problem, run);
  }
  // Bytes a code; 0: full rows.
  static std::int64_t subspaces(const Problem& problem) {
    const std::size_t digits = id().find_first_of("0123456789");
    if (id() == "bang-exact") return 0;
    return digits == std::string::npos ? default_subspaces(problem) : std::stoi(id().substr(digits));
  }
  static void expect_as_on_the_host(const Instance& at) {
    ladder::Run run;
    const Answer answer = go(at.problem, run);
    EXPECT_EQ(run.devices, 1);
    EXPECT_EQ(untrue_cells(at.problem, answer), 0);
    const Answer expected = OnHost(at.problem, subspaces(at.problem), id() != "bang-no-bloom").search();
    if (id() == "bang-atomic-add") {  // sums in any order
      const Answer truth = at.truth();
      EXPECT_NEAR(recall_of(at.problem, answer, truth), recall_of(at.problem, expected, truth), 0.01);
    } else {
      EXPECT_EQ(cells_that_differ(answer, expected), 0);
    }
  }
};

TEST_P(Bang, CudaGivesTheAnswerOfTheSameStepsOnTheHost) {
  expect_as_on_the_host(large());
}

TEST_P(Bang, CudaGivesItAtTheLimits) {
  for (const auto& [points, dim, queries, k, list_size] : limits) {
    SCOPED_TRACE(std::to_string(points) + " rows of " + std::to_string(dim));
    // Without the filter such a list is filled by 16,000 steps.
    if (list_size == longest_worklist && id() == "bang-no-bloom") continue;
    expect_as_on_the_host(Instance(points, dim, queries, k, list_size, bytes()));
  }
}

TEST_P(Bang, CudaGivesItAgainAndInBatches) {
  const Problem& problem = large().problem;
  ladder::Run run;
  run.repeat = 3;
  run.seconds = 100;
  const Answer whole = go(problem, run);
  EXPECT_EQ(run.times.size(), 3U);
  EXPECT_EQ(run.fallback.find("batches"), std::string::npos);
  // The least memory, to a quarter of a MiB, that holds all but the queries' own and those of one.
  ladder::Run small;
  Answer parts(problem);
  for (std::uint64_t quarters = 2;; ++quarters) {
    ASSERT_LT(quarters, 1000U);
    small.device_memory_limit = quarters << 18U;
    try {
      parts = go(problem, small);
      break;
    } catch (const OutOfMemory&) {
      continue;
    }
  }
  EXPECT_NE(small.fallback.find("batches"), std::string::npos);
  if (id() == "bang-atomic-add") return;
  EXPECT_EQ(cells_that_differ(whole, parts), 0);
}

TEST_P(Bang, CudaStopsWhenCancelled) {
  ladder::Run run;
  run.cancelled = [] { return true; };
  EXPECT_THROW((void)go(large().problem, run), Cancelled);
}

std::string name_of(const testing::TestParamInfo<std::tuple<const char*, bool>>& info) {
  std::string name = std::get<0>(info.param);
  std::replace(name.begin(), name.end(), '-', '_');
  return name + (std::get<1>(info.param) ? "_u8" : "_f32");
}
INSTANTIATE_TEST_SUITE_P(
    All, Bang,
    testing::Combine(testing::Values("bang-base", "bang-in-memory", "bang-exact", "bang-no-prefetch",
                                     "bang-no-async", "bang-no-bloom", "bang-atomic-add", "bang-one-size",
                                     "bang-8-bytes", "bang-16-bytes", "bang-32-bytes", "bang-64-bytes"),
                     testing::Bool()),
    name_of);

// The engine's own, on rows of bytes: as on the CPU, wherever graph and rows lie.
TEST(EngineOnBytes, CudaGivesTheAnswerOfTheCpu) {
  if (rung_named("engine-graph").search == nullptr || usable_gpus().empty()) {
    GTEST_SKIP() << "no usable CUDA device";
  }
  const Problem& problem = instance_of_bytes().problem;
  const auto on_gpu = [&](const char* id, std::uint64_t limit, std::string& fallback) {
    ladder::Run run;
    run.gpus = usable_gpus();
    run.device_memory_limit = limit;
    Answer answer = rung_named(id).search(problem, run);
    fallback = run.fallback;
    return answer;
  };
  std::string fallback;
  EXPECT_EQ(cells_that_differ(on_gpu("engine", 0, fallback), instance_of_bytes().truth()), 0);
  ladder::Run run;
  const Answer expected = engine_graph_cpu(problem, run);
  EXPECT_EQ(cells_that_differ(on_gpu("engine-graph", 0, fallback), expected), 0);
  EXPECT_EQ(fallback, "");
  // Codes have room beside the 64 MiB of a search, the graph has not.
  EXPECT_EQ(cells_that_differ(on_gpu("engine-graph", (64U << 20U) + 3'000'000, fallback), expected), 0);
  EXPECT_EQ(fallback, "graph and rows in host memory");
}

// The graph and the codes are those of the CPU.
TEST(GraphCaseOnAGpu, CudaMakesTheSameGraphAndCodes) {
  if (usable_gpus().empty()) GTEST_SKIP() << "no usable CUDA device";
  const Instance& cpu = instance_of_bytes();
  const GraphCase gpu(cpu.problem, 64, usable_gpus(), {});
  EXPECT_EQ(gpu.index().graph_hash(), cpu.graph->index().graph_hash());
  for (const std::int64_t subspaces : {std::int64_t{8}, default_subspaces(cpu.problem)}) {
    const auto a = gpu.pq(subspaces);
    const auto b = cpu.graph->pq(subspaces);
    EXPECT_EQ(a->centroid, b->centroid);
    EXPECT_TRUE(std::equal(a->codes.data(), a->codes.data() + a->codes.size(), b->codes.data()));
  }
}

}  // namespace
}  // namespace kith::ladder
