// Searches that are told how far the answer reaches at most: the same answer, from fewer rows.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "conformance/problem.hpp"
#include "core/instruction_set.hpp"
#include "kith/brute_force.hpp"
#include "kith/error.hpp"
#include "support/errors.hpp"
#include "support/instruction_sets.hpp"

namespace kith {
namespace {

using test::contains;
using test::message_of;

constexpr double infinity = std::numeric_limits<double>::infinity();

// Whole numbers in few values: many rows at just the k-th distance.
reference::Matrix grid(std::int64_t rows, std::int64_t dim, std::int64_t values, std::uint64_t seed) {
  conformance::Random random(seed);
  reference::Matrix out{rows, dim, std::vector<double>(static_cast<std::size_t>(rows * dim))};
  for (double& value : out.values) value = static_cast<double>(random.below(values));
  return out;
}

std::vector<double> kth(const Neighbors& found) {
  std::vector<double> bounds;
  for (std::int64_t q = 0; q < found.queries; ++q) bounds.push_back(found.distance(q, found.k - 1));
  return bounds;
}

void expect_same(const Neighbors& a, const Neighbors& b, const std::string& where) {
  EXPECT_EQ(a.indices, b.indices) << where;
  EXPECT_EQ(a.distances, b.distances) << where;
}

TEST(Bounds, TheTightestOnesLeaveTheAnswerAsItIs) {
  std::int64_t compared = 0;
  for (const Dtype dtype : all_dtypes) {
    const conformance::Rows data(grid(3000, 11, 9, 3), dtype);
    const conformance::Rows queries(grid(40, 11, 9, 4), dtype);
    for (const Metric metric : all_metrics) {
      for (const Filter filter :
           {Filter::automatic, Filter::int8, Filter::fp16, Filter::fp32, Filter::none}) {
        BruteForceParameters parameters{metric, filter};
        std::optional<BruteForce> index;
        try {
          index.emplace(BruteForce::build(data.view(), parameters));
        } catch (const InvalidArgument&) {
          continue;  // a filter that this metric or type does not have
        }
        for (const int threads : {1, 3}) {
          Execution execution;
          execution.threads = threads;
          const Neighbors free = index->search(queries.view(), 6, execution);
          std::vector<double> bounds = kth(free);
          for (std::size_t q = 0; q < bounds.size(); q += 5) bounds[q] = infinity;
          SearchOptions options;
          options.bounds = bounds;
          const Neighbors found = index->search(queries.view(), 6, execution, options);
          expect_same(found, free,
                      std::string(name(dtype)) + " " + std::string(name(metric)) + " " +
                          std::string(name(filter)) + " " + std::to_string(threads));
          ++compared;
        }
      }
    }
  }
  EXPECT_GT(compared, 100);
}

TEST(Bounds, SpareCandidates) {
  conformance::Random random(9);
  reference::Matrix values{20000, 24, std::vector<double>(20000 * 24)};
  for (double& value : values.values) value = random.normal();
  const conformance::Rows data(values, Dtype::f32);
  const DatasetView queries(data.view().data, Dtype::f32, 30, 24, data.view().row_stride);
  for (const InstructionSet set : usable_instruction_sets()) {
    const test::Forced forced(set);
    const BruteForce index = BruteForce::build(data.view());
    for (const int threads : {1, 2}) {
      Execution execution;
      execution.threads = threads;
      const Neighbors free = index.search(queries, 10, execution);
      SearchOptions options;
      const std::vector<double> bounds = kth(free);
      options.bounds = bounds;
      const Neighbors found = index.search(queries, 10, execution, options);
      expect_same(found, free, std::string(name(set)));
      EXPECT_LT(found.statistics.candidates * 2, free.statistics.candidates) << name(set) << threads;
    }
  }
}

// A bound between two floats is no less than the larger one, and rows may be left out beyond it.
TEST(Bounds, MayBeAnything) {
  const conformance::Rows data(grid(500, 3, 50, 5), Dtype::f32);
  const BruteForce index = BruteForce::build(data.view());
  const DatasetView query(data.view().data, Dtype::f32, 1, 3, data.view().row_stride);
  const Neighbors free = index.search(query, 5);
  for (const double bound : {free.distance(0, 4) + 1e-12, free.distance(0, 4) + 1, infinity}) {
    SearchOptions options;
    options.bounds = {&bound, 1};
    expect_same(index.search(query, 5, {}, options), free, std::to_string(bound));
  }
  for (const double bound : {-1.0, 0.0, -infinity}) {
    SearchOptions options;
    options.bounds = {&bound, 1};
    const Neighbors found = index.search(query, 5, {}, options);
    EXPECT_TRUE(std::is_sorted(std::get<std::vector<float>>(found.distances).begin(),
                               std::get<std::vector<float>>(found.distances).end()));
  }
}

TEST(Bounds, OneAQueryOrNone) {
  const conformance::Rows data(grid(50, 3, 9, 5), Dtype::f32);
  const BruteForce index = BruteForce::build(data.view());
  std::vector<double> bounds(49, 1.0);
  SearchOptions options;
  options.bounds = bounds;
  EXPECT_TRUE(contains(message_of<InvalidArgument>([&] { (void)index.search(data.view(), 5, {}, options); }),
                       "49 bounds for 50 queries"));
  bounds.assign(50, 1.0);
  bounds[7] = std::numeric_limits<double>::quiet_NaN();
  options.bounds = bounds;
  EXPECT_TRUE(
      contains(message_of<InvalidArgument>([&] { (void)index.search(data.view(), 5, {}, options); }), "NaN"));
}

}  // namespace
}  // namespace kith
