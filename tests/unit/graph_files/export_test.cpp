// Kith's own graphs as those of others: a node a row, all of them reachable, equal rows and NaN included.
#include <gtest/gtest.h>

#include <limits>
#include <set>
#include <vector>

#include "graph_files/row_graph.hpp"
#include "kith/brute_force.hpp"
#include "kith/generate.hpp"
#include "kith/graph_files.hpp"
#include "support/files.hpp"
#include "vamana/parts.hpp"

namespace kith {
namespace {

std::set<std::uint32_t> reached(const graph_files::RowGraph& graph) {
  std::set<std::uint32_t> seen = {graph.start};
  std::vector<std::uint32_t> front = {graph.start};
  while (!front.empty()) {
    const std::uint32_t row = front.back();
    front.pop_back();
    for (std::int64_t j = 0; j < graph.degree(row); ++j) {
      if (seen.insert(graph.of(row)[j]).second) front.push_back(graph.of(row)[j]);
    }
  }
  return seen;
}

// Groups far apart, with rows many times over: nodes of several rows, and entries that nothing leads to.
std::vector<float> clumps(int rows) {
  std::vector<float> values;
  for (int i = 0; i < rows; ++i) {
    for (int j = 0; j < 4; ++j) values.push_back(static_cast<float>(i % 30 * 1000 + (i / 30 % 7) * (j + 1)));
  }
  return values;
}

TEST(RowGraph, EveryRowCanBeReachedFromTheStart) {
  for (const int rows : {1, 2, 300, 3000}) {
    const std::vector<float> values = clumps(rows);
    const Vamana index = Vamana::build(DatasetView(values.data(), rows, 4),
                                       {.max_degree = 4, .build_list_size = 8, .alpha = 1});
    const auto graph = graph_files::row_graph(vamana::Parts::of(index), {});
    EXPECT_EQ(graph.rows, rows);
    EXPECT_LE(graph.max_degree, 6);
    EXPECT_EQ(reached(graph).size(), static_cast<std::size_t>(rows));
  }
}

TEST(RowGraph, StraysWithoutRoomFollowInAChain) {
  // Two rings that do not know of each other, and every list full.
  vamana::Contents contents;
  std::vector<float> values(12);
  contents.dataset = Dataset::adopt(DatasetView(values.data(), 12, 1), nullptr);
  contents.built.nodes.count = 12;
  vamana::Graph& graph = contents.built.graph;
  graph.nodes = 12;
  graph.max_degree = 4;
  graph.edges = AlignedBuffer<std::uint32_t>(48);
  for (std::uint32_t i = 0; i < 12; ++i) {
    const std::uint32_t ring = i / 4 * 4;
    for (std::uint32_t j = 0; j < 4; ++j) graph.edges[i * 4 + j] = ring + (i + j + 1) % 4;
  }
  graph.entries = {1, 5, 10};
  const auto out = graph_files::row_graph(contents, {});
  EXPECT_EQ(out.max_degree, 5);
  EXPECT_EQ(out.start, 1U);
  EXPECT_EQ(reached(out).size(), 12U);
  // With room somewhere the edges go there.
  graph.edges[3 * 4 + 3] = graph.edges[2 * 4 + 3] = vamana::no_node;
  const auto roomy = graph_files::row_graph(contents, {});
  EXPECT_EQ(roomy.max_degree, 4);
  EXPECT_EQ(reached(roomy).size(), 12U);
}

TEST(Export, RowsWithNaNAreNodesThatNothingLeadsTo) {
  const test::TemporaryFolder folder;
  std::vector<float> values = clumps(400);
  values[5 * 4 + 2] = std::numeric_limits<float>::quiet_NaN();
  const Vamana index =
      Vamana::build(DatasetView(values.data(), 400, 4), {.max_degree = 8, .build_list_size = 16});
  const auto graph = graph_files::row_graph(vamana::Parts::of(index), {});
  EXPECT_EQ(graph.degree(5), 0);
  const auto seen = reached(graph);
  EXPECT_EQ(seen.size(), 399U);
  EXPECT_EQ(seen.count(5), 0U);
  EXPECT_EQ(export_graph(index, folder / "x.bin", GraphFormat::hnswlib).size(), 1U);
}

// Written in every format and read again, it finds what it found before.
TEST(Export, GraphsComeBack) {
  const test::TemporaryFolder folder;
  const Dataset rows =
      generate({.generator = Generator::clusters, .rows = 1500, .dim = 12, .seed = 4, .clusters = 9});
  const Dataset queries = generate(
      {.generator = Generator::clusters, .rows = 50, .dim = 12, .seed = 4, .first_row = 1500, .clusters = 9});
  const Vamana index = Vamana::build(rows, {.max_degree = 16, .build_list_size = 40});
  const Neighbors truth = knn(rows, queries, 10);
  for (const GraphFormat format :
       {GraphFormat::diskann, GraphFormat::diskann_disk, GraphFormat::hnswlib, GraphFormat::faiss}) {
    export_graph(index, folder / "graph", format);
    const Vamana again = import_graph(folder / "graph").index;
    EXPECT_EQ(again.search(queries, 10, {}, {.list_size = 1500}).indices, truth.indices) << name(format);
    EXPECT_FALSE(again.recall_curve().points.empty());
  }
}

}  // namespace
}  // namespace kith
