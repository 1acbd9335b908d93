// Random rotations: orthogonal, undone by their inverse, and near to any rotation in what they do to a row.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "codes/rotation.hpp"
#include "conformance/problem.hpp"

namespace kith::codes {
namespace {

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

TEST(Rotation, KeepsProductsAndIsUndone) {
  for (const std::int64_t dim : {1, 2, 3, 5, 31, 32, 96, 100, 128, 224, 1000}) {
    const Rotation rotation(dim, 7);
    conformance::Random random(static_cast<std::uint64_t>(dim));
    std::vector<double> a(static_cast<std::size_t>(dim)), b = a, scratch = a;
    for (double& value : a) value = static_cast<double>(random.below(1000)) / 100 - 5;
    for (double& value : b) value = static_cast<double>(random.below(1000)) / 100 - 5;
    std::vector<double> turned_a = a, turned_b = b;
    rotation.apply(turned_a.data(), scratch.data());
    rotation.apply(turned_b.data(), scratch.data());
    const double room = 1e-12 * std::sqrt(dot(a, a) * dot(b, b)) + 1e-12;
    EXPECT_NEAR(dot(turned_a, turned_b), dot(a, b), room) << dim;
    EXPECT_NEAR(dot(turned_a, turned_a), dot(a, a), room) << dim;
    rotation.invert(turned_a.data(), scratch.data());
    for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(turned_a[i], a[i], 1e-12) << dim;
  }
}

// One value of a row rotated by many rotations has the moments of a coordinate of a random unit vector: mean
// 0, variance 1/d, fourth moment 3 / (d (d + 2)). Rows with one value, with all values equal, with
// alternating ones: those that a single transform would leave as it makes them.
TEST(Rotation, SpreadsAnyRow) {
  constexpr int seeds = 400;
  for (const std::int64_t dim : {64, 96, 224}) {
    const auto size = static_cast<std::size_t>(dim);
    for (int kind = 0; kind < 4; ++kind) {
      std::vector<double> row(size, 0.0);
      for (std::size_t i = 0; i < size; ++i) {
        row[i] = kind == 0   ? (i == 0 ? 1 : 0)
                 : kind == 1 ? (i + 1 == size ? 1 : 0)
                 : kind == 2 ? 1
                             : (i % 2 ? 1 : -1);
      }
      const double norm = std::sqrt(dot(row, row));
      for (double& value : row) value /= norm;
      // Of the first and the last place apart: no place may be reached less.
      for (const std::size_t place : {std::size_t{0}, size / 2, size - 1}) {
        double sum = 0, square = 0, fourth = 0;
        for (int seed = 0; seed < seeds; ++seed) {
          std::vector<double> rotated = row, scratch = row;
          Rotation(dim, static_cast<std::uint64_t>(seed)).apply(rotated.data(), scratch.data());
          const double value = rotated[place] * std::sqrt(static_cast<double>(dim));
          sum += value;
          square += value * value;
          fourth += value * value * value * value;
        }
        const double d = static_cast<double>(dim);
        // Five standard errors.
        EXPECT_LT(std::abs(sum / seeds), 5 / std::sqrt(seeds)) << dim << " " << kind;
        EXPECT_NEAR(square / seeds, 1, 5 * std::sqrt(2.0 / seeds)) << dim << " " << kind;
        EXPECT_NEAR(fourth / seeds, 3 * d / (d + 2), 5 * std::sqrt(96.0 / seeds)) << dim << " " << kind;
      }
    }
  }
}

TEST(Rotation, FollowsTheSeed) {
  std::vector<double> a(40, 1.0), b = a, c = a, scratch = a;
  Rotation(40, 1).apply(a.data(), scratch.data());
  Rotation(40, 1).apply(b.data(), scratch.data());
  Rotation(40, 2).apply(c.data(), scratch.data());
  EXPECT_EQ(a, b);
  EXPECT_NE(a, c);
}

}  // namespace
}  // namespace kith::codes
