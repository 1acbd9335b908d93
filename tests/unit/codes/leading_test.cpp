// Leading directions: those that hold the variance, orthonormal, the same on every instruction set.
#include "codes/leading.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "conformance/problem.hpp"
#include "core/instruction_set.hpp"
#include "support/instruction_sets.hpp"

namespace kith::codes {
namespace {

using test::Forced;

constexpr std::int64_t dim = 96;

// Independent values whose standard deviations are `deviations`, in directions that are not the axes: value
// 2 j and value 2 j + 1 are rotated by 45 degrees.
std::vector<double> rows_with(const std::vector<double>& deviations, std::int64_t count) {
  conformance::Random random(3);
  std::vector<double> rows(static_cast<std::size_t>(count * dim));
  for (std::size_t i = 0; i < rows.size(); i += 2) {
    const std::size_t j = i % dim;
    const auto value = [&](std::size_t which) {
      double sum = 0;
      for (int n = 0; n < 12; ++n) sum += static_cast<double>(random.below(1U << 20U)) / (1U << 20U);
      return (sum - 6) * deviations[which];
    };
    const double a = value(j), b = value(j + 1);
    rows[i] = (a - b) * M_SQRT1_2;
    rows[i + 1] = (a + b) * M_SQRT1_2;
  }
  return rows;
}

double scalar_product(const LeadingDirections& found, std::int64_t a, std::int64_t b) {
  double sum = 0;
  for (std::int64_t i = 0; i < dim; ++i) {
    sum += double{found.map[static_cast<std::size_t>(i * found.count + a)]} *
           found.map[static_cast<std::size_t>(i * found.count + b)];
  }
  return sum;
}

TEST(LeadingDirections, HoldTheVarianceAndAreOrthonormal) {
  std::vector<double> deviations(dim, 0.01);
  std::fill_n(deviations.begin() + 10, 30, 2.0);  // across the blocks of 32
  const std::vector<double> rows = rows_with(deviations, 1500);
  const LeadingDirections found = leading_directions(rows, dim, {.share = 0.95, .most = dim}, {});
  ASSERT_EQ(found.count, 32);
  EXPECT_GT(found.share, 0.999);
  for (std::int64_t a = 0; a < found.count; ++a) {
    for (std::int64_t b = 0; b <= a; ++b) EXPECT_NEAR(scalar_product(found, a, b), a == b ? 1 : 0, 1e-5);
  }
  // Lengths of rows are kept but for what lies outside; and no direction has much more than the others.
  std::vector<double> held(32, 0.0);
  for (std::int64_t r = 0; r < 1500; ++r) {
    double whole = 0, projected = 0;
    for (std::int64_t i = 0; i < dim; ++i) whole += std::pow(rows[static_cast<std::size_t>(r * dim + i)], 2);
    for (std::int64_t j = 0; j < 32; ++j) {
      double z = 0;
      for (std::int64_t i = 0; i < dim; ++i) {
        z += rows[static_cast<std::size_t>(r * dim + i)] * found.map[static_cast<std::size_t>(i * 32 + j)];
      }
      projected += z * z;
      held[static_cast<std::size_t>(j)] += z * z;
    }
    EXPECT_NEAR(projected / whole, 1, 1e-2);
  }
  const double all = std::accumulate(held.begin(), held.end(), 0.0);
  for (const double one : held) EXPECT_LT(one, 2 * all / 32);
}

TEST(LeadingDirections, AreAsManyAsAreAskedForOrNone) {
  const std::vector<double> rows = rows_with(std::vector<double>(dim, 1.0), 500);
  EXPECT_EQ(leading_directions(rows, dim, {.share = 0.95, .most = 64}, {}).count, 0);  // all hold as much
  EXPECT_EQ(leading_directions(rows, dim, {.count = 64}, {}).count, 64);
  EXPECT_EQ(leading_directions(rows, dim, {.share = 0.5, .most = 64}, {}).count, 64);
  EXPECT_EQ(leading_directions({}, dim, {.count = 64}, {}).count, 0);
  EXPECT_EQ(leading_directions(std::vector<double>(dim * 10, 0.0), dim, {.count = 64}, {}).count, 0);
}

// Rows in one direction alone: the other directions are none at all, and nothing is divided by zero.
TEST(LeadingDirections, OfRowsOnALineAreOne) {
  std::vector<double> deviations(dim, 0.0);
  deviations[7] = 1e-100;
  std::vector<double> rows = rows_with(deviations, 100);
  rows[5] = std::numeric_limits<double>::infinity();  // its row is left out
  const LeadingDirections found = leading_directions(rows, dim, {.share = 0.99, .most = dim}, {});
  ASSERT_EQ(found.count, 32);
  EXPECT_NEAR(found.share, 1, 1e-9);
  for (const float value : found.map) EXPECT_TRUE(std::isfinite(value));
}

TEST(LeadingDirections, AreTheSameOnEveryInstructionSetAndFromAnyThreads) {
  std::vector<double> deviations(dim);
  for (std::size_t i = 0; i < deviations.size(); ++i) deviations[i] = std::exp(-static_cast<double>(i) / 20);
  const std::vector<double> rows = rows_with(deviations, 700);
  Execution one;
  one.threads = 1;
  const LeadingDirections expected = leading_directions(rows, dim, {.share = 0.9, .most = dim}, one);
  ASSERT_GT(expected.count, 0);
  for (const InstructionSet set : usable_instruction_sets()) {
    const Forced forced(set);
    Execution many;
    many.threads = 3;
    const LeadingDirections found = leading_directions(rows, dim, {.share = 0.9, .most = dim}, many);
    EXPECT_EQ(found.map, expected.map) << name(set);
    EXPECT_EQ(found.share, expected.share) << name(set);
  }
}

}  // namespace
}  // namespace kith::codes
