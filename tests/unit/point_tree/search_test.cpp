// What the CPU's search does with queries that follow each other: keeps their order, guesses from the answers
// of one group how far those of the next may be, and begins walks below the root. None of it may show.
#include "point_tree/cpu/search.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "conformance/problem.hpp"
#include "core/instruction_set.hpp"
#include "kd_tree/cpu/build.hpp"
#include "kith/brute_force.hpp"
#include "kith/kd_tree.hpp"
#include "kith/octree.hpp"
#include "support/sanitizers.hpp"

namespace kith {
namespace {

using conformance::Random;

constexpr double infinity = std::numeric_limits<double>::infinity();

// Points of a surface in the order of scan lines of 100 points, whose distances grow by the line now and
// then, so that a query may reach hundreds of times farther than the one before it. Some rows are repeated.
template <class T>
std::vector<T> scan(std::int64_t rows, std::int64_t dim, std::uint64_t seed, double shift) {
  Random random(seed);
  std::vector<T> values;
  double across = shift;
  double step = 0.01;
  for (std::int64_t i = 0; i < rows; ++i) {
    if (i % 100 == 0) {
      across += step;
      step = random.below(4) == 0 ? 0.01 * std::pow(10.0, static_cast<double>(random.below(4))) : step;
    }
    const double along = static_cast<double>(i % 100) * step;
    if (i >= 100 && random.below(20) == 0) {
      values.insert(values.end(), values.end() - 7 * dim, values.end() - 6 * dim);
      continue;
    }
    for (std::int64_t j = 0; j < dim; ++j) {
      const double at = j == 0 ? along : j == 1 ? across : std::sin(across + static_cast<double>(j) * along);
      values.push_back(static_cast<T>(at + random.normal() * 0.1 * step));
    }
  }
  return values;
}

// Queries, and what brute force says of them; order[i] is the query that is asked as the i-th.
struct Asked {
  DatasetView queries;
  std::vector<std::int64_t> order;
  const Neighbors& all;

  // The answers of k neighbours within a radius are the heads of longer ones.
  void expect(const Neighbors& found, double radius = infinity) const {
    for (std::int64_t i = 0; i < queries.rows; ++i) {
      const std::int64_t q = order[static_cast<std::size_t>(i)];
      for (std::int64_t j = 0; j < found.k; ++j) {
        const bool there = all.distance(q, j) <= radius;
        ASSERT_EQ(found.indices_of(i)[static_cast<std::size_t>(j)],
                  there ? all.indices_of(q)[static_cast<std::size_t>(j)] : -1)
            << "query " << q << " rank " << j << " k " << found.k << " radius " << radius;
        ASSERT_EQ(found.distance(i, j), there ? all.distance(q, j) : infinity);
      }
    }
  }

  void expect(const PointTree& tree) const {
    for (const std::int64_t k : {1, 5, 20, 70}) expect(tree.search(queries, k));
    const double radius = all.distance(queries.rows / 3, 12);
    for (const std::int64_t k : {1, 30}) expect(tree.search(queries, k, {}, radius), radius);
    const auto counts = tree.count_within(queries, radius);
    for (std::size_t i = 0; i < counts.size(); ++i) {
      std::int64_t within = 0;
      while (within < all.k && all.distance(order[i], within) <= radius) ++within;
      ASSERT_EQ(std::min(counts[i], all.k), within) << "query " << order[i];
    }
  }
};

template <class T>
void expect_all_orders(std::int64_t dim, Metric metric) {
  constexpr std::int64_t asked = 2400;
  const std::vector<T> data = scan<T>(3000, dim, 1, 0);
  const DatasetView rows(data.data(), 3000, dim);
  // Another scan of the same place, one far away, and the same queries in no order.
  std::vector<T> scanned = scan<T>(asked / 2, dim, 2, 0);
  const std::vector<T> far = scan<T>(asked / 2, dim, 3, 1000);
  scanned.insert(scanned.end(), far.begin(), far.end());
  std::vector<std::int64_t> as_they_come, mixed;
  std::vector<T> shuffled;
  for (std::int64_t q = 0; q < asked; ++q) {
    as_they_come.push_back(q);
    mixed.push_back(q * 767 % asked);
    shuffled.insert(shuffled.end(), scanned.begin() + mixed.back() * dim,
                    scanned.begin() + (mixed.back() + 1) * dim);
  }
  const BruteForce index = BruteForce::build(rows, {metric});
  const Neighbors all = index.search(DatasetView(scanned.data(), asked, dim), 70);
  const Neighbors joined = index.search(rows, 7);
  for (const InstructionSet set : usable_instruction_sets()) {
    SCOPED_TRACE(std::string(name(set)) + " " + std::string(name(metric)));
    force_instruction_set(set);
    const KdTree tree = KdTree::build(rows, {metric, 4});
    Asked{DatasetView(scanned.data(), asked, dim), as_they_come, all}.expect(tree);
    Asked{DatasetView(shuffled.data(), asked, dim), mixed, all}.expect(tree);
    if (dim == 3) {
      Asked{DatasetView(scanned.data(), asked, dim), as_they_come, all}.expect(
          Octree::build(rows, {metric, 0}));
    }
    ASSERT_EQ(tree.all_knn(7, true).indices, joined.indices);
  }
  force_instruction_set(std::nullopt);
}

TEST(Search, QueriesThatFollowEachOtherGetTheAnswersOfBruteForce) {
  for (const Metric metric : {Metric::sqeuclidean, Metric::euclidean, Metric::manhattan}) {
    if (test::reduced() && metric == Metric::euclidean) continue;
    expect_all_orders<float>(2, metric);
    expect_all_orders<float>(3, metric);
    expect_all_orders<double>(3, metric);
    expect_all_orders<float>(5, metric);
  }
}

// 60,000 points of a unit square, and their tree.
class Order : public testing::Test {
 protected:
  void SetUp() override {
    for (float& v : points_) v = static_cast<float>(random_.uniform());
    tree_ = kd_tree::build(DatasetView(points_.data(), 60'000, 2), 8, {});
  }
  // Whether queries made by f(i) -> (x, y) stay as they come.
  template <class F>
  bool kept(std::int64_t count, const F& f) const {
    std::vector<float> values;
    for (std::int64_t i = 0; i < count; ++i) {
      const auto [x, y] = f(i);
      values.push_back(static_cast<float>(x));
      values.push_back(static_cast<float>(y));
    }
    return point_tree::follow_each_other(tree_, DatasetView(values.data(), count, 2));
  }

  Random random_{7};
  std::vector<float> points_ = std::vector<float>(120'000);
  point_tree::Tree tree_;
};

using Pair = std::pair<double, double>;

// The i-th of 40,000 places in a square, line by line; `mixed` in no order.
Pair grid(std::int64_t i, double from = 0, double side = 1) {
  const std::int64_t line = i / 200;
  return {from + side * static_cast<double>(i % 200) / 200, from + side * static_cast<double>(line) / 200};
}
Pair mixed(std::int64_t i, double from = 0, double side = 1) {
  return grid(i * 7919 % 40'000, from, side);
}

TEST_F(Order, ScansStayAsTheyCome) {
  EXPECT_TRUE(kept(40'000, [](std::int64_t i) { return grid(i); }));
  EXPECT_TRUE(kept(40'000, [](std::int64_t i) { return grid(i, 50); })) << "far away from all points";
}

TEST_F(Order, WhatJumpsIsSorted) {
  EXPECT_FALSE(kept(40'000, [](std::int64_t i) { return mixed(i); }));
  EXPECT_FALSE(kept(40'000, [](std::int64_t i) { return Pair(static_cast<double>(i % 2), 0.5); }));
  EXPECT_FALSE(kept(40'000, [](std::int64_t i) { return i < 8000 ? Pair(0.5, 0.5) : mixed(i); }))
      << "in few of the runs queries follow each other";
  EXPECT_FALSE(kept(40'000, [](std::int64_t) { return Pair(std::nan(""), 0.5); }));
  EXPECT_FALSE(kept(1000, [](std::int64_t) { return Pair(0.5, 0.5); })) << "too few to look at";
}

// Cells of equal size would hold all of these queries; nodes are smaller where points are many.
TEST_F(Order, WhatIsNearDependsOnTheDensity) {
  points_[0] = points_[1] = 1e6F;
  tree_ = kd_tree::build(DatasetView(points_.data(), 60'000, 2), 8, {});
  EXPECT_FALSE(kept(40'000, [](std::int64_t i) { return mixed(i); }));
  EXPECT_TRUE(kept(40'000, [](std::int64_t i) { return mixed(i, 0.5, 1e-4); }));
}

TEST_F(Order, InSmallTreesAllIsNear) {
  tree_ = kd_tree::build(DatasetView(points_.data(), 200, 2), 8, {});
  EXPECT_FALSE(kept(40'000, [](std::int64_t) { return Pair(0.5, 0.5); }));
}

// Unsorted queries with a NaN or an infinity are still answered apart.
TEST_F(Order, WhatIsNotFiniteLeavesTheScan) {
  std::vector<float> scan;
  for (std::int64_t i = 0; i < 20'000; ++i) {
    scan.push_back(static_cast<float>(i % 200) / 200);
    scan.push_back(static_cast<float>(i) / 20'000);
  }
  scan[2 * 77] = std::numeric_limits<float>::quiet_NaN();
  scan[2 * 19'999] = std::numeric_limits<float>::infinity();
  scan[2 * 20'000 - 3] = -std::numeric_limits<float>::infinity();
  const DatasetView queries(scan.data(), 20'000, 2);
  const DatasetView rows(points_.data(), 2000, 2);
  ASSERT_TRUE(point_tree::follow_each_other(kd_tree::build(rows, 1, {}), queries));
  const KdTree tree = KdTree::build(rows, {Metric::sqeuclidean, 1});
  const Neighbors found = tree.search(queries, 3);
  const Neighbors want = BruteForce::build(rows).search(queries, 3);
  EXPECT_EQ(found.indices, want.indices);
  EXPECT_EQ(found.distances, want.distances);
  EXPECT_EQ(found.statistics.nan_queries, 1);
}

}  // namespace
}  // namespace kith
