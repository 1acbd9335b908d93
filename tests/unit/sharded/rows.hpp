// Rows for tests of shards, and answers compared bit by bit.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <variant>
#include <vector>

#include "conformance/problem.hpp"
#include "kith/neighbors.hpp"
#include "kith/sharded.hpp"

namespace kith::test {

/// Points of a coarse grid: many are equal, and as many distances.
inline std::vector<float> grid(std::int64_t rows, std::int64_t dim, std::uint64_t seed) {
  conformance::Random random(seed);
  std::vector<float> values;
  for (std::int64_t i = 0; i < rows * dim; ++i) values.push_back(static_cast<float>(random.below(5)));
  return values;
}

/// Values of a bell, no two rows alike.
inline std::vector<float> bell(std::int64_t rows, std::int64_t dim, std::uint64_t seed) {
  conformance::Random random(seed);
  std::vector<float> values;
  for (std::int64_t i = 0; i < rows * dim; ++i) values.push_back(static_cast<float>(random.normal()));
  return values;
}

template <class Answer>
bool same_distances(const Answer& a, const Answer& b) {
  return std::visit(
      [&](const auto& values) {
        using Values = std::decay_t<decltype(values)>;
        const auto* others = std::get_if<Values>(&b.distances);
        return others != nullptr && others->size() == values.size() &&
               (values.empty() ||
                std::memcmp(values.data(), others->data(), values.size() * sizeof(values[0])) == 0);
      },
      a.distances);
}

inline void expect_same(const Neighbors& found, const Neighbors& expected, const std::string& where) {
  EXPECT_EQ(found.queries, expected.queries) << where;
  EXPECT_EQ(found.k, expected.k) << where;
  EXPECT_EQ(found.indices, expected.indices) << where;
  EXPECT_TRUE(same_distances(found, expected)) << where;
}

inline void expect_same(const RadiusNeighbors& found, const RadiusNeighbors& expected,
                        const std::string& where) {
  EXPECT_EQ(found.offsets, expected.offsets) << where;
  EXPECT_EQ(found.indices, expected.indices) << where;
  EXPECT_TRUE(same_distances(found, expected)) << where;
}

}  // namespace kith::test
