// Projections: no map lengthens, what was computed is within its bound of the real thing, and the bounds that
// filters take from that hold for every pair. Long doubles are the referee.
#include "codes/projection.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "codes/cpu/row_kernels.hpp"
#include "conformance/problem.hpp"
#include "core/instruction_set.hpp"
#include "support/instruction_sets.hpp"
#include "support/normals.hpp"

namespace kith::codes {
namespace {

using conformance::Random;
using test::Forced;
using test::normals;
using Wide = long double;

// The first axes: its norm is exactly 1.
Projection axes(std::int64_t dim, std::int64_t directions) {
  Projection p = empty_projection(dim, directions);
  for (std::int64_t j = 0; j < directions; ++j) p.at(j, j) = 1;
  p.round_map();
  return p;
}

// Columns of length 1 in any direction, far from orthogonal.
Projection askew(std::int64_t dim, std::int64_t directions, Random& random) {
  Projection p = empty_projection(dim, directions);
  for (std::int64_t j = 0; j < directions; ++j) {
    const std::vector<double> column = normals(dim, random);
    double squares = 0;
    for (const double value : column) squares += value * value;
    for (std::int64_t i = 0; i < dim; ++i) {
      p.at(i, j) = column[static_cast<std::size_t>(i)] / std::sqrt(squares);
    }
  }
  return p;
}

// Directions of rows whose deviations fall from 1 by `ratio` in all.
PrincipalDirections found_in(std::int64_t dim, std::int64_t count, double ratio, Random& random) {
  std::vector<double> rows = normals(300 * dim, random);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    rows[i] *=
        std::pow(ratio, -static_cast<double>(i % static_cast<std::size_t>(dim)) / static_cast<double>(dim));
  }
  return principal_directions(rows, dim, count, {});
}

std::vector<Wide> image(const Projection& p, const double* y) {
  std::vector<Wide> out(static_cast<std::size_t>(p.directions));
  for (std::int64_t i = 0; i < p.dim; ++i) {
    for (std::int64_t j = 0; j < p.directions; ++j) {
      out[static_cast<std::size_t>(j)] += Wide{p.at(i, j)} * y[i];
    }
  }
  return out;
}

Wide squares_of(const double* y, std::int64_t dim) {
  Wide sum = 0;
  for (std::int64_t i = 0; i < dim; ++i) sum += Wide{y[i]} * y[i];
  return sum;
}

// The real Z(y).
std::vector<Wide> real_z(const Projection& p, const double* y) {
  std::vector<Wide> z = image(p, y);
  Wide rest = squares_of(y, p.dim);
  for (const Wide value : z) rest -= value * value;
  for (int i = 0; i < 4; ++i) z.push_back(std::sqrt(std::max(Wide{0}, rest)) / 2);
  return z;
}

// The vector that a map lengthens most, by power iteration.
std::vector<double> longest(const Projection& p, Random& random) {
  std::vector<double> w = normals(p.dim, random);
  for (int round = 0; round < 60; ++round) {
    const std::vector<Wide> z = image(p, w.data());
    double largest = 0;
    for (std::int64_t i = 0; i < p.dim; ++i) {
      Wide sum = 0;
      for (std::int64_t j = 0; j < p.directions; ++j) {
        sum += Wide{p.at(i, j)} * z[static_cast<std::size_t>(j)];
      }
      w[static_cast<std::size_t>(i)] = static_cast<double>(sum);
      largest = std::max(largest, std::fabs(w[static_cast<std::size_t>(i)]));
    }
    for (double& value : w) value /= largest;
  }
  return w;
}

struct Computed {
  std::vector<double> z;
  double error = 0;
};

Computed compute(const Projection& p, const std::vector<double>& y) {
  Computed out{std::vector<double>(static_cast<std::size_t>(p.room())), 0};
  project(p, row_kernels(), y.data(), 1, out.z.data(), &out.error);
  out.z.resize(static_cast<std::size_t>(p.values()));
  return out;
}

Computed compute_narrow(const Projection& p, const std::vector<double>& y) {
  Computed out{std::vector<double>(static_cast<std::size_t>(p.room())), 0};
  std::vector<float> scratch;
  project_narrow(p, row_kernels(), y.data(), 1, out.z.data(), &out.error, scratch);
  out.z.resize(static_cast<std::size_t>(p.values()));
  return out;
}

// How far what was computed lies off the real Z(y).
Wide error_of(const Projection& p, const std::vector<double>& y, const Computed& computed) {
  const std::vector<Wide> real = real_z(p, y.data());
  Wide squares = 0;
  for (std::size_t i = 0; i < real.size(); ++i) {
    squares += (computed.z[i] - real[i]) * (computed.z[i] - real[i]);
  }
  return std::sqrt(squares);
}

class ProjectionTest : public testing::TestWithParam<InstructionSet> {
 protected:
  void SetUp() override { force_instruction_set(GetParam()); }
  void TearDown() override { force_instruction_set(std::nullopt); }
};

// Whatever the directions are, orthonormal or not.
TEST_P(ProjectionTest, LengthensNothing) {
  Random random(11);
  std::vector<Projection> maps;
  for (const std::int64_t dim : {1, 7, 96, 130}) {
    for (const std::int64_t directions : {std::int64_t{1}, (dim + 1) / 2, dim}) {
      Projection near = axes(dim, directions);
      for (double& value : near.map) value *= 1 + 1e-9;
      Projection twice = axes(dim, directions);
      for (std::int64_t j = 0; j < directions; ++j) twice.at(0, j) = 1;
      for (Projection map : {axes(dim, directions), near, twice, askew(dim, directions, random)}) {
        ASSERT_TRUE(contract(map));
        maps.push_back(std::move(map));
      }
      maps.push_back(make_projection(found_in(dim, directions, 1e6, random), directions));
      ASSERT_EQ(maps.back().directions, directions);
    }
  }
  for (const Projection& map : maps) {
    const std::vector<double> w = longest(map, random);
    Wide length = 0;
    for (const Wide value : image(map, w.data())) length += value * value;
    EXPECT_LE(length, squares_of(w.data(), map.dim)) << map.dim << " x " << map.directions;
  }
}

TEST_P(ProjectionTest, HasNoMapWhereNoNormIsKnown) {
  Projection zeros = empty_projection(8, 3);
  EXPECT_FALSE(contract(zeros));
  for (const double value : {std::nan(""), std::numeric_limits<double>::infinity(), 1e200, 2.0}) {
    Projection map = axes(8, 3);
    map.at(1, 1) = value;
    EXPECT_FALSE(contract(map)) << value;
  }
  Random random(12);
  const PrincipalDirections found = found_in(16, 8, 10, random);
  EXPECT_EQ(make_projection(found, 0).directions, 0);
  EXPECT_EQ(make_projection(found, 9).directions, 0);
  EXPECT_EQ(make_projection(found, 8).directions, 8);
}

// Rows along the directions leave a rest that is all rounding; others are short of it, or far from 1.
TEST_P(ProjectionTest, IsWithinItsErrorOfTheRealOne) {
  Random random(13);
  int of_rest = 0;  // cases in which the rest's own error is what counts
  for (const std::int64_t dim : {3, 40, 129, 257}) {
    const std::int64_t directions = (dim + 2) / 3;
    const Projection found = make_projection(found_in(dim, directions, 1e12, random), directions);
    for (const Projection& map : {axes(dim, directions), found}) {
      for (int kind = 0; kind < 6; ++kind) {
        for (int trial = 0; trial < 8; ++trial) {
          std::vector<double> y = normals(dim, random);
          for (std::int64_t i = 0; i < dim; ++i) {
            double& value = y[static_cast<std::size_t>(i)];
            if (kind == 1 && i >= directions) value = 0;  // the axes leave no rest
            if (kind == 2 && i >= directions) value *= 1e-9;
            if (kind == 3) value *= 0x1p30;
            if (kind == 4) value *= 1e-160;  // its squares are subnormal
            if (kind == 5) value += 4096;
          }
          const Computed computed = compute(map, y);
          const Wide apart = error_of(map, y, computed);
          EXPECT_LE(apart, computed.error) << dim << " kind " << kind;
          const Wide length = std::sqrt(squares_of(y.data(), dim));
          of_rest += apart > 1e-10 * length ? 1 : 0;
          if (kind != 4) {
            EXPECT_LT(computed.error, 1e-4 * length)
                << "a bound that bounds nothing, " << dim << " kind " << kind;
          }
        }
      }
    }
  }
  EXPECT_GT(of_rest, 10);
}

// Of rows, which float32 can hold: they do not exceed largest_row_entry.
TEST_P(ProjectionTest, InFloat32IsWithinItsErrorOfTheRealOne) {
  Random random(16);
  int exact = 0;
  int worse = 0;  // than float64 would be
  for (const std::int64_t dim : {3, 31, 32, 33, 129, 768, 4096}) {
    const std::int64_t directions = std::min<std::int64_t>((dim + 2) / 3, dim > 1000 ? 32 : 100);
    Projection skew = askew(dim, directions, random);
    ASSERT_TRUE(contract(skew));
    std::vector<Projection> maps = {axes(dim, directions), std::move(skew)};
    if (dim < 200) maps.push_back(make_projection(found_in(dim, directions, 1e12, random), directions));
    for (const Projection& map : maps) {
      for (int kind = 0; kind < 7; ++kind) {
        for (int trial = 0; trial < 4; ++trial) {
          std::vector<double> y = normals(dim, random);
          for (std::int64_t i = 0; i < dim; ++i) {
            double& value = y[static_cast<std::size_t>(i)];
            if (kind == 1 && i >= directions) value = 0;  // the axes leave no rest
            if (kind == 2 && i >= directions) value *= 1e-6;
            if (kind == 3) value = std::copysign(largest_row_entry, value);
            if (kind == 4) value *= i % 2 == 0 ? 1e-43 : 1e-160;  // subnormal in float32, or nothing
            if (kind == 5) value += 2048;
            if (kind == 6) value = 1 + 0x1p-24;  // all of it rounds down
          }
          const Computed computed = compute_narrow(map, y);
          const Wide apart = error_of(map, y, computed);
          EXPECT_LE(apart, computed.error) << dim << " kind " << kind;
          const Wide length = std::sqrt(squares_of(y.data(), dim));
          worse += apart > compute(map, y).error ? 1 : 0;
          if (kind != 4) {
            EXPECT_LT(computed.error, 0x1p-9 * length)
                << "a bound that bounds nothing, " << dim << " kind " << kind;
          }
          exact += computed.error < 1e-6 * length ? 1 : 0;
        }
      }
    }
  }
  EXPECT_GT(exact, 100);  // those that leave no rest are projected in float64
  EXPECT_GT(worse, 100);
}

TEST_P(ProjectionTest, BoundsEveryPair) {
  Random random(14);
  for (const std::int64_t dim : {5, 64, 200}) {
    const std::int64_t directions = (dim + 3) / 4;
    Projection skew = askew(dim, directions, random);
    ASSERT_TRUE(contract(skew));
    for (const Projection& map :
         {axes(dim, directions), skew, make_projection(found_in(dim, directions, 1e3, random), directions)}) {
      for (int trial = 0; trial < 100; ++trial) {
        const std::vector<double> q = normals(dim, random);
        std::vector<double> y = normals(dim, random);
        if (trial % 4 == 1) y = q;
        if (trial % 4 == 2) {  // the same but for little of the rest
          y = q;
          y.back() += 1e-7;
        }
        if (trial % 4 == 3) {  // the rest in the other direction
          y = q;
          for (std::size_t i = static_cast<std::size_t>(directions); i < y.size(); ++i) y[i] = -y[i];
        }
        const Computed a = compute(map, q);
        const Computed b = compute(map, y);
        Wide apart = 0, product = 0, real_apart = 0, real_product = 0;
        for (std::size_t i = 0; i < a.z.size(); ++i) {
          apart += (Wide{a.z[i]} - b.z[i]) * (Wide{a.z[i]} - b.z[i]);
          product += Wide{a.z[i]} * b.z[i];
        }
        for (std::size_t i = 0; i < q.size(); ++i) {
          real_apart += (Wide{q[i]} - y[i]) * (Wide{q[i]} - y[i]);
          real_product += Wide{q[i]} * y[i];
        }
        EXPECT_LE(std::sqrt(apart), std::sqrt(real_apart) + a.error + b.error) << trial;
        const Wide room = a.error * std::sqrt(squares_of(y.data(), dim)) +
                          b.error * std::sqrt(squares_of(a.z.data(), map.values()));
        EXPECT_GE(product + room, real_product) << trial;
      }
    }
  }
}

// The map's bits are common to all; products may be fused, within the error of both.
TEST(ProjectionMap, IsTheSameOnEveryInstructionSetAndRowsInAnyGroup) {
  Random random(15);
  const std::int64_t dim = 100;
  const PrincipalDirections found = found_in(dim, 40, 100, random);
  const Projection map = make_projection(found, 40);
  const std::int64_t rows = 11;
  const std::vector<double> y = normals(rows * dim, random);
  for (const InstructionSet set : usable_instruction_sets()) {
    const Forced forced(set);
    EXPECT_EQ(make_projection(found, 40).map, map.map) << name(set);
    EXPECT_EQ(make_projection(found, 40).narrow_map, map.narrow_map) << name(set);
    std::vector<double> together(static_cast<std::size_t>(rows * map.room())), errors(rows);
    project(map, row_kernels(), y.data(), rows, together.data(), errors.data());
    for (std::int64_t i = 0; i < rows; ++i) {
      std::vector<double> z(static_cast<std::size_t>(map.room()));
      double error = 0;
      project(map, row_kernels(), y.data() + i * dim, 1, z.data(), &error);
      EXPECT_EQ(error, errors[static_cast<std::size_t>(i)]) << name(set);
      const auto from = together.begin() + i * map.room();
      EXPECT_TRUE(std::equal(from, from + map.values(), z.begin())) << name(set) << " row " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(InstructionSets, ProjectionTest, testing::ValuesIn(usable_instruction_sets()),
                         [](const auto& set) { return std::string(name(set.param)); });

}  // namespace
}  // namespace kith::codes
