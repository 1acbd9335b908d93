// The canonical distance: the same bits as the oracle on every instruction set, for every dtype, metric
// and dimension, specials included.
#include "distance/canonical.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <vector>

#include "conformance/problem.hpp"
#include "core/instruction_set.hpp"
#include "core/visit_dtype.hpp"
#include "kith/support.hpp"
#include "reference/oracle.hpp"

namespace kith {
namespace {

using conformance::Random;
using conformance::Rows;
using reference::Matrix;

// Every distance of the problem on every instruction set, in several orders and batch lengths.
void compare(const Matrix& data, const Matrix& queries, Dtype dtype, Metric metric, const char* what) {
  const Rows rows(data, dtype, 3, 1);
  const Rows query_rows(queries, dtype);
  std::vector<std::int64_t> ids;
  for (std::int64_t i = 0; i < data.rows; ++i) ids.push_back((i * 7) % data.rows);
  std::vector<double> padded(static_cast<std::size_t>(canonical_padded(data.dim)));
  for (std::int64_t q = 0; q < queries.rows; ++q) {
    std::vector<double> expected;
    for (const std::int64_t id : ids) {
      expected.push_back(reference::distance(queries.row(q), data.row(id), data.dim, metric));
    }
    for (const InstructionSet set : usable_instruction_sets()) {
      force_instruction_set(set);
      const auto query =
          prepare_canonical_query(query_rows.view().row(q), dtype, data.dim, metric, padded.data());
      const auto function = canonical_function(dtype, metric);
      for (const std::size_t count : {std::size_t{1}, std::size_t{3}, ids.size()}) {
        std::vector<double> got(count, -7);
        function(canonical_rows(rows.view()), query, ids.data(), static_cast<std::int64_t>(count),
                 got.data());
        for (std::size_t i = 0; i < count; ++i) {
          const bool same = std::isnan(expected[i]) ? std::isnan(got[i])
                                                    : std::bit_cast<std::uint64_t>(got[i]) ==
                                                          std::bit_cast<std::uint64_t>(expected[i]);
          ASSERT_TRUE(same) << what << " " << name(dtype) << " " << name(metric) << " d=" << data.dim
                            << " on " << name(set) << ": " << got[i] << " is not " << expected[i];
        }
      }
    }
    force_instruction_set(std::nullopt);
  }
}

class Canonical : public testing::TestWithParam<Dtype> {};

TEST_P(Canonical, DimensionsFrom1To67) {
  for (std::int64_t d = 1; d <= 67; ++d) {
    const auto values = conformance::gaussian(11, d, 3, static_cast<std::uint64_t>(d));
    const Matrix data = conformance::quantize(values.data, GetParam(), values.integer_scale);
    const Matrix queries = conformance::quantize(values.queries, GetParam(), values.integer_scale);
    for (const Metric metric : all_metrics) compare(data, queries, GetParam(), metric, "gaussian");
  }
}

TEST_P(Canonical, KindsOfData) {
  for (const auto& kind : conformance::kinds()) {
    for (const std::int64_t d : {1, 3, 8, 9, 29, 64, 131}) {
      Random random(static_cast<std::uint64_t>(d));
      const auto values = kind.make(23, d, 4, random);
      const Matrix data = conformance::quantize(values.data, GetParam(), values.integer_scale);
      const Matrix queries = conformance::quantize(values.queries, GetParam(), values.integer_scale);
      for (const Metric metric : all_metrics) compare(data, queries, GetParam(), metric, kind.name);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Dtypes, Canonical, testing::ValuesIn(all_dtypes),
                         [](const auto& dtype) { return std::string(name(dtype.param)); });

// Values by hand, so that the oracle and the kernels cannot be wrong together.
TEST(CanonicalByHand, ThreeFourFive) {
  const double q[2] = {0, 0};
  const double x[2] = {3, -4};
  EXPECT_EQ(reference::distance(q, x, 2, Metric::sqeuclidean), 25);
  EXPECT_EQ(reference::distance(q, x, 2, Metric::euclidean), 5);
  EXPECT_EQ(reference::distance(q, x, 2, Metric::manhattan), 7);
  EXPECT_EQ(reference::distance(q, x, 2, Metric::inner_product), 0);
  EXPECT_EQ(reference::distance(q, x, 2, Metric::cosine), 1) << "a zero vector is at distance 1";
  EXPECT_EQ(reference::distance(x, x, 2, Metric::cosine), 0);
  const double y[2] = {4, 3};
  EXPECT_EQ(reference::distance(x, y, 2, Metric::cosine), 1);
  EXPECT_EQ(reference::distance(x, y, 2, Metric::inner_product), 0);
  const double z[2] = {-3, 4};
  EXPECT_EQ(reference::distance(x, z, 2, Metric::cosine), 2);
  EXPECT_EQ(reference::distance(x, z, 2, Metric::inner_product), 25);
}

// The order of summation is part of the contract: lanes of eight, then (0+4)+(2+6), (1+5)+(3+7).
TEST(CanonicalByHand, OrderOfSummation) {
  const double big = 0x1p53;
  double q[8] = {big, 1, 1, 0, -big, 0, 0, 0};
  double x[8] = {1, 1, 1, 1, 1, 1, 1, 1};
  EXPECT_EQ(-reference::distance(q, x, 8, Metric::inner_product), 2);
  double r[8] = {big, -big, 1, 0, 0, 0, 0, 0};
  EXPECT_EQ(-reference::distance(r, x, 8, Metric::inner_product), 0) << "2^53 + 1 rounds to 2^53 first";
}

}  // namespace
}  // namespace kith
