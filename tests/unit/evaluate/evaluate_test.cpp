// Recall and distance ratio on results small enough to check by hand.
#include "kith/evaluate.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
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

TEST(Evaluate, RefusesWhatDoesNotMatch) {
  const Neighbors a = make(1, 2, {4, 5}, {1, 1});
  const Neighbors b = make(2, 1, {4, 5}, {1, 1});
  EXPECT_TRUE(contains(message_of<InvalidArgument>([&] { evaluate(a, b); }), "1 query"));
  EXPECT_TRUE(contains(message_of<InvalidArgument>([&] { evaluate(a, a, 3); }), "k is 3"));
  EXPECT_THROW(evaluate(a, a, -1), InvalidArgument);
}

}  // namespace
}  // namespace kith
