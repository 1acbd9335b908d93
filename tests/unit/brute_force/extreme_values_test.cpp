// Values at the ends of float64, where the canonical distance itself underflows: every filter must answer
// as the float64 scan does (docs/exact-contract.md, "Underflow and overflow").
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "core/instruction_set.hpp"
#include "kith/brute_force.hpp"
#include "kith/error.hpp"
#include "support/errors.hpp"

namespace kith {
namespace {

class ExtremeValues : public testing::TestWithParam<InstructionSet> {
 protected:
  void SetUp() override { force_instruction_set(GetParam()); }
  void TearDown() override { force_instruction_set(std::nullopt); }

  static void expect_as_without_filter(const std::vector<double>& rows, const std::vector<double>& query,
                                       std::int64_t k, Metric metric) {
    const auto dim = static_cast<std::int64_t>(query.size());
    const DatasetView data(rows.data(), static_cast<std::int64_t>(rows.size()) / dim, dim);
    const DatasetView queries(query.data(), 1, dim);
    Execution one_thread;  // one list and one order of rows: the bound is as tight as it gets
    one_thread.threads = 1;
    const Neighbors truth = knn(data, queries, k, {metric, Filter::none}, one_thread);
    for (const Filter filter : {Filter::int8, Filter::fp16, Filter::fp32}) {
      const Neighbors found =
          BruteForce::build(data, {metric, filter}, one_thread).search(queries, k, one_thread);
      EXPECT_EQ(found.indices, truth.indices) << name(metric) << " " << name(filter);
      EXPECT_EQ(found.distances, truth.distances) << name(metric) << " " << name(filter);
    }
  }
};

constexpr std::int64_t rows = 2048;

// The first rows are 2^-536 away, canonically and really; the others really twice as far, but each of their
// squared differences rounds to 0.
TEST_P(ExtremeValues, SquaresThatUnderflow) {
  constexpr std::int64_t dim = 64;
  std::vector<double> x(rows * dim, 0.0);
  const std::vector<double> query(dim, 0.0);
  for (std::int64_t i = 0; i < rows; ++i) {
    double* row = x.data() + i * dim;
    if (i < rows / 2) {
      row[i % dim] = std::ldexp(1 + static_cast<double>(i) * 1e-5, -536);
    } else {
      for (std::int64_t j = 0; j < dim; ++j)
        row[j] = std::ldexp((i * 7919 >> (j % 13)) % 2 == 0 ? 1 : -1, -538);
    }
  }
  expect_as_without_filter(x, query, 1, Metric::sqeuclidean);
  expect_as_without_filter(x, query, 1, Metric::euclidean);
  expect_as_without_filter(x, query, 10, Metric::manhattan);
}

// Each product of the later rows is 0.75 of the smallest number and rounds up, 1024 times.
TEST_P(ExtremeValues, ProductsThatUnderflow) {
  constexpr std::int64_t dim = 1024;
  std::vector<double> x(rows * dim, 0.0);
  const std::vector<double> query(dim, 0x1p-537);
  for (std::int64_t i = 0; i < rows; ++i) {
    double* row = x.data() + i * dim;
    if (i < 512) {
      row[i] = std::ldexp(0.9 * dim, -537);
    } else {
      for (std::int64_t j = 0; j < dim; ++j) row[j] = std::ldexp(0.75 + static_cast<double>(i) * 1e-7, -537);
    }
  }
  expect_as_without_filter(x, query, 10, Metric::inner_product);
}

// Partial sums of the later rows overflow to +inf (distance -inf, the nearest there is), the whole sums do
// not.
TEST_P(ExtremeValues, PartialSumsThatOverflow) {
  constexpr std::int64_t dim = 24;
  constexpr double large = 1.2e154;
  std::vector<double> x(rows * dim, 0.0);
  std::vector<double> query(dim, 0.0);
  query[0] = query[8] = query[16] = large;  // one lane
  for (std::int64_t i = 0; i < rows; ++i) {
    double* row = x.data() + i * dim;
    const double share = 0.9 + 1e-5 * static_cast<double>(i);
    row[1] = large * share;  // no twin
    row[0] = large * share * (i < rows / 2 ? 0.5 : 1);
    if (i >= rows / 2) {
      row[8] = large * share;
      row[16] = -2 * large * share;
    }
  }
  expect_as_without_filter(x, query, 10, Metric::inner_product);
}

// The mean of the first column overflows; the second column decides.
TEST_P(ExtremeValues, MeansThatOverflow) {
  std::vector<double> x(rows * 2);
  for (std::int64_t i = 0; i < rows; ++i) {
    x[static_cast<std::size_t>(i * 2)] = i % 2 == 0 ? -1.5e308 : 1.5e308;
    x[static_cast<std::size_t>(i * 2 + 1)] = std::sin(static_cast<double>(i));
  }
  for (const Metric metric : {Metric::manhattan, Metric::sqeuclidean, Metric::euclidean}) {
    expect_as_without_filter(x, {1.5e308, 0.5}, 10, metric);
  }
}

INSTANTIATE_TEST_SUITE_P(InstructionSets, ExtremeValues, testing::ValuesIn(usable_instruction_sets()),
                         [](const auto& set) { return std::string(name(set.param)); });

// Beyond the lengths the bounds are proven for, auto does without a filter and a named one is refused.
TEST(ExtremeDimensions, AreSearchedWithoutAFilterPastTheProof) {
  constexpr std::int64_t dim = (std::int64_t{1} << 22) + 1;
  std::vector<std::uint8_t> x(3 * dim, 1);
  x[2 * dim] = 2;  // row 2 differs from row 0 in one value
  x[dim] = 9;
  const DatasetView data(x.data(), 3, dim);
  const BruteForce index = BruteForce::build(data);
  EXPECT_EQ(index.filter(), Filter::none);
  EXPECT_EQ(index.search(data.slice(0, 1), 3).indices, (std::vector<std::int64_t>{0, 2, 1}));
  for (const Filter filter : {Filter::int8, Filter::fp16, Filter::fp32}) {
    const std::string message = test::message_of<InvalidArgument>([&] {
      BruteForce::build(data, {Metric::sqeuclidean, filter});
    });
    EXPECT_TRUE(test::contains(message, "4194304; use auto or none")) << message;
  }
  const std::string message = test::message_of<InvalidArgument>([&] {
    BruteForce::build(DatasetView(x.data(), 3, 32769), {Metric::sqeuclidean, Filter::int8});
  });
  EXPECT_TRUE(test::contains(message, "past 32768; use auto, fp16 or fp32")) << message;
}

}  // namespace
}  // namespace kith
