// The k-lists in registers, and the planes that are fitted side by side, on every instruction set: data for
// which keys of upper bits do not tell distances apart, and for which a list meets more candidates than it
// can hold.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include <gtest/gtest.h>

#include "conformance/problem.hpp"
#include "core/instruction_set.hpp"
#include "kith/brute_force.hpp"
#include "kith/kd_tree.hpp"

namespace kith {
namespace {

using conformance::Random;

template <class F>
void on_every_instruction_set(const F& f) {
  for (const InstructionSet set : usable_instruction_sets()) {
    SCOPED_TRACE(std::string(name(set)));
    force_instruction_set(set);
    f();
  }
  force_instruction_set(std::nullopt);
}

template <class T>
void expect_answers_of_brute_force(const std::vector<T>& data, const std::vector<T>& asked, std::int64_t dim,
                                   std::int64_t leaf_size) {
  const DatasetView rows(data.data(), static_cast<std::int64_t>(data.size()) / dim, dim);
  const DatasetView queries(asked.data(), static_cast<std::int64_t>(asked.size()) / dim, dim);
  for (const Metric metric : {Metric::sqeuclidean, Metric::euclidean, Metric::manhattan}) {
    const BruteForce exact = BruteForce::build(rows, {metric});
    for (const std::int64_t k : {1, 2, 8, 9, 16, 24, 31, 64, 65}) {
      const Neighbors wanted = exact.search(queries, k);
      on_every_instruction_set([&] {
        const KdTree tree = KdTree::build(rows, {metric, leaf_size});
        const Neighbors found = tree.search(queries, k);
        EXPECT_EQ(found.indices, wanted.indices) << name(metric) << " k " << k;
        EXPECT_EQ(found.distances, wanted.distances) << name(metric) << " k " << k;
        if (queries.data == rows.data) {
          const Neighbors self = tree.all_knn(k, true);
          EXPECT_EQ(self.indices, wanted.indices) << name(metric) << " k " << k;
        }
      });
    }
  }
}

TEST(PackedLists, DistancesThatDifferInTheirLastBitsAlone) {
  Random random(3);
  std::vector<double> data;
  for (int i = 0; i < 400; ++i) {  // a shell of radius 1: the distances of its points agree in most bits
    double x[3];
    double length = 0;
    for (double& v : x) {
      v = random.normal();
      length += v * v;
    }
    for (const double v : x) data.push_back(v / std::sqrt(length));
  }
  const std::vector<double> asked = {0, 0, 0, 1e-16, 0, 0, 1e-9, 1e-9, 1e-9, 0.5, 0, 0};
  expect_answers_of_brute_force(data, asked, 3, 0);
  expect_answers_of_brute_force(data, asked, 3, 512);
}

TEST(PackedLists, Lattices) {
  std::vector<double> data;
  for (int i = 0; i < 512; ++i) {
    data.insert(data.end(),
                {static_cast<double>(i % 8), static_cast<double>(i / 8 % 8), static_cast<double>(i / 64)});
  }
  expect_answers_of_brute_force(data, data, 3, 0);
  expect_answers_of_brute_force(std::vector<float>(data.begin(), data.end()),
                                std::vector<float>(data.begin(), data.end()), 3, 0);
}

// One leaf whose points come nearer and nearer, so that each is a candidate; and all at few distances.
TEST(PackedLists, MoreCandidatesThanAListHolds) {
  for (const double steps : {1e9, 7.0, 1.0}) {
    std::vector<double> data;
    for (int i = 0; i < 3000; ++i) {
      const double at = std::ceil((3000.0 - i) / 3000 * steps) / steps;
      data.insert(data.end(), {at, at / 2, -at});
    }
    const std::vector<double> asked = {0, 0, 0, -1, 0, 0, 2, 1, -2};
    expect_answers_of_brute_force(data, asked, 3, 4096);
    expect_answers_of_brute_force(std::vector<float>(data.begin(), data.end()), {0, 0, 0, -1, 0, 0, 2, 1, -2},
                                  3, 4096);
    expect_answers_of_brute_force(data, {0, 0, -1, 0.5}, 2, 4096);
  }
}

TEST(PackedLists, RowsThatAreAllTheSame) {
  std::vector<double> data(3 * 1000, 1.5);
  data.insert(data.end(), {0, 0, 0, 1.5, 1.5, 1.4, 9, 9, 9});
  expect_answers_of_brute_force(data, {1.5, 1.5, 1.5, 0, 0, 0, 1.5, 1.5, 1.4}, 3, 0);
}

// Queries in groups, which look at the points near them all: too many in one place, equal ones, and lattices
// whose distances agree as floats where sums of floats do not. Among doubles, too, points that their offsets
// as floats tell apart in the wrong order or not at all, squares that underflow, and boxes too large for
// floats.
template <class T, int D>
std::vector<T> crowds() {
  constexpr bool wide = std::is_same_v<T, double>;
  Random random(11);
  std::vector<T> data;
  const auto add = [&](int count, T at, T size, T step) {
    for (int i = 0; i < count; ++i) {
      for (int j = 0; j < D; ++j) {
        const double v = static_cast<double>(size) * random.normal();
        const double stepped = static_cast<double>(step) * std::round(v / static_cast<double>(step));
        data.push_back(at + static_cast<T>(step > 0 ? stepped : v));
      }
    }
  };
  add(900, 0, 1, 0);
  add(1300, 1, T(1e-3), 0);
  add(900, T(1000.3), 1, T(0.1));
  add(600, -7, 0, 0);
  add(200, 5, 0, 0);
  for (const double tiny : {1e-18, 1e-22, 1e-30, 1e-40}) add(150, 0, static_cast<T>(tiny), 0);
  if (wide) {
    for (const double tiny : {1e-155, 1e-162, 1e-170, 1e-310}) add(150, 0, static_cast<T>(tiny), 0);
    add(400, T(4e6), T(1e-8), T(0x1p-30));
    // Sums of squares that overflow as floats, and offsets that do.
    for (const double size : {1e20, 1e40}) {
      add(300, static_cast<T>(-100 * size), static_cast<T>(size), 0);
    }
    for (int i = 0; i < 200; ++i) {
      T at[D];
      for (T& v : at) v = static_cast<T>(40 + random.normal());
      for (int n = 0; n < 6; ++n) {
        for (const T v : at) data.push_back(v + static_cast<T>(1e-8 * random.normal()));
      }
    }
  }
  return data;
}

// The first k of each query's answers.
template <class V>
std::vector<V> first_of(const std::vector<V>& answers, std::int64_t of, std::int64_t k) {
  std::vector<V> first;
  for (auto at = answers.begin(); at != answers.end(); at += of) first.insert(first.end(), at, at + k);
  return first;
}

template <class T, int D>
void expect_groups_to_agree(Metric metric) {
  const std::vector<T> data = crowds<T, D>();
  const DatasetView rows(data.data(), static_cast<std::int64_t>(data.size()) / D, D);
  constexpr std::int64_t most = 64;
  const Neighbors all = BruteForce::build(rows, {metric}).search(rows, most);
  for (const std::int64_t k : {std::int64_t{1}, std::int64_t{2}, std::int64_t{5}, std::int64_t{8},
                               std::int64_t{9}, std::int64_t{16}, std::int64_t{24}, std::int64_t{33}, most}) {
    const auto indices = first_of(all.indices, most, k);
    const auto distances = first_of(std::get<std::vector<T>>(all.distances), most, k);
    force_instruction_set(InstructionSet::portable);
    const Neighbors without_self = KdTree::build(rows, {metric}).all_knn(k, false);
    constexpr double radius = 0.1;
    Neighbors within = without_self;
    auto& distances_within = std::get<std::vector<T>>(within.distances);
    for (std::size_t i = 0; i < distances_within.size(); ++i) {
      if (static_cast<double>(distances_within[i]) <= radius) continue;
      within.indices[i] = -1;
      distances_within[i] = std::numeric_limits<T>::infinity();
    }
    on_every_instruction_set([&] {
      const KdTree tree = KdTree::build(rows, {metric});
      const Neighbors found = tree.search(rows, k);
      EXPECT_EQ(found.indices, indices) << name(metric) << " k " << k;
      EXPECT_EQ(std::get<std::vector<T>>(found.distances), distances) << name(metric) << " k " << k;
      const Neighbors others = tree.all_knn(k, false);
      EXPECT_EQ(others.indices, without_self.indices) << name(metric) << " k " << k;
      EXPECT_EQ(others.distances, without_self.distances) << name(metric) << " k " << k;
      // The radius is the bound, and no walk from the root makes good what is missed.
      const Neighbors limited = tree.all_knn(k, false, {}, radius);
      EXPECT_EQ(limited.indices, within.indices) << name(metric) << " k " << k;
      EXPECT_EQ(limited.distances, within.distances) << name(metric) << " k " << k;
    });
  }
}

// All within a radius, their number, and the nearest of them, by groups again.
template <class T, int D>
void expect_groups_to_find_all(Metric metric) {
  const std::vector<T> data = crowds<T, D>();
  const DatasetView rows(data.data(), static_cast<std::int64_t>(data.size()) / D, D);
  const DatasetView queries(data.data(), rows.rows / 32, D, std::int64_t{32} * D);
  const Neighbors all = BruteForce::build(rows, {metric}).search(queries, rows.rows);
  const auto& distances = std::get<std::vector<T>>(all.distances);
  for (const T radius : {T(0), T(1e-30), T(1e-16), T(1e-3), T(0.1), T(0.2)}) {
    on_every_instruction_set([&] {
      const KdTree tree = KdTree::build(rows, {metric});
      const std::vector<std::int64_t> counts = tree.count_within(queries, radius);
      const RadiusNeighbors found = tree.radius_search(queries, radius);
      const Neighbors nearest = tree.search(queries, 8, {}, radius);
      for (std::int64_t q = 0; q < queries.rows; ++q) {
        const auto first = distances.begin() + q * rows.rows;
        const auto within = std::upper_bound(first, first + rows.rows, radius) - first;
        ASSERT_EQ(counts[static_cast<std::size_t>(q)], within) << name(metric) << " radius " << radius;
        ASSERT_EQ(static_cast<std::int64_t>(found.indices_of(q).size()), within);
        for (std::int64_t i = 0; i < within; ++i) {
          ASSERT_EQ(found.indices_of(q)[static_cast<std::size_t>(i)],
                    all.indices[static_cast<std::size_t>(q * rows.rows + i)]);
        }
        for (std::int64_t i = 0; i < 8; ++i) {
          const std::int64_t wanted =
              i < within ? all.indices[static_cast<std::size_t>(q * rows.rows + i)] : -1;
          ASSERT_EQ(nearest.indices_of(q)[static_cast<std::size_t>(i)], wanted);
        }
      }
    });
    if (testing::Test::HasFatalFailure()) return;
  }
}

TEST(PackedLists, GroupsThatLookAtThePointsNearThem) {
  for (const Metric metric : {Metric::sqeuclidean, Metric::euclidean}) {
    expect_groups_to_agree<float, 2>(metric);
    expect_groups_to_agree<float, 3>(metric);
    expect_groups_to_agree<double, 2>(metric);
    expect_groups_to_agree<double, 3>(metric);
    expect_groups_to_find_all<float, 2>(metric);
    expect_groups_to_find_all<float, 3>(metric);
    expect_groups_to_find_all<double, 2>(metric);
    expect_groups_to_find_all<double, 3>(metric);
  }
}

TEST(PackedLists, DistancesWithoutEnd) {
  const double far = 1e300;
  const std::vector<double> data = {far, far, far, -far, 0, 0, 1, 2, 3, -far, -far, far, 0, 0, 0, 4, 4, 4};
  expect_answers_of_brute_force(data, data, 3, 0);
}

// Crowds whose true distances are finite but whose squares overflow: such rows are at +inf and come by row
// number, however near the neighbours of the query before were.
TEST(PackedLists, SquaresThatOverflow) {
  for (const std::int64_t dim : {2, 3}) {
    std::vector<double> data;
    const auto add = [&](int count, double x) {
      for (int i = 0; i < count; ++i) {
        data.push_back(x);
        for (std::int64_t j = 1; j < dim; ++j) data.push_back(1e140 * i);
      }
    };
    add(10, 1e153);
    add(10, -1e153);
    add(30, 1.3e154);
    expect_answers_of_brute_force(data, data, dim, 0);
    expect_answers_of_brute_force(data, data, dim, 4);
  }
}

// Normals and curvature of all rows, as the plain code finds them.
template <class T>
void expect_plain_normals(const std::vector<T>& data, std::int64_t k) {
  const DatasetView rows(data.data(), static_cast<std::int64_t>(data.size()) / 3, 3);
  for (const bool viewed : {false, true}) {
    const std::optional<std::vector<double>> viewpoint =
        viewed ? std::optional(std::vector<double>{1, 2, 30}) : std::nullopt;
    force_instruction_set(InstructionSet::portable);
    const Normals plain = KdTree::build(rows).normals({k}, viewpoint);
    on_every_instruction_set([&] {
      const Normals found = KdTree::build(rows).normals({k}, viewpoint);
      const auto same = [](const std::vector<double>& a, const std::vector<double>& b) {
        return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(double)) == 0;
      };
      EXPECT_TRUE(same(found.normals, plain.normals)) << "k " << k << " viewpoint " << viewed;
      EXPECT_TRUE(same(found.curvature, plain.curvature)) << "k " << k << " viewpoint " << viewed;
    });
  }
}

TEST(Planes, SideBySideAreThoseOfOneAtATime) {
  Random random(11);
  for (const double scale : {1.0, 1e-3, 1e100, 1e-170, 1e-310, 1e154, 8e307}) {
    SCOPED_TRACE(scale);
    std::vector<double> data;
    for (int i = 0; i < 333; ++i) {  // not a multiple of any register
      const double x = random.uniform();
      const double y = random.uniform();
      for (const double v : {x, y, 0.1 * std::sin(9 * x) + 1e-3 * random.normal()}) data.push_back(scale * v);
    }
    for (const std::int64_t k : {1, 2, 3, 4, 16, 400}) expect_plain_normals(data, k);
    if (scale > 1e-4 && scale < 1e3) {
      for (const std::int64_t k : {3, 16})
        expect_plain_normals(std::vector<float>(data.begin(), data.end()), k);
    }
  }
}

TEST(Planes, WhatHasNoPlaneOrManyOfThem) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  std::vector<double> data;
  for (int i = 0; i < 40; ++i) data.insert(data.end(), {static_cast<double>(i), 0, 0});  // a line
  for (int i = 0; i < 40; ++i) data.insert(data.end(), {5, 5, 5});                       // a point
  for (int i = 0; i < 27; ++i) {  // a cube: three equal variances
    data.insert(data.end(), {100.0 + i % 3, 100.0 + i / 3 % 3, 100.0 + static_cast<double>(i / 9)});
  }
  data.insert(data.end(), {std::nan(""), 0, 0, infinity, 0, 0, 1, -infinity, 2});
  for (const std::int64_t k : {3, 7, 27, 200}) expect_plain_normals(data, k);
  expect_plain_normals(std::vector<double>{0, 0, 0, 1, 0, 0}, 5);
}

}  // namespace
}  // namespace kith
