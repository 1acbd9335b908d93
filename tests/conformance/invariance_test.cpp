// What must not change the answer by one bit: batch size, threads, memory budget, order of rows and of
// queries, the way to the answer (one-shot, saved, type-erased), strides, company in the batch.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <unistd.h>

#include "conformance/check.hpp"

namespace kith::conformance {
namespace {

class Invariance : public testing::TestWithParam<Support> {
 protected:
  void SetUp() override {
    if (!backend_usable(GetParam())) GTEST_SKIP() << "no usable CUDA device here";
  }

  // Calls run(set, filter) for the paths of this test.
  template <class Run>
  void everywhere(Run run) {
    const auto chance =
        static_cast<std::uint64_t>(GetParam().dtype) * 7 + static_cast<std::uint64_t>(GetParam().metric);
    for (const auto& [set, filter] : paths(GetParam(), chance + turn_++)) {
      const Forced forced(set);
      run(set, filter);
      if (HasFatalFailure()) return;
    }
  }
  std::uint64_t turn_ = 0;

  AnyIndex build(const DatasetView& data, Filter filter, const Execution& execution) {
    return AnyIndex::build(Dataset::adopt(data, nullptr), parameters_for(GetParam(), filter), execution);
  }

  // A problem of middling size with ties, outliers and specials in it, in two dimensions.
  std::vector<Problem> problems(std::int64_t k) {
    const bool reduced = size() <= Size::reduced;
    std::vector<Problem> list;
    for (const std::int64_t d : {3, 37}) {
      if (size() == Size::brief && d != 3) continue;
      if (!supports_dim(GetParam().index, d)) continue;
      Values values =
          gaussian(reduced ? 300 : 1100, d, reduced ? 14 : 41, 800 + static_cast<std::uint64_t>(d));
      Random random(810);
      for (const Kind& kind : kinds()) {
        const std::string_view what = kind.name;
        if (what != "specials" && what != "near_duplicates_1e-6" && what != "shell_1e-3") continue;
        const Values part = kind.make(40, d, 3, random);
        append(values.data, part.data);
        append(values.queries, part.queries);
      }
      list.push_back(
          make_problem(fmt::format("mixture_{}", d), values, GetParam().dtype, GetParam().metric, k));
    }
    return list;
  }

  static void append(reference::Matrix& to, const reference::Matrix& from) {
    to.rows += from.rows;
    to.values.insert(to.values.end(), from.values.begin(), from.values.end());
  }

  // Rows of `from` in the order of `order`.
  static reference::Matrix permuted(const reference::Matrix& from, const std::vector<std::int64_t>& order) {
    reference::Matrix out{from.rows, from.dim, std::vector<double>(from.values.size())};
    for (std::int64_t i = 0; i < from.rows; ++i) {
      std::copy_n(from.row(order[static_cast<std::size_t>(i)]), from.dim, out.row(i));
    }
    return out;
  }

  static std::vector<std::int64_t> shuffled(std::int64_t n, std::uint64_t seed) {
    std::vector<std::int64_t> order(static_cast<std::size_t>(n));
    std::iota(order.begin(), order.end(), 0);
    Random random(seed);
    for (std::int64_t i = n - 1; i > 0; --i) {
      std::swap(order[static_cast<std::size_t>(i)], order[static_cast<std::size_t>(random.below(i + 1))]);
    }
    return order;
  }
};

TEST_P(Invariance, BatchSize) {
  for (const Problem& problem : problems(12)) {
    const Rows data(problem.data, problem.dtype);
    const Rows queries(problem.queries, problem.dtype);
    const std::int64_t count = problem.queries.rows;
    everywhere([&](InstructionSet set, Filter filter) {
      const Execution execution = execution_for(GetParam(), 2);
      const AnyIndex index = build(data.view(), filter, execution);
      for (const std::int64_t batch : {std::int64_t{1}, std::int64_t{2}, std::int64_t{7}, count}) {
        for (std::int64_t first = 0; first < count; first += batch) {
          const auto part = queries.view().slice(first, std::min(batch, count - first));
          ASSERT_TRUE(compare(problem, index.search(part, 12, execution), first,
                              {GetParam(), filter, set, fmt::format("batch={}", batch)}));
        }
      }
    });
  }
}

TEST_P(Invariance, Threads) {
  for (const Problem& problem : problems(12)) {
    const Rows data(problem.data, problem.dtype);
    const Rows queries(problem.queries, problem.dtype);
    everywhere([&](InstructionSet set, Filter filter) {
      for (const int threads : {1, 2, 3, 5, 16, 0}) {
        const Execution execution = execution_for(GetParam(), threads);
        const AnyIndex index = build(data.view(), filter, execution);
        const Label label{GetParam(), filter, set, fmt::format("threads={}", threads)};
        ASSERT_TRUE(compare(problem, index.search(queries.view(), 12, execution), 0, label));
        ASSERT_TRUE(compare(problem, index.search(queries.view().slice(0, 1), 12, execution), 0, label));
      }
    });
  }
}

// A budget may slow a search down or make it refuse, with the value, the limit and the remedy in the
// message; it may not change the answer.
TEST_P(Invariance, MemoryLimit) {
  for (const Problem& problem : problems(12)) {
    const Rows data(problem.data, problem.dtype);
    const Rows queries(problem.queries, problem.dtype);
    everywhere([&](InstructionSet set, Filter filter) {
      const AnyIndex index = build(data.view(), filter, execution_for(GetParam(), 2));
      bool answered = false;
      for (const std::uint64_t limit :
           {1ULL, 1ULL << 12U, 1ULL << 16U, 1ULL << 20U, 1ULL << 26U, 1ULL << 40U}) {
        Execution execution = execution_for(GetParam(), 2);
        (execution.devices.front().kind == Device::Kind::cuda ? execution.device_memory_limit
                                                              : execution.memory_limit) = limit;
        try {
          const Neighbors result = index.search(queries.view(), 12, execution);
          answered = true;
          ASSERT_TRUE(
              compare(problem, result, 0, {GetParam(), filter, set, fmt::format("memory_limit={}", limit)}));
        } catch (const OutOfMemory& error) {
          EXPECT_FALSE(answered) << "more memory must not be refused when less was enough";
          EXPECT_LT(limit, 1ULL << 26U) << error.what();
          EXPECT_NE(std::string(error.what()).find(std::to_string(limit)), std::string::npos) << error.what();
        }
      }
    });
  }
}

TEST_P(Invariance, RowOrder) {
  for (const Problem& problem : problems(12)) {
    for (const std::uint64_t seed : {1U, 2U}) {
      auto order = shuffled(problem.data.rows, seed);
      if (seed == 2) std::sort(order.rbegin(), order.rend());
      Problem moved = problem;
      moved.name += seed == 2 ? " reversed" : " shuffled";
      moved.data = permuted(problem.data, order);
      moved.solve(12);
      // The order of rows decides ties only: the distances are the same bits.
      for (std::size_t q = 0; q < moved.truth.size(); ++q) {
        ASSERT_EQ(moved.truth[q].distances, problem.truth[q].distances);
      }
      check_everywhere(moved, GetParam(), {12});
    }
  }
}

// Whatever else is in the batch, and wherever a query stands in it.
TEST_P(Invariance, QueryOrder) {
  for (const Problem& problem : problems(12)) {
    const auto order = shuffled(problem.queries.rows, 3);
    Problem moved = problem;
    moved.name += " queries shuffled";
    moved.queries = permuted(problem.queries, order);
    for (std::size_t q = 0; q < order.size(); ++q) {
      moved.truth[q] = problem.truth[static_cast<std::size_t>(order[q])];
    }
    check_everywhere(moved, GetParam(), {12});
  }
}

TEST_P(Invariance, RowStride) {
  for (const Problem& problem : problems(9)) {
    for (const std::int64_t gap : {1, 5, 64}) {
      const Rows data(problem.data, problem.dtype, gap, 1);
      const Rows queries(problem.queries, problem.dtype, gap + 2, 3);
      everywhere([&](InstructionSet set, Filter filter) {
        const Execution execution = execution_for(GetParam(), 2);
        const AnyIndex index = build(data.view(), filter, execution);
        ASSERT_TRUE(compare(problem, index.search(queries.view(), 9, execution), 0,
                            {GetParam(), filter, set, fmt::format("gap={}", gap)}));
      });
    }
  }
}

TEST_P(Invariance, SavedAndLoaded) {
  const auto path =
      std::filesystem::temp_directory_path() / fmt::format("kith-conformance-{}.kith", ::getpid());
  for (const Problem& problem : problems(9)) {
    const Rows data(problem.data, problem.dtype, 2);
    const Rows queries(problem.queries, problem.dtype);
    everywhere([&](InstructionSet set, Filter filter) {
      const Execution execution = execution_for(GetParam(), 2);
      const AnyIndex built = build(data.view(), filter, execution);
      built.save(path, execution);
      const AnyIndex index = AnyIndex::load(path, execution);
      EXPECT_EQ(index.rows(), built.rows());
      EXPECT_EQ(index.dim(), built.dim());
      EXPECT_EQ(index.dtype(), built.dtype());
      EXPECT_EQ(index.metric(), built.metric());
      EXPECT_EQ(index.type(), built.type());
      ASSERT_TRUE(compare(problem, index.search(queries.view(), 9, execution), 0,
                          {GetParam(), filter, set, "loaded"}));
    });
  }
  std::filesystem::remove(path);
}

TEST_P(Invariance, OneShot) {
  if (GetParam().index != "brute_force") GTEST_SKIP() << "knn() is brute force";
  for (const Problem& problem : problems(9)) {
    const Rows data(problem.data, problem.dtype);
    const Rows queries(problem.queries, problem.dtype);
    everywhere([&](InstructionSet set, Filter filter) {
      const Execution execution = execution_for(GetParam(), 2);
      for (const std::int64_t count : {std::int64_t{1}, problem.queries.rows}) {
        ASSERT_TRUE(compare(problem,
                            knn(data.view(), queries.view().slice(0, count), 9,
                                BruteForceParameters{problem.metric, filter}, execution),
                            0, {GetParam(), filter, set, "knn"}));
      }
    });
  }
}

// What a result says about the search that made it.
TEST_P(Invariance, Statistics) {
  for (Problem& problem : problems(9)) {
    const auto nan_rows = [](const reference::Matrix& matrix) {
      std::int64_t count = 0;
      for (std::int64_t i = 0; i < matrix.rows; ++i) {
        count +=
            std::any_of(matrix.row(i), matrix.row(i) + matrix.dim, [](double v) { return v != v; }) ? 1 : 0;
      }
      return count;
    };
    const Rows data(problem.data, problem.dtype);
    const Rows queries(problem.queries, problem.dtype);
    everywhere([&](InstructionSet set, Filter filter) {
      const Execution execution = execution_for(GetParam(), 2);
      const AnyIndex index = build(data.view(), filter, execution);
      const Neighbors result = index.search(queries.view(), 9, execution);
      const SearchStatistics& statistics = result.statistics;
      EXPECT_EQ(statistics.index, GetParam().index);
      EXPECT_EQ(statistics.nan_rows, nan_rows(problem.data));
      EXPECT_EQ(statistics.nan_queries, nan_rows(problem.queries));
      EXPECT_GE(statistics.seconds, 0);
      EXPECT_LT(statistics.seconds, 600);
      EXPECT_GE(statistics.fallbacks, 0);
      EXPECT_LE(statistics.fallbacks, problem.queries.rows);
      if (GetParam().backend == Device::Kind::cpu) {
        EXPECT_EQ(statistics.instruction_set, name(set));
      }
      if (filter == Filter::automatic) {
        EXPECT_NE(statistics.filter, "auto");
      }
      EXPECT_NO_THROW(parse_filter(statistics.filter));
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Supported, Invariance, testing::ValuesIn(supported_by(Guarantee::exact)),
                         [](const auto& entry) { return entry_name(entry.param); });

}  // namespace
}  // namespace kith::conformance
