// Rows inserted into a graph: the same bits from any threads, found as by a build of all, refused where the
// codes are not for them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "core/instruction_set.hpp"
#include "kith/brute_force.hpp"
#include "kith/error.hpp"
#include "kith/evaluate.hpp"
#include "kith/generate.hpp"
#include "kith/vamana.hpp"
#include "support/errors.hpp"
#include "support/files.hpp"
#include "support/sanitizers.hpp"
#include "support/threads.hpp"

namespace kith {
namespace {

using test::contains;
using test::message_of;
using test::with_threads;

Dataset clusters(std::int64_t rows, std::int64_t first = 0, Dtype dtype = Dtype::f32) {
  return generate({.generator = Generator::clusters,
                   .rows = rows,
                   .dim = 20,
                   .dtype = dtype,
                   .seed = 12,
                   .first_row = first,
                   .clusters = 30});
}

TEST(VamanaInsert, IsTheSameFromAnyThreadsAndInstructionSet) {
  for (const Dtype dtype : {Dtype::f32, Dtype::u8}) {
    const Dataset data = clusters(1800, 0, dtype);
    const Vamana half = Vamana::build(data.view().slice(0, 900));
    const Vamana one = half.insert(data.view().slice(900, 900), with_threads(1));
    EXPECT_EQ(one.rows(), 1800);
    EXPECT_EQ(half.rows(), 900);
    for (const int threads : {2, 5}) {
      EXPECT_EQ(half.insert(data.view().slice(900, 900), with_threads(threads)).graph_hash(),
                one.graph_hash());
    }
    for (const InstructionSet set : usable_instruction_sets()) {
      force_instruction_set(set);
      EXPECT_EQ(half.insert(data.view().slice(900, 900)).graph_hash(), one.graph_hash()) << name(set);
    }
    force_instruction_set(std::nullopt);
    // A saved and loaded one goes on as the one in memory.
    const test::TemporaryFolder folder;
    half.save(folder / "half.kith");
    EXPECT_EQ(Vamana::load(folder / "half.kith").insert(data.view().slice(900, 900)).graph_hash(),
              one.graph_hash());
    EXPECT_NE(half.insert(data.view().slice(900, 899)).graph_hash(), one.graph_hash());
  }
}

TEST(VamanaInsert, FindsAsABuildOfAll) {
  const Dataset data = clusters(4000);
  const Dataset queries = clusters(300, 4000);
  for (const Metric metric : vamana_metrics) {
    if (test::reduced() && metric != Metric::inner_product) continue;
    // Of the longest row, so that none inserted is longer.
    std::vector<std::int64_t> order(4000);
    const auto* values = static_cast<const float*>(data.view().data);
    const auto length = [&](std::int64_t row) {
      double sum = 0;
      for (int j = 0; j < 20; ++j) sum += std::pow(values[row * 20 + j], 2);
      return sum;
    };
    for (std::int64_t i = 0; i < 4000; ++i) order[static_cast<std::size_t>(i)] = i;
    std::swap(order[0], *std::max_element(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
                return length(a) < length(b);
              }));
    Dataset rows = Dataset::allocate(Dtype::f32, 4000, 20);
    for (std::size_t i = 0; i < 4000; ++i) {
      std::memcpy(rows.mutable_values<float>().data() + i * 20, values + order[i] * 20, 80);
    }
    const VamanaParameters parameters{.metric = metric, .max_degree = 16, .build_list_size = 40};
    const Vamana full = Vamana::build(rows, parameters);
    const Vamana half = Vamana::build(rows.view().slice(0, 2000), parameters);
    Vamana grown = half.insert(rows.view().slice(2000, 1000));
    grown = grown.insert(rows.view().slice(3000, 1000));
    const Neighbors truth = knn(rows, queries, 10, {.metric = metric});
    for (const std::int64_t list : {20, 60}) {
      const double by_full = evaluate(full.search(queries, 10, {}, {.list_size = list}), truth).recall;
      const double by_grown = evaluate(grown.search(queries, 10, {}, {.list_size = list}), truth).recall;
      EXPECT_GT(by_grown, by_full - 0.02) << name(metric) << " " << list;
    }
    // What is stated holds for the new rows as for the old.
    const Neighbors found = grown.search(queries, 10, {}, {.recall = 0.9});
    EXPECT_GE(found.statistics.recall, 0.9);
    EXPECT_GE(evaluate(found, truth).recall_with_ties, 0.89) << name(metric);
    const Neighbors all = grown.search(queries.view().slice(0, 3), 4000, {}, {.list_size = 4000});
    EXPECT_EQ(all.indices, knn(rows, queries.view().slice(0, 3), 4000, {.metric = metric}).indices);
  }
}

TEST(VamanaInsert, EqualRowsJoinTheirNode) {
  const Dataset data = clusters(900);
  const Vamana index = Vamana::build(data);
  const Vamana twice = index.insert(data);
  EXPECT_EQ(twice.rows(), 1800);
  EXPECT_EQ(twice.graph_hash(), index.graph_hash());
  const Neighbors found = twice.search(data.view().slice(5, 1), 2, {}, {.list_size = 10});
  EXPECT_EQ(found.indices, (std::vector<std::int64_t>{5, 905}));
}

TEST(VamanaInsert, IntoNothingAndOfNothing) {
  const Dataset data = clusters(300);
  const Vamana none = Vamana::build(data.view().slice(0, 0));
  EXPECT_EQ(none.insert(data).graph_hash(), Vamana::build(data).graph_hash());
  const Vamana some = Vamana::build(data);
  EXPECT_EQ(some.insert(data.view().slice(0, 0)).graph_hash(), some.graph_hash());
  // Rows with a NaN have no node, and an index of nothing else takes others.
  Dataset broken = Dataset::copy(data.view().slice(0, 2));
  for (float& value : broken.mutable_values<float>()) value = std::nanf("");
  const Vamana grown = some.insert(broken);
  EXPECT_EQ(grown.rows(), 302);
  EXPECT_EQ(grown.graph_hash(), some.graph_hash());
  EXPECT_EQ(grown.search(data.view().slice(0, 1), 302).indices.back(), -1);
  const Vamana first = Vamana::build(broken).insert(data);
  EXPECT_EQ(first.search(data.view().slice(7, 1), 1, {}, {.list_size = 20}).indices[0], 9);
}

TEST(VamanaInsert, RowsThatTheCodesAreNotForAreRefused) {
  Dataset data = clusters(1200);
  const DatasetView old = data.view().slice(0, 1000);
  Dataset more = Dataset::copy(data.view().slice(1000, 200));
  const Vamana products = Vamana::build(old, {.metric = Metric::inner_product});
  for (float& value : more.mutable_values<float>().subspan(20 * 7, 20)) value *= 100;
  EXPECT_TRUE(
      contains(message_of<InvalidArgument>([&] { products.insert(more); }), "row 7 to be inserted is"));
  EXPECT_TRUE(contains(message_of<InvalidArgument>([&] { products.insert(more); }), "build the index anew"));
  // Few far values are held to the range, many refused.
  const Vamana distances = Vamana::build(old);
  EXPECT_EQ(distances.insert(more).rows(), 1200);
  for (float& value : more.mutable_values<float>().subspan(20 * 50, 20 * 5)) value *= 100;
  EXPECT_TRUE(contains(message_of<InvalidArgument>([&] { distances.insert(more); }),
                       "6 of the 200 rows to be inserted"));
  EXPECT_EQ(Vamana::build(old, {.metric = Metric::cosine}).insert(more).rows(), 1200);
  EXPECT_TRUE(contains(message_of<InvalidArgument>([&] { distances.insert(clusters(5, 0, Dtype::f64)); }),
                       "f64 of dimension 20"));
  Execution execution;
  execution.memory_limit = 50000;
  EXPECT_THROW(distances.insert(old, execution), OutOfMemory);
  execution.memory_limit = 0;
  execution.cancelled = [] { return true; };
  EXPECT_THROW(distances.insert(old, execution), Cancelled);
}

}  // namespace
}  // namespace kith
