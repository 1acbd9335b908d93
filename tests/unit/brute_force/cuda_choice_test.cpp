// Which filter the GPU engine takes, and why: the estimates are printed.
#ifdef KITH_CUDA_ENABLED
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

#include "brute_force/cuda/prepared.hpp"
#include "conformance/problem.hpp"
#include "kith/error.hpp"

namespace kith::brute_force {
namespace {

// Rows uniform in [0, scale), as a sample of `rows` rows.
CudaChoice choose(std::int64_t dim, std::int64_t rows, Metric metric, Filter filter = Filter::automatic,
                  double scale = 1) {
  conformance::Random random(static_cast<std::uint64_t>(dim));
  Dataset sample = Dataset::allocate(Dtype::f32, 512, dim);
  for (float& value : sample.mutable_values<float>()) value = static_cast<float>(random.uniform() * scale);
  const CudaChoice choice = choose_cuda_codes(sample.view(), rows, {metric, filter}, tuning::with_wgmma);
  std::printf("%s, %lld x %lld: %s\n", std::string(name(metric)).c_str(), static_cast<long long>(rows),
              static_cast<long long>(dim), choice.text().c_str());
  return choice;
}

TEST(CudaChoice, FollowsDimensionAndMetric) {
  EXPECT_EQ(choose(3, 1000000, Metric::sqeuclidean).filter, Filter::fp32);
  EXPECT_EQ(choose(16, 1000000, Metric::sqeuclidean).filter, Filter::int8);
  EXPECT_EQ(choose(128, 1000000, Metric::euclidean).filter, Filter::int8);
  EXPECT_EQ(choose(768, 1000000, Metric::cosine).filter, Filter::int8);
  EXPECT_EQ(choose(3, 1000000, Metric::inner_product).filter, Filter::int8);
  EXPECT_EQ(choose(128, 1000000, Metric::manhattan).filter, Filter::fp32);
  EXPECT_EQ(choose(20000, 1000, Metric::inner_product).filter, Filter::none);
}

TEST(CudaChoice, TheSurplusGrowsWithTheRows) {
  // The closer the neighbours, the more rows one byte a value cannot tell apart.
  const CudaChoice few = choose(8, 10000, Metric::sqeuclidean);
  const CudaChoice many = choose(8, 100000000, Metric::sqeuclidean);
  EXPECT_GT(few.surplus, 1);
  EXPECT_GT(many.surplus, few.surplus);
}

TEST(CudaChoice, CodesCoverTheData) {
  for (const double scale : {1e-20, 1.0, 1e20}) {
    const CudaChoice choice = choose(64, 100000, Metric::sqeuclidean, Filter::automatic, scale);
    const double reach = 127 * choice.step / choice.unit;
    EXPECT_GT(reach, 0.4 * scale);
    EXPECT_LT(reach, 2 * scale);
  }
}

TEST(CudaChoice, NormalValuesAreNotCutOff) {
  // A range that cuts off the tails has a finer step, but one row in some has a value beyond it.
  conformance::Random random(5);
  Dataset sample = Dataset::allocate(Dtype::f32, 512, 768);
  for (float& value : sample.mutable_values<float>()) value = static_cast<float>(random.normal());
  const CudaChoice choice = choose_cuda_codes(sample.view(), 1000000, {}, tuning::with_wgmma);
  EXPECT_GT(127 * choice.step / choice.unit, 4.2);
  EXPECT_LT(127 * choice.step / choice.unit, 6);
  EXPECT_GT(choice.typical_residual, 0.28 * std::sqrt(768.0));
  EXPECT_LT(choice.typical_residual, 0.33 * std::sqrt(768.0));
}

TEST(CudaChoice, HalvesForLongRowsToo) {
  EXPECT_EQ(choose(3072, 1000, Metric::cosine, Filter::fp16).filter, Filter::fp16);
  EXPECT_EQ(choose(3073, 1000, Metric::cosine, Filter::fp16).filter, Filter::none);
  EXPECT_TRUE(choose(128, 1000, Metric::sqeuclidean).may_be_halves());
  EXPECT_FALSE(choose(128, 1000, Metric::sqeuclidean, Filter::int8).may_be_halves());
}

TEST(CudaChoice, AFilterThatIsNotThereIsRefused) {
  EXPECT_THROW(choose(8, 1000, Metric::cosine, Filter::fp32), InvalidArgument);
  EXPECT_THROW(choose(8, 1000, Metric::manhattan, Filter::int8), InvalidArgument);
  EXPECT_THROW(choose(8, 1000, Metric::manhattan, Filter::fp16), InvalidArgument);
  EXPECT_EQ(choose(8, 1000, Metric::sqeuclidean, Filter::none).filter, Filter::none);
}

}  // namespace
}  // namespace kith::brute_force
#endif
