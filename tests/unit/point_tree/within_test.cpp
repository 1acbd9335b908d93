// What is within a radius: under memory limits, in parts, and given up midway.
#include <gtest/gtest.h>

#include <atomic>
#include <limits>
#include <string>
#include <variant>
#include <vector>

#include "conformance/problem.hpp"
#include "kith/error.hpp"
#include "kith/kd_tree.hpp"
#include "kith/octree.hpp"
#include "reference/oracle.hpp"
#include "support/errors.hpp"

namespace kith {
namespace {

using conformance::Random;
using conformance::Rows;
using reference::Matrix;
using test::contains;
using test::message_of;

constexpr double infinity = std::numeric_limits<double>::infinity();

Matrix cloud(std::int64_t rows, std::uint64_t seed) {
  Random random(seed);
  Matrix data{rows, 3, std::vector<double>(static_cast<std::size_t>(rows * 3))};
  for (double& value : data.values) value = random.uniform();
  return data;
}

void expect_same(const RadiusNeighbors& a, const RadiusNeighbors& b) {
  EXPECT_EQ(a.queries, b.queries);
  EXPECT_EQ(a.offsets, b.offsets);
  EXPECT_EQ(a.indices, b.indices);
  EXPECT_EQ(a.distances, b.distances);
}

// The answer takes 12 or 16 bytes a neighbour; what tasks find is held beside it, where there is room.
TEST(Within, TightMemoryGivesTheSameAnswer) {
  const Matrix data = cloud(6000, 3);
  for (const Dtype dtype : {Dtype::f32, Dtype::f64}) {
    const Rows rows(data, dtype);
    const KdTree tree = KdTree::build(rows.view());
    const RadiusNeighbors want = tree.radius_search(rows.view(), 0.1);
    const auto answer = want.indices.size() * (dtype == Dtype::f64 ? 16 : 12);
    ASSERT_GT(answer, 4U << 20U);
    Execution tight;
    // So many threads that there is no room for a list of each are fewer in the end.
    for (const auto& [share, threads] : {std::pair(1.3, 2), {1.3, 16}, {2.0, 2}, {4.0, 2}}) {
      tight.threads = threads;
      tight.memory_limit = static_cast<std::uint64_t>(share * static_cast<double>(answer));
      expect_same(tree.radius_search(rows.view(), 0.1, {}, tight), want);
    }
    RadiusOptions unsorted;
    unsorted.sorted = false;
    tight.memory_limit = static_cast<std::uint64_t>(1.3 * static_cast<double>(answer));
    const RadiusNeighbors loose = tree.radius_search(rows.view(), 0.1, unsorted, tight);
    EXPECT_EQ(loose.offsets, want.offsets);
    tight.memory_limit = answer / 2;
    const std::string message =
        message_of<OutOfMemory>([&] { (void)tree.radius_search(rows.view(), 0.1, {}, tight); });
    EXPECT_TRUE(contains(message, "neighbours found so far")) << message;
    EXPECT_TRUE(contains(message, std::to_string(tight.memory_limit))) << message;
    EXPECT_TRUE(contains(message, "use a smaller radius")) << message;
  }
}

// More neighbours than a task collects before they are taken from it.
TEST(Within, AllOfManyRows) {
  const Matrix data = cloud(30'000, 5);
  const Rows rows(data, Dtype::f32);
  const Octree tree = Octree::build(rows.view());
  const DatasetView few = rows.view().slice(0, 9);
  const RadiusNeighbors all = tree.radius_search(few, 1e9);
  ASSERT_EQ(all.offsets.back(), 9 * 30'000);
  const Neighbors want = tree.search(few, 30'000);
  EXPECT_EQ(all.indices, want.indices);
  EXPECT_EQ(std::get<0>(all.distances), std::get<0>(want.distances));
  EXPECT_EQ(tree.count_within(few, 1e9), std::vector<std::int64_t>(9, 30'000));
}

TEST(Within, NeighborhoodsOfAllRows) {
  const Matrix data = cloud(3000, 6);
  const Rows rows(data, Dtype::f32);
  const KdTree tree = KdTree::build(rows.view());
  const Outliers by_radius = tree.outliers({0, 1e9}, 2);
  const Outliers by_k = tree.outliers({2999}, 2);
  EXPECT_EQ(by_radius.mean_distance, by_k.mean_distance);
  Execution tight;
  tight.memory_limit = 40'000;  // the means fit, and not a list of all rows
  EXPECT_TRUE(contains(message_of<OutOfMemory>([&] { (void)tree.outliers({0, 1e9}, 2, tight); }), "40000"));
}

TEST(Within, RowsWithInfinitiesComeToEveryPart) {
  Matrix data = cloud(20'000, 7);
  for (const std::int64_t row : {17, 4000, 19'999}) data.values[static_cast<std::size_t>(row * 3)] = infinity;
  const Rows rows(data, Dtype::f64);
  const KdTree tree = KdTree::build(rows.view());
  const RadiusNeighbors all = tree.radius_search(rows.view().slice(100, 30), infinity);
  for (std::int64_t q = 0; q < 30; ++q) {
    const auto found = all.indices_of(q);
    ASSERT_EQ(found.size(), 20'000U);
    EXPECT_EQ(found[19'997], 17);
    EXPECT_EQ(found[19'999], 19'999);
  }
}

TEST(Within, NearestOfThoseWithinComeFromTheSameLists) {
  const Matrix data = cloud(5000, 9);
  const Rows rows(data, Dtype::f32);
  const KdTree tree = KdTree::build(rows.view());
  const RadiusNeighbors all = tree.radius_search(rows.view(), 0.05);
  RadiusOptions most;
  most.max_neighbors = 3;
  const RadiusNeighbors near = tree.radius_search(rows.view(), 0.05, most);
  for (std::int64_t q = 0; q < 5000; ++q) {
    const auto want = all.indices_of(q);
    const auto found = near.indices_of(q);
    ASSERT_EQ(found.size(), std::min<std::size_t>(3, want.size()));
    for (std::size_t i = 0; i < found.size(); ++i) {
      EXPECT_EQ(found[i], want[i]);
      EXPECT_EQ(near.distance(q, static_cast<std::int64_t>(i)),
                all.distance(q, static_cast<std::int64_t>(i)));
    }
  }
}

// A few queries that have much to do each: the callback is asked again and again within one of them.
TEST(Within, OneQueryIsStoppedMidway) {
  const Matrix data = cloud(400'000, 11);
  const Rows rows(data, Dtype::f32);
  const KdTree tree = KdTree::build(rows.view());
  const DatasetView one = rows.view().slice(0, 1);
  const auto polls_of = [&](const auto& work) {
    std::atomic<std::int64_t> polls{0};
    Execution counting;
    counting.threads = 1;
    counting.cancelled = [&] {
      ++polls;
      return false;
    };
    work(counting);
    const std::int64_t all = polls;
    // Stopped at the middle one.
    polls = 0;
    Execution stopping;
    stopping.threads = 1;
    stopping.cancelled = [&] { return ++polls > all / 2; };
    EXPECT_THROW(work(stopping), Cancelled);
    return all;
  };
  EXPECT_GT(polls_of([&](const Execution& how) { (void)tree.radius_search(one, 1e9, {}, how); }), 4);
  EXPECT_GT(polls_of([&](const Execution& how) { (void)tree.count_within(one, 1e9, how); }), 4);
  EXPECT_GT(polls_of([&](const Execution& how) { (void)tree.search(one, 200'000, how); }), 4);
}

}  // namespace
}  // namespace kith
