// Confidence intervals of recalls, and the choice of a list by them.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "conformance/problem.hpp"
#include "kith/generate.hpp"
#include "kith/recall.hpp"
#include "recall/calibrate.hpp"

namespace kith {
namespace {

TEST(RecallEstimate, IsWilsonsIntervalForQueriesThatFindAllOrNothing) {
  std::vector<double> shares(100, 1.0);
  for (int i = 0; i < 10; ++i) shares[static_cast<std::size_t>(i)] = 0;
  const RecallEstimate estimate = estimate_recall(shares, 1);
  EXPECT_DOUBLE_EQ(estimate.recall, 0.9);
  // By hand: n = 100, z = 1.96.
  EXPECT_NEAR(estimate.lower, 0.8256, 5e-4);
  EXPECT_NEAR(estimate.upper, 0.9448, 5e-4);
}

TEST(RecallEstimate, IsNeverSureOfEverything) {
  const RecallEstimate all = estimate_recall(std::vector<double>(1000, 1.0), 10);
  EXPECT_EQ(all.recall, 1);
  EXPECT_EQ(all.upper, 1);
  EXPECT_LT(all.lower, 0.9965);
  EXPECT_GT(all.lower, 0.996);
  const RecallEstimate none = estimate_recall({}, 10);
  EXPECT_EQ(none.lower, 0);
  EXPECT_EQ(none.upper, 1);
}

TEST(RecallEstimate, IsNarrowerWhereQueriesAgree) {
  std::vector<double> alike, apart;
  for (int i = 0; i < 200; ++i) {
    alike.push_back(i % 2 == 0 ? 0.8 : 1.0);
    apart.push_back(i % 10 == 0 ? 0.0 : 1.0);
  }
  const RecallEstimate a = estimate_recall(alike, 10);
  const RecallEstimate b = estimate_recall(apart, 10);
  EXPECT_NEAR(a.recall, b.recall, 1e-12);
  EXPECT_GT(a.lower, b.lower);
}

// The share of samples whose interval covers the truth, for answers that are found or missed together.
TEST(RecallEstimate, CoversTheTruthAsOftenAsItSays) {
  conformance::Random random(7);
  int covered = 0;
  constexpr int samples = 400;
  for (int s = 0; s < samples; ++s) {
    std::vector<double> shares;
    for (int q = 0; q < 300; ++q) {
      // Each query has a chance of its own, 0.9 on average.
      const double chance = random.uniform() < 0.5 ? 1.0 : 0.8;
      int found = 0;
      for (int j = 0; j < 10; ++j) found += random.uniform() < chance ? 1 : 0;
      shares.push_back(found / 10.0);
    }
    const RecallEstimate estimate = estimate_recall(shares, 10);
    covered += estimate.lower <= 0.9 && estimate.upper >= 0.9 ? 1 : 0;
  }
  EXPECT_GE(covered, samples * 93 / 100);
  EXPECT_LE(covered, samples * 98 / 100);  // and no wider than it need be
}

TEST(RecallCurve, GivesTheShortestListOfTheNextLargerK) {
  RecallCurve curve;
  for (const std::int64_t k : {1, 10}) {
    for (const std::int64_t list : {16, 32, 64}) {
      const double lower = 1 - static_cast<double>(k + 1) / static_cast<double>(2 * list);
      curve.points.push_back({k, list, {lower, lower, lower}, 0, 0});
    }
  }
  ASSERT_NE(curve.reaching(0.9, 1), nullptr);
  EXPECT_EQ(curve.reaching(0.9, 1)->list_size, 16);
  EXPECT_EQ(curve.reaching(0.97, 1)->list_size, 64);
  EXPECT_EQ(curve.reaching(0.9, 2)->k, 10);
  EXPECT_EQ(curve.reaching(0.9, 10)->list_size, 64);
  EXPECT_EQ(curve.reaching(0.99, 10), nullptr);
  EXPECT_EQ(curve.reaching(0.5, 11), nullptr);
}

TEST(Calibration, LeavesTheRowsOutOfTheirOwnAnswers) {
  const Dataset data = generate({.generator = Generator::gaussian, .rows = 900, .dim = 8});
  const recall::Sample sample = recall::take_sample(data, Metric::sqeuclidean, {});
  ASSERT_EQ(sample.size(), 225);
  EXPECT_EQ(sample.k, 100);
  // A search that finds the query first and everything else after it has a recall of 1 for every k, also when
  // it returns no more than k rows.
  const RecallCurve curve = recall::measure(sample, 900, [&](std::int64_t, std::int64_t k) {
    Neighbors cut = sample.exact;
    cut.k = k;
    cut.indices.clear();
    std::vector<float> distances;
    for (std::int64_t q = 0; q < sample.size(); ++q) {
      for (std::int64_t j = 0; j < k; ++j) {
        cut.indices.push_back(sample.exact.indices_of(q)[static_cast<std::size_t>(j)]);
        distances.push_back(static_cast<float>(sample.exact.distance(q, j)));
      }
    }
    cut.distances = std::move(distances);
    return cut;
  });
  EXPECT_EQ(curve.queries, 225);
  for (const RecallPoint& point : curve.points) {
    if (point.list_size > point.k) {
      EXPECT_EQ(point.recall.recall, 1) << point.k << " " << point.list_size;
    }
  }
  EXPECT_EQ(recall::take_sample(data.view().slice(0, 399), Metric::sqeuclidean, {}).k, 0);
}

}  // namespace
}  // namespace kith
