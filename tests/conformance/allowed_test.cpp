// Searches that may find only some rows: every index, backend, dtype and metric against the float64 oracle
// over those rows.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "conformance/check.hpp"
#include "kith/error.hpp"
#include "kith/row_set.hpp"
#include "support/errors.hpp"

namespace kith::conformance {
namespace {

using test::contains;
using test::message_of;

class Allowed : public testing::TestWithParam<Support> {
 protected:
  void SetUp() override {
    if (!backend_usable(GetParam())) GTEST_SKIP() << "no usable CUDA device here";
  }

  static bool is_exact() { return Indexes::get(GetParam().index).guarantee == Guarantee::exact; }

  // Under tools that slow a program down a thousandfold, where walks take longest.
  static bool walks_briefly() { return size() == Size::brief && !is_exact(); }

  static Execution execution(int threads = 2) { return execution_for(GetParam(), threads); }

  // An approximate index walks with a list that holds every row, and so finds the truth.
  static SearchOptions options(const RowSet& allowed, std::int64_t k) {
    if (is_exact()) return {.allowed = &allowed};
    return {.list_size = std::max<std::int64_t>({allowed.rows(), k, 1}), .allowed = &allowed};
  }

  static AnyIndex build(const Rows& data) {
    return AnyIndex::build(Dataset::copy(data.view()), parameters_for(GetParam(), Filter::automatic),
                           execution());
  }
};

// The truth among the allowed rows, by the oracle over a matrix of those.
void solve_among(Problem& problem, const RowSet& allowed, std::int64_t k) {
  reference::Matrix some{0, problem.data.dim, {}};
  std::vector<std::int64_t> numbers;
  for (std::int64_t row = 0; row < problem.data.rows; ++row) {
    if (!allowed.contains(row)) continue;
    some.values.insert(some.values.end(), problem.data.row(row), problem.data.row(row) + problem.data.dim);
    numbers.push_back(row);
    ++some.rows;
  }
  problem.truth.clear();
  for (std::int64_t q = 0; q < problem.queries.rows; ++q) {
    reference::Answer answer = reference::nearest(some, problem.queries.row(q), k, problem.metric,
                                                  distance_dtype(problem.dtype) == Dtype::f32);
    for (std::int64_t& index : answer.indices) index = numbers[static_cast<std::size_t>(index)];
    problem.truth.push_back(std::move(answer));
  }
}

struct Choice {
  const char* name;
  std::function<bool(const Problem& problem, std::int64_t row)> allows;
};

// From all rows to none; and rows that are nobody's neighbours, so that what is near is of no use.
std::vector<Choice> choices() {
  const auto share = [](std::int64_t one_of) {
    return [one_of](const Problem&, std::int64_t row) {
      return Random(static_cast<std::uint64_t>(row) + 17).below(one_of) == 0;
    };
  };
  return {{"all", share(1)},
          {"half", share(2)},
          {"a tenth", share(10)},
          {"a fiftieth", share(50)},
          {"one", [](const Problem& problem, std::int64_t row) { return row == problem.data.rows / 2; }},
          {"none", [](const Problem&, std::int64_t) { return false; }},
          {"one side", [](const Problem& problem, std::int64_t row) {
             return problem.data.row(row)[0] > problem.queries.row(0)[0];
           }}};
}

TEST_P(Allowed, TheNearestOfSomeRows) {
  std::uint64_t seed = 2500;
  for (const Kind& kind : kinds()) {
    Random random(++seed);
    const std::uint64_t one_in = walks_briefly() ? kinds().size() : size() <= Size::reduced ? 4 : 1;
    if (seed % one_in != static_cast<std::uint64_t>(GetParam().metric) % one_in) continue;
    const std::int64_t n = size() == Size::brief ? 130 : 420;
    const std::int64_t queries = seed % 2 == 0 ? 1 : 6;
    const Values values = kind.make(n, 3, queries, random);
    Problem problem = make_problem(kind.name, values, GetParam().dtype, GetParam().metric, 1);
    const Rows data(problem.data, problem.dtype, seed % 3 == 0 ? 3 : 0, seed % 3 == 0 ? 1 : 0);
    const Rows asked(problem.queries, problem.dtype);
    const AnyIndex index = build(data);
    for (const Choice& choice : choices()) {
      RowSet allowed(n);
      for (std::int64_t row = 0; row < n; ++row) {
        if (choice.allows(problem, row)) allowed.insert(row);
      }
      for (const std::int64_t k : {1, 10, 100}) {
        if (walks_briefly() && k != 10) continue;
        solve_among(problem, allowed, k);
        const std::string where = fmt::format("{} allowed, k={}", choice.name, k);
        const Label label{GetParam(), Filter::automatic, active_instruction_set(), where};
        const Neighbors found = index.search(asked.view(), k, execution(), options(allowed, k));
        if (!compare(problem, found, 0, label)) return;
        if (k != 10) continue;
        Neighbors into = found;
        std::fill(into.indices.begin(), into.indices.end(), 7);
        std::visit([](auto& distances) { std::fill(distances.begin(), distances.end(), 7); }, into.distances);
        void* const distances = std::visit([](auto& held) -> void* { return held.data(); }, into.distances);
        index.search_into(asked.view(), {into.indices.data(), distances, queries, k}, execution(1),
                          options(allowed, k));
        EXPECT_EQ(into.indices, found.indices) << where;
        EXPECT_EQ(into.distances, found.distances) << where;
      }
    }
  }
}

// Many rows, so that both ways to search have their turn: whole lists thinned out, and rows side by side.
TEST_P(Allowed, ManyRows) {
  const std::int64_t n = walks_briefly() ? 500 : size() <= Size::reduced ? 2000 : 20'000;
  Problem problem =
      make_problem("many rows", gaussian(n, 3, 8, 2600), GetParam().dtype, GetParam().metric, 1);
  const Rows data(problem.data, problem.dtype);
  const Rows queries(problem.queries, problem.dtype);
  const AnyIndex index = build(data);
  for (const Choice& choice : choices()) {
    RowSet allowed(n);
    for (std::int64_t row = 0; row < n; ++row) {
      if (choice.allows(problem, row)) allowed.insert(row);
    }
    solve_among(problem, allowed, 10);
    compare(
        problem, index.search(queries.view(), 10, execution(), options(allowed, 10)), 0,
        {GetParam(), Filter::automatic, active_instruction_set(), fmt::format("{} allowed", choice.name)});
  }
}

TEST_P(Allowed, ASetOverOtherRowsIsRefused) {
  Problem problem = make_problem("few", gaussian(20, 3, 2, 2700), GetParam().dtype, GetParam().metric, 1);
  const Rows data(problem.data, problem.dtype);
  const Rows queries(problem.queries, problem.dtype);
  const AnyIndex index = build(data);
  for (const std::int64_t rows : {0, 19, 21}) {
    const RowSet other(rows);
    EXPECT_TRUE(contains(message_of<InvalidArgument>([&] {
                           (void)index.search(queries.view(), 1, execution(), {.allowed = &other});
                         }),
                         fmt::format("over {} rows", rows)));
  }
}

INSTANTIATE_TEST_SUITE_P(Supported, Allowed, testing::ValuesIn(supported),
                         [](const auto& entry) { return entry_name(entry.param); });

}  // namespace
}  // namespace kith::conformance
