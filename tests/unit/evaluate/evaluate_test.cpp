// Recall and distance ratio on results small enough to check by hand.
#include "kith/evaluate.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "kith/error.hpp"
#include "support/errors.hpp"

namespace kith {
namespace {

using test::contains;
using test::message_of;

Neighbors make(std::int64_t queries, std::int64_t k, std::vector<std::int64_t> indices,
               std::vector<float> distances) {
  Neighbors out;
  out.queries = queries;
  out.k = k;
  out.indices = std::move(indices);
  out.distances = std::move(distances);
  return out;
}

constexpr float inf = std::numeric_limits<float>::infinity();
constexpr float nan = std::numeric_limits<float>::quiet_NaN();

TEST(Evaluate, TheTruthItselfIsPerfect) {
  const Neighbors truth = make(2, 3, {4, 5, 6, 1, 2, 3}, {1, 2, 3, 0, 0, 7});
  const Evaluation e = evaluate(truth, truth);
  EXPECT_EQ(e.queries, 2);
  EXPECT_EQ(e.k, 3);
  EXPECT_EQ(e.recall, 1);
  EXPECT_EQ(e.recall_with_ties, 1);
  EXPECT_EQ(e.distance_ratio, 1);
  EXPECT_EQ(e.exact_queries, 2);
}

TEST(Evaluate, CountsWhatWasFoundInAnyOrder) {
  const Neighbors truth = make(2, 2, {4, 5, 1, 2}, {1, 2, 1, 2});
  const Neighbors result = make(2, 2, {5, 4, 1, 9}, {2, 1, 1, 4});
  const Evaluation e = evaluate(result, truth);
  EXPECT_EQ(e.recall, 0.75);
  EXPECT_EQ(e.recall_with_ties, 0.75);
  EXPECT_EQ(e.exact_queries, 0);
  EXPECT_DOUBLE_EQ(e.distance_ratio, (2.0 / 1 + 1.0 / 2 + 1 + 2) / 4);
}

TEST(Evaluate, TiesCountWhereDistancesAreKnown) {
  const Neighbors truth = make(1, 2, {4, 5}, {1, 2});
  const Neighbors result = make(1, 2, {4, 8}, {1, 2});
  EXPECT_EQ(evaluate(result, truth).recall, 0.5);
  EXPECT_EQ(evaluate(result, truth).recall_with_ties, 1);
}

TEST(Evaluate, CutsBothToK) {
  const Neighbors truth = make(1, 4, {1, 2, 3, 4}, {1, 2, 3, 4});
  const Neighbors result = make(1, 3, {1, 3, 9}, {1, 3, 9});
  EXPECT_EQ(evaluate(result, truth).k, 3);
  EXPECT_DOUBLE_EQ(evaluate(result, truth).recall, 2.0 / 3);
  EXPECT_EQ(evaluate(result, truth, 1).recall, 1);
  EXPECT_EQ(evaluate(result, truth, 1).exact_queries, 1);
  EXPECT_EQ(evaluate(result, truth, 2).recall, 0.5);
}

TEST(Evaluate, PaddingIsNotExpected) {
  const Neighbors truth = make(1, 3, {7, -1, -1}, {2, inf, inf});
  EXPECT_EQ(evaluate(truth, truth).recall, 1);
  EXPECT_EQ(evaluate(truth, truth).recall_with_ties, 1);
  EXPECT_EQ(evaluate(truth, truth).distance_ratio, 1);
  EXPECT_EQ(evaluate(make(1, 3, {-1, -1, -1}, {inf, inf, inf}), truth).recall, 0);
}

TEST(Evaluate, ARowNamedTwiceCountsOnce) {
  const Neighbors truth = make(1, 2, {4, 5}, {1, 1});
  const Neighbors result = make(1, 2, {4, 4}, {1, 1});
  EXPECT_EQ(evaluate(result, truth).recall, 0.5);
  EXPECT_EQ(evaluate(result, truth).recall_with_ties, 0.5);
}

TEST(Evaluate, WithoutDistancesOnlyRecall) {
  const Neighbors truth = make(1, 2, {4, 5}, {nan, nan});
  const Neighbors result = make(1, 2, {4, 5}, {1, 1});
  EXPECT_EQ(evaluate(result, truth).recall, 1);
  EXPECT_TRUE(std::isnan(evaluate(result, truth).recall_with_ties));
  EXPECT_TRUE(std::isnan(evaluate(result, truth).distance_ratio));
}

TEST(Evaluate, NoQueries) {
  const Neighbors none = make(0, 2, {}, {});
  EXPECT_EQ(evaluate(none, none).queries, 0);
  EXPECT_EQ(evaluate(none, none).recall, 1);
}

// Ten queries of which one has found nothing: one draw a query, whatever k.
TEST(Evaluate, IntervalsCountQueries) {
  constexpr std::int64_t queries = 10;
  for (const std::int64_t k : {1, 50}) {
    std::vector<std::int64_t> rows, wrong;
    for (std::int64_t i = 0; i < queries * k; ++i) {
      rows.push_back(i);
      wrong.push_back(i < k ? 1000 + i : i);
    }
    const std::vector<float> ones(static_cast<std::size_t>(queries * k), 1);
    std::vector<float> more = ones;
    std::fill(more.begin(), more.begin() + k, 2.0F);
    const Evaluation e = evaluate(make(queries, k, wrong, more), make(queries, k, rows, ones));
    EXPECT_DOUBLE_EQ(e.recall, 0.9);
    // By hand: Wilson's interval of 9 of 10, z = 1.96.
    EXPECT_NEAR(e.recall_interval.lower, 0.5958, 1e-4);
    EXPECT_NEAR(e.recall_interval.upper, 0.9821, 1e-4);
    EXPECT_NEAR(e.recall_with_ties_interval.lower, 0.5958, 1e-4);
    EXPECT_NEAR(e.exact_share_interval.lower, 0.5958, 1e-4);
    EXPECT_NEAR(e.exact_share_interval.upper, 0.9821, 1e-4);
    // Mean 1.1, standard deviation sqrt(0.1) over ten queries.
    EXPECT_NEAR(e.distance_ratio, 1.1, 1e-6);
    EXPECT_NEAR(e.distance_ratio_interval.lower, 1.1 - 1.96 * 0.1, 1e-3);
    EXPECT_NEAR(e.distance_ratio_interval.upper, 1.1 + 1.96 * 0.1, 1e-3);
  }
}

TEST(Evaluate, QueriesThatAgreeAreSurer) {
  std::vector<std::int64_t> truth, even, uneven;
  for (std::int64_t q = 0; q < 20; ++q) {
    for (std::int64_t j = 0; j < 10; ++j) {
      const std::int64_t row = q * 10 + j;
      truth.push_back(row);
      even.push_back(j < 2 && q % 2 == 0 ? 9000 + row : row);
      uneven.push_back(q < 2 ? 9000 + row : row);
    }
  }
  const std::vector<float> distances(200, 1);
  const Evaluation a = evaluate(make(20, 10, even, distances), make(20, 10, truth, distances));
  const Evaluation b = evaluate(make(20, 10, uneven, distances), make(20, 10, truth, distances));
  EXPECT_DOUBLE_EQ(a.recall, b.recall);
  EXPECT_GT(a.recall_interval.lower, b.recall_interval.lower + 0.1);
}

// A query with few rows to find has the weight of those.
TEST(Evaluate, ShortListsWeighLess) {
  const Neighbors truth = make(3, 4, {1, 2, 3, 4, 5, -1, -1, -1, 6, 7, 8, 9}, std::vector<float>(12, 1));
  const Neighbors result = make(3, 4, {1, 2, 3, 4, 0, -1, -1, -1, 6, 7, 8, 9}, std::vector<float>(12, 1));
  EXPECT_DOUBLE_EQ(evaluate(result, truth).recall, 8.0 / 9);
}

TEST(Evaluate, NothingIsKnownFromNothing) {
  const Neighbors none = make(0, 2, {}, {});
  EXPECT_EQ(evaluate(none, none).recall_interval.lower, 0);
  EXPECT_EQ(evaluate(none, none).recall_interval.upper, 1);
  const Neighbors one = make(1, 2, {4, 5}, {1, 2});
  EXPECT_GT(evaluate(one, one).recall_interval.lower, 0);
  EXPECT_LT(evaluate(one, one).recall_interval.lower, 0.7);
  EXPECT_TRUE(std::isnan(evaluate(one, one).distance_ratio_interval.lower));
  const Neighbors alone = make(1, 2, {4, 5}, {nan, nan});
  EXPECT_TRUE(std::isnan(evaluate(alone, one).recall_with_ties_interval.upper));
}

// Time in proportion to k log k: lists of 100,000 are compared at once, not for an hour.
TEST(Evaluate, LongListsTakeNoTime) {
  constexpr std::int64_t k = 200000;
  std::vector<std::int64_t> rows(k);
  std::iota(rows.begin(), rows.end(), 0);
  std::vector<float> distances(k);
  std::iota(distances.begin(), distances.end(), 1.0F);
  const Neighbors truth = make(1, k, rows, distances);
  std::reverse(rows.begin(), rows.end());
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(evaluate(make(1, k, rows, distances), truth).recall, 1);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
}

TEST(Evaluate, RefusesWhatDoesNotMatch) {
  const Neighbors a = make(1, 2, {4, 5}, {1, 1});
  const Neighbors b = make(2, 1, {4, 5}, {1, 1});
  EXPECT_TRUE(contains(message_of<InvalidArgument>([&] { evaluate(a, b); }), "1 query"));
  EXPECT_TRUE(contains(message_of<InvalidArgument>([&] { evaluate(a, a, 3); }), "k is 3"));
  EXPECT_THROW(evaluate(a, a, -1), InvalidArgument);
}

}  // namespace
}  // namespace kith
