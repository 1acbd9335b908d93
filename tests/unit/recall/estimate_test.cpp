// Confidence intervals of recalls, and the choice of a list by them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "conformance/problem.hpp"
#include "kith/brute_force.hpp"
#include "kith/generate.hpp"
#include "kith/recall.hpp"
#include "recall/calibrate.hpp"
#include "recall/distribution.hpp"

namespace kith {
namespace {

TEST(RecallEstimate, IsWilsonsIntervalForQueriesThatFindAllOrNothing) {
  std::vector<double> shares(100, 1.0);
  for (int i = 0; i < 10; ++i) shares[static_cast<std::size_t>(i)] = 0;
  const RecallEstimate estimate = estimate_recall(shares, 1);
  EXPECT_DOUBLE_EQ(estimate.recall, 0.9);
  // By hand: n = 100, z = 2.576.
  EXPECT_NEAR(estimate.lower, 0.7962, 5e-4);
  EXPECT_NEAR(estimate.upper, 0.9540, 5e-4);
}

// Lists 8, 12, ... of k = 10 with these recalls; bounds are 0.02 off, but for what finds all.
RecallCurve curve_of(const std::vector<double>& recalls) {
  RecallCurve curve;
  curve.queries = 100;
  const std::vector<std::int64_t> lists = recall::list_sizes(1000);
  for (std::size_t i = 0; i < recalls.size(); ++i) {
    const double off = recalls[i] == 1 ? 0 : 0.02;
    curve.points.push_back({10, lists[i], {recalls[i], recalls[i] - off, recalls[i] + off}, 4, 40});
  }
  return curve;
}

TEST(RecallCurve, IsPooledByShares) {
  const RecallCurve easy = curve_of({0.9, 1});
  const RecallCurve hard = curve_of({0.5, 0.7, 0.8});
  const RecallCurve both = recall::pooled(easy, 0.25, hard);
  EXPECT_EQ(both.queries, 200);
  ASSERT_EQ(both.points.size(), 3U);  // what found all with list 12 does so with 16
  EXPECT_DOUBLE_EQ(both.points[0].recall.recall, 0.25 * 0.9 + 0.75 * 0.5);
  EXPECT_DOUBLE_EQ(both.points[0].recall.lower, 0.25 * 0.88 + 0.75 * 0.48);
  EXPECT_DOUBLE_EQ(both.points[0].distances, 40);
  EXPECT_DOUBLE_EQ(both.points[2].recall.recall, 0.25 + 0.75 * 0.8);
  EXPECT_EQ(both.points[2].list_size, 16);
  // Nobody knows what a longer list than was measured finds.
  EXPECT_EQ(recall::pooled(curve_of({0.9}), 0.5, hard).points.size(), 1U);
  EXPECT_TRUE(recall::pooled({}, 0.5, hard).points.empty());
}

TEST(RecallEstimate, IsNeverSureOfEverything) {
  const RecallEstimate all = estimate_recall(std::vector<double>(1000, 1.0), 10);
  EXPECT_EQ(all.recall, 1);
  EXPECT_EQ(all.upper, 1);
  EXPECT_LT(all.lower, 0.9935);
  EXPECT_GT(all.lower, 0.993);
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
  constexpr int samples = 2000;
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
  EXPECT_GE(covered, samples * 983 / 1000);
  EXPECT_LE(covered, samples * 997 / 1000);  // and no wider than it need be
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

TEST(Calibration, HoldsOutAFewRowsOfMany) {
  const auto any = [](std::int64_t) { return true; };
  const recall::HeldOut held = recall::hold_out(4000, 0, any);
  EXPECT_EQ(held.rows.size(), 250U);
  EXPECT_EQ(held.others.count(), 3750);
  EXPECT_TRUE(std::is_sorted(held.rows.begin(), held.rows.end()));
  for (const std::int64_t row : held.rows) EXPECT_FALSE(held.others.contains(row));
  EXPECT_EQ(recall::hold_out(100000, 0, any).rows.size(), 1000U);
  EXPECT_TRUE(recall::hold_out(799, 0, any).rows.empty());
  const recall::HeldOut late = recall::hold_out(4000, 3800, any);
  EXPECT_EQ(late.rows.size(), 200U);
  EXPECT_EQ(late.rows.front(), 3800);
  EXPECT_TRUE(recall::hold_out(4000, 3960, any).rows.empty());
  const recall::HeldOut even = recall::hold_out(4000, 0, [](std::int64_t row) { return row % 2 == 0; });
  EXPECT_LT(even.rows.size(), 180U);
  for (const std::int64_t row : even.rows) EXPECT_EQ(row % 2, 0);
  EXPECT_EQ(even.others.count(), 4000 - static_cast<std::int64_t>(even.rows.size()));
}

TEST(Calibration, CountsWhatIsAsNearAsTheTruth) {
  const Dataset data = generate({.generator = Generator::gaussian, .rows = 900, .dim = 8});
  const DatasetView queries = data.view().slice(0, 120);
  const Neighbors exact = knn(data, queries, 10);
  // A search that misses every tenth query's neighbours, but for lists of 64 and more.
  const auto search = [&](std::int64_t list, std::int64_t k) {
    Neighbors found = knn(data, queries, k);
    found.statistics.hops = 240;
    found.statistics.seconds = 0.5;
    for (std::int64_t q = 0; q < 120 && list < 64; q += 10) {
      for (std::int64_t j = 0; j < k; ++j) {
        found.indices[static_cast<std::size_t>(q * k + j)] = -1;
        std::get<0>(found.distances)[static_cast<std::size_t>(q * k + j)] =
            std::numeric_limits<float>::infinity();
      }
    }
    return found;
  };
  const recall::Measured measured = recall::measure(exact, std::vector<std::int64_t>{3, 10}, 900, search);
  EXPECT_EQ(measured.curve.queries, 120);
  ASSERT_EQ(measured.curve.points.size(), measured.queries_per_second.size());
  std::int64_t before = 0;
  for (const RecallPoint& point : measured.curve.points) {
    EXPECT_NEAR(point.recall.recall, point.list_size < 64 ? 0.9 : 1.0, 1e-12);
    EXPECT_LE(point.list_size, 64);  // nothing is left to be found by longer ones
    EXPECT_EQ(point.hops, 2);
    EXPECT_GT(point.k * 10000 + point.list_size, before);
    before = point.k * 10000 + point.list_size;
  }
  EXPECT_EQ(measured.queries_per_second.front(), 240);
}

// The lists searched for k = 10 and 1,000 queries, where a list misses so many neighbours, each of another
// query, and takes so many distances a query for each of its nodes.
std::vector<std::int64_t> lists_searched(const std::function<std::int64_t(std::int64_t list)>& missed,
                                         std::int64_t distances_a_node = 1) {
  const Dataset data = generate({.generator = Generator::gaussian, .rows = 5000, .dim = 8});
  const DatasetView queries = data.view().slice(0, 1000);
  const Neighbors exact = knn(data, queries, 10);
  std::vector<std::int64_t> lists;
  const auto search = [&](std::int64_t list, std::int64_t /*k*/) {
    lists.push_back(list);
    Neighbors found = exact;
    found.statistics.distances = 1000 * distances_a_node * list;
    for (std::int64_t i = 0; i < missed(list); ++i) {  // the last of query i
      found.indices[static_cast<std::size_t>(10 * i + 9)] = -1;
      std::get<0>(found.distances)[static_cast<std::size_t>(10 * i + 9)] =
          std::numeric_limits<float>::infinity();
    }
    return found;
  };
  (void)recall::measure(exact, std::vector<std::int64_t>{10}, 5000, search, 10000);
  return lists;
}

TEST(Calibration, EndsWhereLongerListsSayNoMore) {
  const auto few = [](std::int64_t list) { return list < 96 ? 5 : 0; };
  const auto one = [](std::int64_t) { return 1; };
  EXPECT_EQ(lists_searched(few).back(), 96);
  EXPECT_EQ(lists_searched(one).back(), 4096);
  // Walks that take too long are measured up to lists of 256, and the first longer one is the last.
  EXPECT_EQ(lists_searched(one, 10).back(), 1024);
  EXPECT_EQ(lists_searched(one, 1000).back(), 256);
  EXPECT_EQ(lists_searched(few, 1000).back(), 96);
  EXPECT_EQ(recall::list_sizes(100), (std::vector<std::int64_t>{8, 12, 16, 24, 32, 48, 64, 96}));
  EXPECT_EQ(recall::list_sizes(1000000).back(), recall::longest_list);
  EXPECT_TRUE(recall::list_sizes(7).empty());
}

// One of 100,000 that is missed: a recall of 0.9999 is certain.
TEST(Calibration, EndsWhereNearlyAllIsCertain) {
  const Dataset data = generate({.generator = Generator::gaussian, .rows = 2000, .dim = 8});
  const Neighbors exact = knn(data, data.view().slice(0, 1000), 100);
  std::int64_t last = 0;
  const auto search = [&](std::int64_t list, std::int64_t /*k*/) {
    last = list;
    Neighbors found = exact;
    for (std::size_t q = 0; q < (list < 192 ? 200U : 1U); ++q) {
      found.indices[100 * q + 99] = -1;
      std::get<0>(found.distances)[100 * q + 99] = std::numeric_limits<float>::infinity();
    }
    return found;
  };
  const recall::Measured measured = recall::measure(exact, std::vector<std::int64_t>{100}, 2000, search);
  EXPECT_EQ(last, 192);
  EXPECT_GE(measured.curve.points.back().recall.lower, 0.9999);
  EXPECT_LT(measured.curve.points.back().recall.recall, 1);
}

TEST(Difference, IsThatOfKolmogorovAndSmirnov) {
  const recall::Difference apart = recall::compare({1, 2, 3, 4}, {3, 4, 5, 6});
  EXPECT_DOUBLE_EQ(apart.largest, 0.5);
  EXPECT_DOUBLE_EQ(recall::compare({1, 1, 2}, {1, 1, 2}).largest, 0);
  EXPECT_DOUBLE_EQ(recall::compare({1, 2}, {3}).largest, 1);
  EXPECT_EQ(recall::compare({}, {3}).p_value, 1);
  EXPECT_EQ(recall::median({3, 1, 2}), 2);
  // Samples of one distribution are rarely called different, shifted ones always.
  conformance::Random random(3);
  int called = 0;
  for (int round = 0; round < 300; ++round) {
    std::vector<double> a, b, shifted;
    for (int i = 0; i < 200; ++i) a.push_back(random.uniform());
    for (int i = 0; i < 300; ++i) b.push_back(random.uniform());
    for (const double value : b) shifted.push_back(value + 0.3);
    called += recall::compare(a, b).p_value < 0.05 ? 1 : 0;
    EXPECT_LT(recall::compare(a, shifted).p_value, 1e-6);
  }
  EXPECT_LE(called, 26);
  EXPECT_GE(called, 5);
}

}  // namespace
}  // namespace kith
