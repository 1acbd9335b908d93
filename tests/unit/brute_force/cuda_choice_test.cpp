// Which filter the GPU engine takes, and why: the estimates are printed.
#ifdef KITH_CUDA_ENABLED
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "brute_force/cuda/prepared.hpp"
#include "conformance/problem.hpp"
#include "core/calibration.hpp"
#include "kith/brute_force.hpp"
#include "kith/error.hpp"
#include "kith/generate.hpp"
#include "support/calibration.hpp"
#include "support/environment.hpp"
#include "support/gpus.hpp"

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

TEST(CudaPolicy, IsTheBuiltInOneWhereThatWasFitted) {
  const tuning::Policy same = tuning::scaled(tuning::with_wgmma, times_of_h200);
  EXPECT_DOUBLE_EQ(same.int8_step_seconds, tuning::with_wgmma.int8_step_seconds);
  EXPECT_DOUBLE_EQ(same.evaluated_byte_seconds, tuning::with_wgmma.evaluated_byte_seconds);
  EXPECT_DOUBLE_EQ(same.stage_seconds, tuning::with_wgmma.stage_seconds);
  EXPECT_EQ(same.most_look, tuning::with_wgmma.most_look);
}

TEST(CudaPolicy, EveryTimeHasItsOwnCosts) {
  using Time = double WorkTimes::*;
  using Cost = double tuning::Policy::*;
  const std::vector<std::pair<Time, Cost>> pairs = {
      {&WorkTimes::int8, &tuning::Policy::int8_least_seconds},
      {&WorkTimes::fp16, &tuning::Policy::fp16_step_seconds},
      {&WorkTimes::fp32, &tuning::Policy::fp32_value_seconds},
      {&WorkTimes::exact_value, &tuning::Policy::evaluated_seconds},
      {&WorkTimes::launch, &tuning::Policy::stage_seconds}};
  for (const auto& [time, cost] : pairs) {
    WorkTimes here = times_of_h200;
    here.*time *= 3;
    const tuning::Policy policy = tuning::scaled(tuning::with_wgmma, here);
    for (const auto& [other_time, other] : pairs) {
      const double times = other == cost ? 3 : 1;
      EXPECT_DOUBLE_EQ(policy.*other, tuning::with_wgmma.*other * times);
    }
  }
}

TEST(CudaChoice, TheStepGrowsWhileManyRowsLieBeyondIt) {
  CudaChoice first;
  first.form = codes::Form::triangle;
  first.step = 0.5;
  first.typical_residual = 2;
  first.sample_distance = 30;
  first.coded_values = 32;
  struct Encoded {
    std::int64_t special_rows;
  };
  std::vector<CudaChoice> tried;
  // Rows beyond the range: some that a longer step brings back, and some that nothing does.
  const auto try_with = [&](double gone_at, std::int64_t infinite) {
    tried.clear();
    CudaChoice choice = first;
    encode_along(choice, [&](const CudaChoice& by) {
      tried.push_back(by);
      const double left = std::max(0.0, (gone_at - by.step) / (gone_at - first.step));
      return Encoded{infinite + static_cast<std::int64_t>(10'000 * left)};
    });
    EXPECT_EQ(choice.step, tried.back().step);
    return std::ssize(tried);
  };
  EXPECT_EQ(try_with(1, tuning::most_beyond_range - 10'000), 1);
  EXPECT_EQ(try_with(0.57, 0), 2);
  EXPECT_GT(tried.back().step, first.step);
  EXPECT_EQ(try_with(0.7, 0), 1 + tuning::most_widened);
  EXPECT_EQ(try_with(0.7, 100'000), 3) << "back to the first";
  EXPECT_EQ(tried.back().step, first.step);
  EXPECT_NEAR(tried[1].step, 0.5 * tuning::widened_by, 1e-7);
  // Twice the distance and a tenth more than the residual, in steps; what is beyond a quarter of it is
  // special.
  EXPECT_NEAR(tried[1].typical_reach, 60 / tried[1].step + 2.2, 1e-9);
  EXPECT_NEAR(tried[1].residual_cap, 2 + tried[1].typical_reach / 4, 1e-9);
}

TEST(CudaPolicy, ACalibrationOfTheGpuDecides) {
  if (test::gpus() == 0) GTEST_SKIP() << "no usable GPU";
  Execution execution;
  execution.devices = {{Device::Kind::cuda, 0}};
  Calibration measured = calibrate(execution);
  for (const auto& [name, time] : named(measured.times, Device::Kind::cuda)) {
    std::printf("%s: %.4g ns\n", name.c_str(), time);
    EXPECT_GT(time, 0) << name;
    EXPECT_LT(time, 1e9) << name;
  }
  const Dataset rows = generate({.generator = Generator::gaussian, .rows = 20'000, .dim = 64});
  const Dataset queries =
      generate({.generator = Generator::gaussian, .rows = 300, .dim = 64, .first_row = 20'000});
  const auto chosen = [&] {
    const BruteForce index = BruteForce::build(rows, {.directions = false}, execution);
    return std::pair(index.filter(), index.search(queries, 10, execution));
  };
  const auto usual = [&] {
    const test::Environment off("KITH_CALIBRATION", "off");
    return chosen();
  }();
  EXPECT_EQ(usual.first, Filter::int8);
  measured.times.fp32 /= 1e4;
  const test::ChoicesBy by(measured);
  EXPECT_LT(tuning::policy_of(0).fp32_value_seconds, 1e-3 * tuning::with_wgmma.fp32_value_seconds);
  const auto other = chosen();
  EXPECT_EQ(other.first, Filter::fp32);
  EXPECT_EQ(other.second.indices, usual.second.indices);
  EXPECT_EQ(other.second.distances, usual.second.distances);
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
