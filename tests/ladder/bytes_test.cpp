// Rows of bytes in the case of graphs: every rung that takes them finds what it finds among floats of the
// same whole numbers.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "bang_host.hpp"
#include "climb.hpp"
#include "ran_on_cpu.hpp"

namespace kith::ladder {
namespace {

const Instance& instance() {
  static const Instance made(4'000, 96, 60, 10, 64, true);
  return made;
}

// The same problem, rows of floats in the same graph.
struct AsFloats {
  explicit AsFloats(const Instance& bytes)
      : points(convert(bytes.points, Dtype::f32)), problem(bytes.problem) {
    problem.point = static_cast<const float*>(points.view().data);
    problem.point_bytes = problem.query_bytes = nullptr;
  }
  Dataset points;
  Problem problem;
};

TEST(Bytes, AreWalkedAsFloatsOfTheSameNumbers) {
  const AsFloats floats(instance());
  const Problem& problem = instance().problem;
  ladder::Run run;
  const Answer walked = vamana_walk(problem, run);
  EXPECT_EQ(cells_that_differ(walked, vamana_walk(floats.problem, run)), 0);
  EXPECT_EQ(untrue_cells(problem, walked), 0);
  EXPECT_EQ(untrue_cells(floats.problem, walked), 0);
  EXPECT_GE(recall_of(problem, walked, instance().truth()), 0.97);
  for (const std::int64_t subspaces : {std::int64_t{0}, std::int64_t{16}, default_subspaces(problem)}) {
    const Answer answer = OnHost(problem, subspaces, true).search();
    EXPECT_EQ(cells_that_differ(answer, OnHost(floats.problem, subspaces, true).search()), 0) << subspaces;
    EXPECT_EQ(untrue_cells(problem, answer), 0) << subspaces;
  }
}

TEST(Bytes, HaveUntrueCellsSeen) {
  Answer answer = instance().truth();
  answer.indices[3] = (answer.indices[3] + 1) % instance().problem.points;
  EXPECT_GE(untrue_cells(instance().problem, answer), 1);
}

TEST(Bytes, HaveTheCodesOfFloatsOfTheSameNumbers) {
  const AsFloats floats(instance());
  for (const std::int64_t subspaces : {std::int64_t{8}, std::int64_t{74}, std::int64_t{8}}) {
    const auto pq = instance().graph->pq(subspaces);
    ASSERT_EQ(pq->subspaces, subspaces);
    ASSERT_EQ(pq->codes.size(), instance().problem.points * subspaces);
    const PqParameters parameters{.subspaces = subspaces, .iterations = 10};
    const Quantizer quantizer = Quantizer::train(floats.points, parameters);
    const Dataset codes = quantizer.encode(floats.points);
    const auto* expected = static_cast<const std::uint8_t*>(codes.view().data);
    EXPECT_TRUE(std::equal(expected, expected + pq->codes.size(), pq->codes.data())) << subspaces;
  }
}

TEST(Bytes, AreGatheredAsTheyAre) {
  const Problem& problem = instance().problem;
  const std::uint32_t rows[] = {7, no_row, 3'999, 0};
  std::vector<std::uint8_t> vectors(4 * 96, 1);
  gather_vectors(problem, rows, 4, vectors.data(), 2);
  for (const std::size_t q : {0U, 2U, 3U}) {
    const std::uint8_t* expected = problem.point_bytes + std::int64_t{rows[q]} * 96;
    EXPECT_TRUE(std::equal(expected, expected + 96, vectors.begin() + static_cast<std::ptrdiff_t>(q * 96)));
  }
  EXPECT_TRUE(std::all_of(vectors.begin() + 96, vectors.begin() + 192, [](int value) { return value == 1; }));
}

TEST(Bytes, AreSearchedByTheEngine) {
  const Problem& problem = instance().problem;
  const Answer truth = instance().truth();
  ladder::Run run;
  EXPECT_EQ(cells_that_differ(engine_cpu(problem, run), truth), 0);
  EXPECT_EQ(cells_that_differ(engine_kd_tree_cpu(problem, run), truth), 0);
  EXPECT_EQ(cells_that_differ(engine_tiles(problem, run), truth), 0);
  const Answer walked = engine_graph_cpu(problem, run);
  EXPECT_EQ(untrue_cells(problem, walked), 0);
  EXPECT_GE(recall_of(problem, walked, truth), 0.97);
}

// Odd sizes, one row, more neighbours than rows.
TEST(Bytes, AreWalkedAtTheLimits) {
  struct Sizes {
    std::int64_t points, dim, queries, k, list_size;
  };
  for (const auto& [points, dim, queries, k, list_size] :
       {Sizes{300, 97, 33, 1, 1}, Sizes{1, 74, 3, 5, 5}, Sizes{70, 258, 1, 100, 100},
        Sizes{900, 3, 130, 3, 37}}) {
    const Instance at(points, dim, queries, k, list_size, true);
    const Answer answer = OnHost(at.problem, default_subspaces(at.problem), true).search();
    EXPECT_EQ(untrue_cells(at.problem, answer), 0) << points;
    ladder::Run run;
    EXPECT_EQ(untrue_cells(at.problem, vamana_walk(at.problem, run)), 0) << points;
    EXPECT_EQ(untrue_cells(at.problem, engine_graph_cpu(at.problem, run)), 0) << points;
  }
}

// The longest rows whose sums float32 counts, as far apart as bytes can be.
TEST(Bytes, OfTheMostDimensionsHaveExactDistances) {
  std::vector<std::uint8_t> points(static_cast<std::size_t>(2 * most_byte_dims), 255);
  points.back() = 254;
  const std::vector<std::uint8_t> query(static_cast<std::size_t>(most_byte_dims), 0);
  const std::vector<float> floats(query.size(), 0.0F);
  Problem problem{most_byte_dims, 1, 2, 2, floats.data(), nullptr};
  problem.point_bytes = points.data();
  problem.query_bytes = query.data();
  const GraphCase graph(problem, 2, {}, {});
  problem.graph = &graph;
  ladder::Run run;
  const Answer answer = vamana_walk(problem, run);
  EXPECT_EQ(answer.indices, (std::vector<std::int64_t>{1, 0}));
  EXPECT_EQ(static_cast<std::int64_t>(answer.distances[1]), most_byte_dims * 255 * 255);
  EXPECT_EQ(static_cast<std::int64_t>(answer.distances[0]), most_byte_dims * 255 * 255 - 509);
  EXPECT_EQ(untrue_cells(problem, answer), 0);
}

TEST(Bytes, AreNothingForRungsThatReadFloats) {
  for (const Rung& rung : rungs()) {
    const bool reads_floats = rung.recall_floor == 1 && !rung.engine;
    if (reads_floats) {
      EXPECT_NE(rung.refuses(instance().problem), "") << rung.id;
    }
    if (rung.recall_floor < 1) {
      EXPECT_EQ(rung.refuses(instance().problem), "") << rung.id;
    }
  }
}

TEST(Climbing, TakesRowsThatAreGiven) {
  const auto given = std::make_shared<GivenRows>();
  given->points = instance().points;
  given->queries = instance().asked;
  ClimbOptions options;
  options.no_gpus = "a test";
  options.threads = 2;
  options.repeat = 1;
  const Climb out = climb({96, 60, 4'000, 10, false, default_list_size, given}, options);
  EXPECT_EQ(out.largest, 255);
  EXPECT_EQ(out.sizes.name(), "graph:96,60,4000,10");
  EXPECT_EQ(out.graph_hash, instance().graph->index().graph_hash());
  for (const Step& step : ran_on_cpu(out)) {
    EXPECT_EQ(step.wrong, 0) << step.rung->id;
    EXPECT_GE(step.recall, 0.97) << step.rung->id;
    EXPECT_EQ(std::isnan(step.recall_floor), step.rung->number != 20) << step.rung->id;
  }
  EXPECT_EQ(out.steps.at(0).skipped, "reads rows of float32, and these are bytes");
}

}  // namespace
}  // namespace kith::ladder
