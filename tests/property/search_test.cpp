// Random problems of every shape, dtype, metric and filter against the oracle, and laws that need none.
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "conformance/problem.hpp"
#include "core/instruction_set.hpp"
#include "kith/kith.hpp"
#include "support/files.hpp"

namespace kith {
namespace {

using conformance::Problem;
using conformance::Rows;
using reference::Matrix;

constexpr std::array filters = {Filter::automatic, Filter::int8, Filter::fp16, Filter::fp32, Filter::none};

// A value that is small, special or anything at all.
rc::Gen<double> value() {
  return rc::gen::weightedOneOf<double>(
      {{6, rc::gen::map(rc::gen::inRange(-8, 9), [](int v) { return static_cast<double>(v); })},
       {4, rc::gen::map(rc::gen::inRange(-1000000, 1000000), [](int v) { return v * 1e-3; })},
       {1, rc::gen::map(rc::gen::inRange(-300, 300), [](int v) { return std::pow(10.0, v / 7.0); })},
       {1, rc::gen::element(std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity(),
                            std::numeric_limits<double>::quiet_NaN(), -0.0, 1e30, -1e30, 1e-45, 65504.0,
                            3e38)}});
}

Matrix matrix(std::int64_t rows, std::int64_t dim) {
  return {rows, dim, *rc::gen::container<std::vector<double>>(static_cast<std::size_t>(rows * dim), value())};
}

Dtype any_dtype() {
  return *rc::gen::elementOf(all_dtypes);
}
Metric any_metric() {
  return *rc::gen::elementOf(all_metrics);
}

Problem any_problem(std::int64_t k) {
  const auto n = *rc::gen::inRange<std::int64_t>(0, 90);
  const auto d = *rc::gen::inRange<std::int64_t>(1, 40);
  const auto q = *rc::gen::inRange<std::int64_t>(0, 15);
  const double scale = *rc::gen::element(1.0, 10.0, 0.01);
  return conformance::make_problem("random", {matrix(n, d), matrix(q, d), scale}, any_dtype(), any_metric(),
                                   k);
}

BruteForceParameters any_parameters(Metric metric) {
  return {metric, *rc::gen::elementOf(filters)};
}

Execution any_execution() {
  Execution execution;
  execution.threads = *rc::gen::inRange(0, 6);
  return execution;
}

// Holds a random usable instruction set for one property.
class AnyInstructionSet {
 public:
  AnyInstructionSet() { force_instruction_set(*rc::gen::elementOf(usable_instruction_sets())); }
  AnyInstructionSet(const AnyInstructionSet&) = delete;
  AnyInstructionSet& operator=(const AnyInstructionSet&) = delete;
  ~AnyInstructionSet() { force_instruction_set(std::nullopt); }
};

void assert_truth(const Problem& problem, const Neighbors& result) {
  RC_ASSERT(result.queries == problem.queries.rows);
  for (std::int64_t q = 0; q < result.queries; ++q) {
    const auto& truth = problem.truth[static_cast<std::size_t>(q)];
    for (std::int64_t j = 0; j < result.k; ++j) {
      const bool exists = static_cast<std::size_t>(j) < truth.indices.size();
      RC_ASSERT(result.indices_of(q)[static_cast<std::size_t>(j)] ==
                (exists ? truth.indices[static_cast<std::size_t>(j)] : -1));
      RC_ASSERT(result.distance(q, j) == (exists ? truth.distances[static_cast<std::size_t>(j)]
                                                 : std::numeric_limits<double>::infinity()));
    }
  }
}

RC_GTEST_PROP(Search, AgreesWithTheOracle, ()) {
  const AnyInstructionSet set;
  const auto k = *rc::gen::inRange<std::int64_t>(1, 100);
  const Problem problem = any_problem(k);
  const Rows data(problem.data, problem.dtype, *rc::gen::inRange<std::int64_t>(0, 4),
                  *rc::gen::inRange<std::int64_t>(0, 3));
  const Rows queries(problem.queries, problem.dtype, *rc::gen::inRange<std::int64_t>(0, 4));
  const BruteForce index = BruteForce::build(data.view(), any_parameters(problem.metric), any_execution());
  assert_truth(problem, index.search(queries.view(), k, any_execution()));
}

// The best k of two halves are the best k of the whole, wherever it is cut.
RC_GTEST_PROP(Search, HalvesMergeToTheWhole, ()) {
  const AnyInstructionSet set;
  const auto k = *rc::gen::inRange<std::int64_t>(1, 20);
  const Problem problem = any_problem(k);
  const Rows data(problem.data, problem.dtype);
  const Rows queries(problem.queries, problem.dtype);
  const auto cut = *rc::gen::inRange<std::int64_t>(0, problem.data.rows + 1);
  const auto parameters = any_parameters(problem.metric);
  const Neighbors whole = knn(data.view(), queries.view(), k, parameters, any_execution());
  const Neighbors left = knn(data.view().slice(0, cut), queries.view(), k, parameters);
  const Neighbors right =
      knn(data.view().slice(cut, problem.data.rows - cut), queries.view(), k, any_parameters(problem.metric));
  for (std::int64_t q = 0; q < problem.queries.rows; ++q) {
    std::vector<std::pair<double, std::int64_t>> merged;
    for (std::int64_t j = 0; j < k; ++j) {
      const auto at = static_cast<std::size_t>(j);
      if (left.indices_of(q)[at] >= 0) merged.emplace_back(left.distance(q, j), left.indices_of(q)[at]);
      if (right.indices_of(q)[at] >= 0)
        merged.emplace_back(right.distance(q, j), right.indices_of(q)[at] + cut);
    }
    std::sort(merged.begin(), merged.end());
    for (std::int64_t j = 0; j < k; ++j) {
      const auto at = static_cast<std::size_t>(j);
      RC_ASSERT(whole.indices_of(q)[at] == (at < merged.size() ? merged[at].second : -1));
    }
  }
}

// A smaller k is a prefix of a larger one.
RC_GTEST_PROP(Search, FewerNeighboursAreAPrefix, ()) {
  const AnyInstructionSet set;
  const Problem problem = any_problem(1);
  const auto large = *rc::gen::inRange<std::int64_t>(1, 100);
  const auto small = *rc::gen::inRange<std::int64_t>(1, large + 1);
  const Rows data(problem.data, problem.dtype);
  const Rows queries(problem.queries, problem.dtype);
  const BruteForce index = BruteForce::build(data.view(), any_parameters(problem.metric));
  const Neighbors many = index.search(queries.view(), large);
  const Neighbors few = index.search(queries.view(), small, any_execution());
  for (std::int64_t q = 0; q < problem.queries.rows; ++q) {
    for (std::int64_t j = 0; j < small; ++j) {
      const auto at = static_cast<std::size_t>(j);
      RC_ASSERT(few.indices_of(q)[at] == many.indices_of(q)[at]);
      RC_ASSERT(few.distance(q, j) == many.distance(q, j));
    }
  }
}

RC_GTEST_PROP(Search, SavedAndLoadedIsTheSame, ()) {
  const Problem problem = any_problem(7);
  const Rows data(problem.data, problem.dtype, *rc::gen::inRange<std::int64_t>(0, 3));
  const Rows queries(problem.queries, problem.dtype);
  const test::TemporaryFolder folder;
  const BruteForce index = BruteForce::build(data.view(), any_parameters(problem.metric));
  index.save(folder / "index.kith");
  const BruteForce loaded = BruteForce::load(folder / "index.kith");
  RC_ASSERT(loaded.rows() == index.rows());
  RC_ASSERT(loaded.dim() == index.dim());
  RC_ASSERT(loaded.dtype() == index.dtype());
  RC_ASSERT(loaded.metric() == index.metric());
  assert_truth(problem, loaded.search(queries.view(), 7));
  loaded.save(folder / "again.kith");
  RC_ASSERT(test::read_file(folder / "again.kith") == test::read_file(folder / "index.kith"));
}

Neighbors any_neighbors(std::int64_t queries, std::int64_t k) {
  Neighbors out;
  out.queries = queries;
  out.k = k;
  std::vector<float> distances;
  for (std::int64_t q = 0; q < queries; ++q) {
    const auto ids = *rc::gen::unique<std::vector<std::int64_t>>(static_cast<std::size_t>(k),
                                                                 rc::gen::inRange<std::int64_t>(0, 4 * k));
    out.indices.insert(out.indices.end(), ids.begin(), ids.end());
    for (std::int64_t j = 0; j < k; ++j) distances.push_back(static_cast<float>(j + 1));
  }
  out.distances = std::move(distances);
  return out;
}

RC_GTEST_PROP(Evaluate, IsPerfectOnItselfAndBoundedOnOthers, ()) {
  const auto queries = *rc::gen::inRange<std::int64_t>(1, 8);
  const auto k = *rc::gen::inRange<std::int64_t>(1, 12);
  const Neighbors truth = any_neighbors(queries, k);
  const Neighbors result = any_neighbors(queries, k);
  RC_ASSERT(evaluate(truth, truth).recall == 1.0);
  RC_ASSERT(evaluate(truth, truth).exact_queries == queries);
  const Evaluation one = evaluate(result, truth);
  RC_ASSERT(one.recall >= 0.0);
  RC_ASSERT(one.recall <= 1.0);
  RC_ASSERT(one.recall_with_ties >= one.recall);
  RC_ASSERT(one.recall_with_ties <= 1.0);
  RC_ASSERT((one.exact_queries == queries) <= (one.recall == 1.0));
  // Without regard to distances, what one found of the other is what the other found of the one.
  RC_ASSERT(evaluate(truth, result).recall == one.recall);
}

}  // namespace
}  // namespace kith
