// Row kernels that do several things at once, beside those that do one of them: the same bits.
#include "codes/cpu/row_kernels.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <tuple>
#include <vector>

#include "conformance/problem.hpp"
#include "core/instruction_set.hpp"
#include "kith/dtype.hpp"
#include "support/instruction_sets.hpp"
#include "support/normals.hpp"

namespace kith::codes {
namespace {

using conformance::Random;
using test::normals;

class RowKernelsTest : public testing::TestWithParam<InstructionSet> {
 protected:
  void SetUp() override { force_instruction_set(GetParam()); }
  void TearDown() override { force_instruction_set(std::nullopt); }
};

const std::vector<std::int64_t> dims = {1, 7, 8, 9, 100, 511, 512, 513, 1030};

TEST_P(RowKernelsTest, LoadsAndCentersInOne) {
  const RowKernels& kernels = row_kernels();
  Random random(1);
  for (const std::int64_t dim : dims) {
    const std::vector<double> mean = normals(dim, random);
    for (const Dtype dtype : {Dtype::f32, Dtype::f16, Dtype::bf16, Dtype::i8, Dtype::u8, Dtype::f64}) {
      std::vector<unsigned char> row(static_cast<std::size_t>(dim) * size_of(dtype));
      // Of floats those without a sign and a large exponent: numbers.
      const unsigned mask = dtype == Dtype::i8 || dtype == Dtype::u8 ? 0xFF : 0x3F;
      for (unsigned char& byte : row) byte = static_cast<unsigned char>(random.below(256) & mask);
      const int type = static_cast<int>(dtype);
      std::vector<double> apart(static_cast<std::size_t>(dim));
      kernels.load[type](row.data(), dim, apart.data());
      kernels.center(apart.data(), mean.data(), 0.25, dim);
      std::vector<double> y(apart.size());
      double largest = -1, squares = -1;
      kernels.load_centered[type](row.data(), mean.data(), 0.25, dim, y.data(), &largest, &squares);
      EXPECT_EQ(y, apart) << name(dtype) << " " << dim;
      EXPECT_EQ(largest, kernels.largest(apart.data(), dim)) << name(dtype) << " " << dim;
      EXPECT_EQ(squares, kernels.sum_of_squares(apart.data(), dim)) << name(dtype) << " " << dim;
    }
  }
}

// Wherever in a row it stands.
TEST_P(RowKernelsTest, ShowWhatIsNoNumber) {
  const RowKernels& kernels = row_kernels();
  const std::int64_t dim = 21;
  const std::vector<double> mean(dim, 1.0);
  for (std::size_t at = 0; at < dim; ++at) {
    for (const float value :
         {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
      std::vector<float> row(dim, 2.0F);
      row[at] = value;
      std::vector<double> y(dim);
      double largest = 0, squares = 0;
      kernels.load_centered[static_cast<int>(Dtype::f32)](row.data(), mean.data(), 1, dim, y.data(), &largest,
                                                          &squares);
      EXPECT_FALSE(std::isfinite(squares)) << at;
      EXPECT_FALSE(kernels.finite(y.data(), dim)) << at;
      EXPECT_EQ(kernels.has_nan(y.data(), dim), std::isnan(value)) << at;
    }
  }
}

TEST_P(RowKernelsTest, QuantizesBySteps) {
  const RowKernels& kernels = row_kernels();
  constexpr double infinity = std::numeric_limits<double>::infinity();
  std::vector<double> y = {0.0,   -0.0,  0.15,     0.25,      0.35,
                           -0.25, -0.15, 12.6,     12.7,      12.8,
                           -12.7, -12.9, infinity, -infinity, std::numeric_limits<double>::quiet_NaN()};
  for (int i = 0; i < 90; ++i) y.push_back(0.031 * i - 1);
  const auto wanted = [](double v, double step, double largest, int offset) {
    const double all = v / step;
    const double held = all > -largest ? std::min(all, largest) : -largest;
    return static_cast<unsigned char>(static_cast<int>(std::nearbyint(held)) + offset);
  };
  for (const auto& [step, largest, offset] : {std::tuple(0.1, 127.0, 128), std::tuple(0.5, 7.0, 8)}) {
    std::vector<unsigned char> bytes(y.size(), 0xAA);
    kernels.quantize_by_step(y.data(), step, largest, offset, static_cast<std::int64_t>(y.size()),
                             bytes.data());
    for (std::size_t i = 0; i < y.size(); ++i) {
      EXPECT_EQ(bytes[i], wanted(y[i], step, largest, offset)) << y[i] << " by " << step;
    }
  }
}

TEST_P(RowKernelsTest, MultipliesFourRowsAsOne) {
  const RowKernels& kernels = row_kernels();
  Random random(4);
  for (const std::int64_t dim : dims) {
    const std::vector<double> x = normals(dim, random);
    const std::vector<double> others = normals(4 * dim, random);
    const double* rows[4];
    for (std::int64_t j = 0; j < 4; ++j) rows[j] = others.data() + j * dim;
    double products[4];
    kernels.dot_four(x.data(), rows, dim, products);
    for (int j = 0; j < 4; ++j) EXPECT_EQ(products[j], kernels.dot(x.data(), rows[j], dim)) << dim;
  }
}

TEST_P(RowKernelsTest, SumsUpOuterProductsOneRowAfterTheOther) {
  const RowKernels& kernels = row_kernels();
  Random random(2);
  const std::int64_t dim = 30;
  const std::vector<double> values = normals(5 * dim, random);
  std::vector<const double*> rows;
  for (std::int64_t r = 0; r < 5; ++r) rows.push_back(values.data() + r * dim);
  const std::vector<double> before = normals(dim * dim, random);
  std::vector<double> sums = before;
  std::vector<double> expected = before;
  const std::int64_t i = 3, j = 11;
  kernels.add_outer(sums.data() + i * dim + j, dim, rows.data(), rows.size(), i, j);
  for (const double* row : rows) {
    for (std::int64_t a = i; a < i + outer_rows; ++a) {
      kernels.add_scaled(expected.data() + a * dim + j, row[a], row + j, outer_columns);
    }
  }
  EXPECT_EQ(sums, expected);
}

TEST_P(RowKernelsTest, StoresIntegersAndSumsThemUp) {
  const RowKernels& kernels = row_kernels();
  Random random(3);
  for (const std::int64_t dim : {std::int64_t{1}, std::int64_t{15}, std::int64_t{200}, std::int64_t{32768}}) {
    for (const int flip : {0, 0x80}) {
      std::vector<unsigned char> row(static_cast<std::size_t>(dim));
      for (unsigned char& byte : row)
        byte = static_cast<unsigned char>(dim == 32768 ? 0xFF ^ flip : random.below(256));
      std::vector<unsigned char> stored(row.size());
      std::int32_t sum = 0, squares = 0;
      kernels.store_integers(row.data(), static_cast<unsigned char>(flip), dim, stored.data(), &sum,
                             &squares);
      std::int64_t real_sum = 0, real_squares = 0;
      for (std::size_t i = 0; i < row.size(); ++i) {
        const int value = flip == 0 ? row[i] : static_cast<signed char>(row[i]);
        EXPECT_EQ(stored[i], value + flip);
        real_sum += value;
        real_squares += std::int64_t{value} * value;
      }
      EXPECT_EQ(sum, real_sum) << dim;
      EXPECT_EQ(squares, real_squares) << dim;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(InstructionSets, RowKernelsTest, testing::ValuesIn(usable_instruction_sets()),
                         [](const auto& set) { return std::string(name(set.param)); });

}  // namespace
}  // namespace kith::codes
