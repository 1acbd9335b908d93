// Vamana from outside: graphs that do not depend on threads, recall that is what was stated, arguments.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <limits>
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
#include "unit/vamana/rows.hpp"
#include "vamana/checks.hpp"

namespace kith {
namespace {

using test::contains;
using test::in_clusters;
using test::message_of;
using test::with_few_directions;
using test::with_threads;

TEST(Vamana, TheGraphIsTheSameFromAnyThreadsAndInstructionSet) {
  for (const Dtype dtype : {Dtype::f32, Dtype::u8}) {
    const Dataset data = in_clusters(1500, 0, dtype);
    const Vamana one = Vamana::build(data, {}, with_threads(1));
    for (const int threads : {2, 3, 7}) {
      EXPECT_EQ(Vamana::build(data, {}, with_threads(threads)).graph_hash(), one.graph_hash()) << threads;
    }
    for (const InstructionSet set : usable_instruction_sets()) {
      force_instruction_set(set);
      EXPECT_EQ(Vamana::build(data, {}, with_threads(2)).graph_hash(), one.graph_hash()) << name(set);
    }
    force_instruction_set(std::nullopt);
    EXPECT_NE(Vamana::build(data, {.seed = 1}).graph_hash(), one.graph_hash());
    EXPECT_NE(Vamana::build(data, {.max_degree = 24}).graph_hash(), one.graph_hash());
    EXPECT_NE(Vamana::build(data, {.build_list_size = 64}).graph_hash(), one.graph_hash());
    EXPECT_NE(Vamana::build(data, {.alpha = 1.3}).graph_hash(), one.graph_hash());
  }
}

double recall_of(const Vamana& index, const Dataset& data, const Dataset& queries, std::int64_t list_size,
                 Metric metric = Metric::sqeuclidean) {
  const Neighbors exact = knn(data, queries, 10, {metric});
  return evaluate(index.search(queries, 10, {}, {.list_size = list_size}), exact).recall;
}

TEST(VamanaCodes, OfLeadingDirectionsFindWhatThoseOfAllValuesFind) {
  for (const Metric metric : vamana_metrics) {
    for (const Dtype dtype : {Dtype::f32, Dtype::f64, Dtype::bf16}) {
      if (test::reduced() && (dtype != Dtype::bf16 || metric != Metric::inner_product)) continue;
      const Dataset data = with_few_directions(3000, 0, dtype);
      const Dataset queries = with_few_directions(100, 3000, dtype);
      VamanaParameters parameters{.metric = metric};
      const Vamana few = Vamana::build(data, parameters);
      EXPECT_EQ(few.code_dim(), 32) << name(metric);
      parameters.code_dim = 128;
      const Vamana all = Vamana::build(data, parameters);
      EXPECT_GE(all.code_dim(), 128);
      EXPECT_LT(few.memory_bytes(), all.memory_bytes());
      parameters.code_dim = 64;
      EXPECT_EQ(Vamana::build(data, parameters).code_dim(), 64);
      const double found = recall_of(few, data, queries, 60, metric);
      EXPECT_GT(found, recall_of(all, data, queries, 60, metric) - 0.03) << name(metric) << name(dtype);
      EXPECT_GT(found, 0.9) << name(metric) << name(dtype);
      EXPECT_EQ(recall_of(few, data, queries, 3000, metric), 1) << name(metric) << name(dtype);
    }
  }
  // Every direction of these holds as much as the others; and 200 rows say nothing about 128 directions.
  const Dataset even = generate({.generator = Generator::gaussian, .rows = 2000, .dim = 128});
  EXPECT_EQ(Vamana::build(even).code_dim(), 128);
  EXPECT_EQ(Vamana::build(with_few_directions(200)).code_dim(), 128);
  // u8 rows, too, which are their own codes otherwise.
  const Dataset bytes = with_few_directions(2000, 0, Dtype::u8);
  EXPECT_EQ(Vamana::build(bytes, {.code_dim = 128}).code_dim(), 128);
  const Vamana reduced = Vamana::build(bytes);
  EXPECT_EQ(reduced.code_dim(), 32);
  EXPECT_GT(recall_of(reduced, bytes, with_few_directions(50, 2000, Dtype::u8), 60), 0.8);
}

TEST(VamanaCodes, OfFourBitsTakeHalfTheMemoryAndFindNearlyAsMuch) {
  const Dataset data = with_few_directions(3000);
  const Dataset queries = with_few_directions(100, 3000);
  const Vamana bytes = Vamana::build(data, {.code_dim = 128});
  const Vamana halves = Vamana::build(data, {.code_bits = 4, .code_dim = 128});
  EXPECT_EQ(bytes.memory_bytes() - halves.memory_bytes(), 3000U * 64U);
  EXPECT_EQ(halves.search(queries, 1, {}, {.list_size = 20}).statistics.filter, "int4");
  EXPECT_GT(recall_of(halves, data, queries, 100), recall_of(bytes, data, queries, 100) - 0.03);
  EXPECT_EQ(recall_of(halves, data, queries, 3000), 1);
}

TEST(VamanaCodes, OfEveryKindAreTheSameFromAnyThreadsAndInstructionSetAndFile) {
  const test::TemporaryFolder folder;
  const std::int64_t rows = test::reduced() ? 500 : 1500;
  const Dataset data = with_few_directions(rows);
  const Dataset queries = with_few_directions(40, rows);
  for (const std::int64_t bits : {4, 8}) {
    for (const std::int64_t dim : {0, 64, 128}) {
      if (test::reduced() && (bits == 4) != (dim == 64)) continue;
      const VamanaParameters parameters{.metric = Metric::inner_product, .code_bits = bits, .code_dim = dim};
      const Vamana one = Vamana::build(data, parameters, with_threads(1));
      const SearchOptions options{.list_size = 30};
      const Neighbors found = one.search(queries, 5, with_threads(1), options);
      for (const InstructionSet set : usable_instruction_sets()) {
        force_instruction_set(set);
        const Vamana other = Vamana::build(data, parameters, with_threads(3));
        EXPECT_EQ(other.graph_hash(), one.graph_hash()) << name(set) << bits << dim;
        EXPECT_EQ(other.search(queries, 5, {}, options).indices, found.indices) << name(set) << bits << dim;
      }
      force_instruction_set(std::nullopt);
      one.save(folder / "graph.kith");
      const Vamana loaded = Vamana::load(folder / "graph.kith");
      EXPECT_EQ(loaded.code_dim(), one.code_dim());
      EXPECT_EQ(loaded.parameters().code_bits, bits);
      EXPECT_EQ(loaded.parameters().code_dim, dim);
      const Neighbors again = loaded.search(queries, 5, {}, options);
      EXPECT_EQ(again.indices, found.indices);
      EXPECT_EQ(again.distances, found.distances);
      EXPECT_EQ(again.statistics.candidates, found.statistics.candidates);
    }
  }
}

// From shares that the walk answers to shares that the exact engine does, spread evenly and all on one side.
TEST(Vamana, AllowedRowsAreFoundToTheRecallAskedFor) {
  const Dataset data = in_clusters(4000);
  const Dataset queries = in_clusters(200, 4000);
  const Vamana index = Vamana::build(data);
  const auto* values = static_cast<const float*>(data.view().data);
  bool walked = false;
  bool exact = false;
  for (const int one_of : {1, 2, 4, 10, 100, 4000, -1}) {
    RowSet allowed(4000);
    for (std::int64_t row = 0; row < 4000; ++row) {
      if (one_of > 0 ? row % one_of == 0 : values[row * 24] > 0) allowed.insert(row);
    }
    const Neighbors truth = knn(data, queries, 10, {}, {}, {.allowed = &allowed});
    for (const SearchOptions& options : {SearchOptions{.recall = 0.95, .allowed = &allowed},
                                         SearchOptions{.recall = 1, .allowed = &allowed}}) {
      const Neighbors found = index.search(queries, 10, with_threads(2), options);
      EXPECT_GE(evaluate(found, truth).recall_with_ties, *options.recall - 0.01) << one_of;
      walked = walked || !found.statistics.certified;
      exact = exact || found.statistics.certified;
      for (const std::int64_t row : found.indices) EXPECT_TRUE(row == -1 || allowed.contains(row));
      const Neighbors alone = index.search(queries.view().slice(7, 1), 10, {}, options);
      EXPECT_TRUE(std::equal(alone.indices.begin(), alone.indices.end(), found.indices_of(7).begin()))
          << one_of;
    }
  }
  EXPECT_TRUE(walked && exact);
}

// No row near a query is allowed: the walk gives up, and the exact engine has the answer.
TEST(Vamana, AllowedRowsFarFromAQueryAreFound) {
  const Dataset data = in_clusters(4000);
  // Few edges, so that walks are the cheaper way.
  const Vamana index = Vamana::build(data, {.max_degree = 8, .build_list_size = 32});
  const DatasetView query = data.view().slice(17, 1);
  const Neighbors order = knn(data, query, 4000);
  // Few enough to be copied, and most of all.
  for (const std::size_t first : {2000, 400}) {
    RowSet far(4000);
    for (std::size_t i = first; i < 4000; ++i) far.insert(order.indices[i]);
    const SearchOptions options{.list_size = 10, .allowed = &far};
    const Neighbors found = index.search(query, 1, {}, options);
    EXPECT_EQ(found.statistics.fallbacks, 1);
    EXPECT_EQ(found.indices[0], order.indices[first]);
    // Without memory for a copy the answer is the same.
    Execution limited;
    limited.memory_limit = 100'000;
    EXPECT_EQ(index.search(query, 1, limited, options).indices, found.indices);
  }
}

TEST(Vamana, RecallIsAtLeastWhatIsStated) {
  const Dataset data = in_clusters(4000);
  const Dataset queries = in_clusters(300, 4000);
  for (const Metric metric : vamana_metrics) {
    const Vamana index = Vamana::build(data, {.metric = metric});
    const Neighbors truth = knn(data, queries, 10, {.metric = metric});
    for (const double recall : {0.8, 0.9, 0.97}) {
      const Neighbors found = index.search(queries, 10, {}, {.recall = recall});
      EXPECT_GE(found.statistics.recall, recall);
      EXPECT_GE(evaluate(found, truth).recall_with_ties, recall - 0.01) << name(metric) << " " << recall;
    }
    const Neighbors usual = index.search(queries, 10);
    EXPECT_FALSE(usual.statistics.certified);
    EXPECT_GE(usual.statistics.recall, Vamana::default_recall);
    EXPECT_GT(usual.statistics.hops, 300);
    EXPECT_GT(usual.statistics.distances, usual.statistics.hops);
    const Neighbors exact = index.search(queries, 10, {}, {.recall = 1});
    EXPECT_TRUE(exact.statistics.certified);
    EXPECT_EQ(exact.statistics.recall, 1);
    EXPECT_EQ(exact.indices, truth.indices);
    EXPECT_EQ(exact.distances, truth.distances);
  }
}

TEST(Vamana, LongerListsFindMore) {
  const Dataset data = in_clusters(3000);
  const Dataset queries = in_clusters(100, 3000);
  const Vamana index = Vamana::build(data, {.max_degree = 12, .build_list_size = 24});
  const Neighbors truth = knn(data, queries, 10);
  double before = 0;
  for (const std::int64_t list : {10, 40, 160, 3000}) {
    const double recall = evaluate(index.search(queries, 10, {}, {.list_size = list}), truth).recall;
    EXPECT_GE(recall, before);
    before = recall;
  }
  EXPECT_EQ(before, 1);
  // Fewer rows re-ranked find less, wider beams look around more.
  const Neighbors all = index.search(queries, 10, {}, {.list_size = 40});
  const Neighbors few = index.search(queries, 10, {}, {.list_size = 40, .rerank = 10});
  EXPECT_EQ(few.statistics.candidates, 1000);
  EXPECT_GT(all.statistics.candidates, few.statistics.candidates);
  const Neighbors wide = index.search(queries, 10, {}, {.list_size = 40, .beam_width = 8});
  EXPECT_GT(wide.statistics.hops, all.statistics.hops);
}

TEST(Vamana, EveryRowCanBeReached) {
  // Rows far apart in groups, and groups of equal rows: edges within a group alone would leave the rest out.
  std::vector<float> values;
  for (int i = 0; i < 3000; ++i) {
    for (int j = 0; j < 4; ++j) values.push_back(static_cast<float>(i % 30 * 1000 + (i / 30 % 7) * (j + 1)));
  }
  const DatasetView data(values.data(), 3000, 4);
  const Vamana index = Vamana::build(data, {.max_degree = 4, .build_list_size = 8, .alpha = 1});
  const Neighbors all = index.search(data.slice(0, 3), 3000, {}, {.list_size = 3000});
  EXPECT_EQ(all.indices, knn(data, data.slice(0, 3), 3000).indices);
  EXPECT_GE(all.statistics.collapsed_rows, 3000 - 210);  // and rows that one byte does not tell apart
}

TEST(Vamana, ManyEqualRowsAreFoundAllOfThem) {
  std::vector<std::uint8_t> values(5000 * 3, 7);
  for (int i = 0; i < 500; ++i) values[static_cast<std::size_t>(i * 30)] = static_cast<std::uint8_t>(i);
  const DatasetView data(values.data(), 5000, 3);
  const Vamana index = Vamana::build(data);
  const std::uint8_t asked[3] = {7, 7, 7};
  const Neighbors found = index.search(DatasetView(asked, 1, 3), 50, {}, {.list_size = 50});
  EXPECT_EQ(found.indices, knn(data, DatasetView(asked, 1, 3), 50).indices);
}

TEST(Vamana, RowsAndQueriesWithNaNAreLeftOut) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Dataset made = in_clusters(700);
  std::vector<float> values(static_cast<const float*>(made.view().data),
                            static_cast<const float*>(made.view().data) + 700 * 24);
  for (const std::size_t row : {0U, 5U, 699U}) values[row * 24 + row % 24] = nan;
  const DatasetView data(values.data(), 700, 24);
  const Vamana index = Vamana::build(data);
  const Neighbors found = index.search(data.slice(0, 2), 700, {}, {.list_size = 700});
  EXPECT_EQ(found.statistics.nan_rows, 3);
  EXPECT_EQ(found.statistics.nan_queries, 1);
  EXPECT_EQ(found.indices, knn(data, data.slice(0, 2), 700).indices);
  EXPECT_EQ(found.indices_of(0)[0], -1);
  EXPECT_EQ(found.indices_of(1)[696], found.indices_of(1)[696]);
  EXPECT_EQ(found.indices_of(1)[697], -1);
}

TEST(Vamana, ChoosesTheLengthOfTheBuildList) {
  const auto chosen = [](std::int64_t rows, std::int64_t dim, VamanaParameters parameters = {}) {
    const float value = 0;  // only the shape counts
    vamana::choose_build_list(parameters, DatasetView(&value, rows, dim));
    return parameters.build_list_size;
  };
  EXPECT_EQ(chosen(1, 1), 128);
  EXPECT_EQ(chosen(399'999, 384), 128);
  EXPECT_EQ(chosen(400'000, 383), 128);
  EXPECT_EQ(chosen(400'000, 384), 256);
  EXPECT_EQ(chosen(400'000, 384, {.max_degree = 200}), 400);
  EXPECT_EQ(chosen(400'000, 384, {.build_list_size = 70}), 70);
  EXPECT_EQ(chosen(0, 384), 0);

  const Dataset data = in_clusters(300);
  EXPECT_EQ(Vamana::build(data).parameters().build_list_size, 128);
  const Vamana wide = Vamana::build(data, {.max_degree = 100});
  EXPECT_EQ(wide.parameters().build_list_size, 200);
  EXPECT_EQ(wide.graph_hash(), Vamana::build(data, {.max_degree = 100, .build_list_size = 200}).graph_hash());
  const Vamana empty = Vamana::build(data.view().slice(0, 0));
  EXPECT_EQ(empty.parameters().build_list_size, 0);
  EXPECT_EQ(empty.insert(data).parameters().build_list_size, 128);
}

TEST(Vamana, RefusesByNameWhatItDoesNotTake) {
  const Dataset data = in_clusters(500);
  const auto refusal = [&](const VamanaParameters& parameters) {
    return message_of<InvalidArgument>([&] { Vamana::build(data, parameters); });
  };
  EXPECT_TRUE(contains(refusal({.metric = Metric::manhattan}),
                       "vamana does not know the metric manhattan; use brute_force or kd_tree or octree"));
  EXPECT_TRUE(contains(refusal({.max_degree = 3}), "max_degree of 3"));
  EXPECT_TRUE(contains(refusal({.max_degree = 1025}), "max_degree of 1025"));
  EXPECT_TRUE(contains(refusal({.build_list_size = 31}), "build_list_size of 31"));
  EXPECT_TRUE(contains(refusal({.build_list_size = -1}), "build_list_size of -1"));
  EXPECT_TRUE(contains(refusal({.alpha = 0.9}), "alpha of 0.9"));
  EXPECT_TRUE(contains(refusal({.alpha = std::numeric_limits<double>::quiet_NaN()}), "alpha of nan"));
  const Vamana index = Vamana::build(data);
  const auto search_refusal = [&](std::int64_t k, const SearchOptions& options) {
    return message_of<InvalidArgument>([&] { (void)index.search(data, k, {}, options); });
  };
  EXPECT_TRUE(contains(search_refusal(0, {}), "k is 0"));
  EXPECT_TRUE(contains(search_refusal(10, {.radius = 1}), "vamana takes no radius"));
  EXPECT_TRUE(contains(search_refusal(10, {.list_size = 9}), "list_size of 9"));
  EXPECT_TRUE(contains(search_refusal(10, {.recall = 0.9, .list_size = 20}), "list_size and recall"));
  EXPECT_TRUE(contains(search_refusal(10, {.recall = 0}), "recall of 0"));
  EXPECT_TRUE(contains(search_refusal(10, {.recall = 1.5}), "recall of 1.5"));
  EXPECT_TRUE(contains(search_refusal(10, {.list_size = 20, .beam_width = 65}), "beam_width of 65"));
  EXPECT_TRUE(contains(search_refusal(10, {.list_size = 20, .rerank = 9}), "rerank of 9"));
  EXPECT_TRUE(contains(search_refusal(10, {.list_size = 20, .rerank = 21}), "rerank of 21"));
  EXPECT_TRUE(contains(search_refusal(10, {.recall = 0.9, .beam_width = 2}), "beam_width without list_size"));
  EXPECT_TRUE(contains(search_refusal(10, {.rerank = 20}), "rerank without list_size"));
  const std::vector<float> wide(2 * 32769);
  EXPECT_TRUE(contains(
      message_of<InvalidArgument>([&] { Vamana::build(DatasetView(wide.data(), 2, 32769)); }), "32769"));
}

TEST(VamanaCodes, ThatThereAreNotAreRefused) {
  const Dataset data = with_few_directions(50);
  const auto refusal = [&](std::int64_t bits, std::int64_t dim) {
    return message_of<InvalidArgument>([&] { Vamana::build(data, {.code_bits = bits, .code_dim = dim}); });
  };
  EXPECT_TRUE(contains(refusal(5, 0), "code_bits of 5; use 8, 4"));
  EXPECT_TRUE(contains(refusal(8, 33), "code_dim of 33 for rows of dimension 128"));
  EXPECT_TRUE(contains(refusal(8, 160), "code_dim of 160"));
  EXPECT_TRUE(contains(refusal(8, -1), "code_dim of -1"));
}

TEST(Vamana, RefusesToTakeMoreMemoryThanTheLimit) {
  const Dataset data = in_clusters(5000);
  Execution execution;
  execution.memory_limit = 1 << 20U;
  EXPECT_TRUE(contains(message_of<OutOfMemory>([&] { Vamana::build(data, {}, execution); }),
                       "the limit is 1048576; raise the limit"));
  const Vamana index = Vamana::build(data);
  execution.memory_limit = 100'000;
  EXPECT_TRUE(contains(message_of<OutOfMemory>([&] { (void)index.search(data, 10, execution); }), "100000"));
  EXPECT_EQ(index.memory_bytes() / 5000, 32 + 4 * 64);
}

TEST(Vamana, StopsWithinAThirdOfASecondAndReportsProgress) {
  const Dataset data = in_clusters(30'000);
  using Clock = std::chrono::steady_clock;
  for (const int polls : {1, 40, 200}) {
    std::atomic<int> asked{0};
    Clock::time_point told;
    Execution execution = with_threads(2);
    execution.cancelled = [&] {
      if (++asked == polls) told = Clock::now();
      return asked >= polls;
    };
    EXPECT_THROW(Vamana::build(data, {}, execution), Cancelled);
    EXPECT_LT(std::chrono::duration<double>(Clock::now() - told).count(), 0.3 * 10);  // machines are busy
  }
  const Dataset few = in_clusters(3000);
  std::vector<std::int64_t> reports;
  Execution execution = with_threads(2);
  execution.progress = [&](const Progress& progress) {
    if (std::string(progress.stage) == "build") reports.push_back(progress.done);
    EXPECT_LE(progress.done, progress.total);
  };
  const Vamana index = Vamana::build(few, {}, execution);
  EXPECT_GT(reports.size(), 3U);
  EXPECT_EQ(reports.back(), 3000);
  std::atomic<int> asked{0};
  execution.progress = {};
  execution.cancelled = [&] { return ++asked > 3; };
  EXPECT_THROW((void)index.search(few, 10, execution, {.list_size = 3000}), Cancelled);
}

}  // namespace
}  // namespace kith
