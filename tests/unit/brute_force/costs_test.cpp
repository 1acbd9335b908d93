// What the choice of codes goes by: built-in figures, or those of a calibration of this machine.
#include "brute_force/cpu/costs.hpp"

#include <gtest/gtest.h>

#include "brute_force/cpu/tuning.hpp"
#include "brute_force/measure.hpp"
#include "kith/brute_force.hpp"
#include "kith/error.hpp"
#include "kith/generate.hpp"
#include "support/calibration.hpp"
#include "support/environment.hpp"
#include "support/instruction_sets.hpp"
#include "support/sanitizers.hpp"

namespace kith::brute_force {
namespace {

using test::Environment;

constexpr codes::CodeChoice int8 = {Filter::int8, codes::Form::triangle};
constexpr codes::CodeChoice fp16 = {Filter::fp16, codes::Form::triangle};

Dataset gaussian(std::int64_t rows, std::int64_t first = 0) {
  return generate({.generator = Generator::gaussian, .rows = rows, .dim = 64, .first_row = first});
}

void expect_same(const CostModel& a, const CostModel& b) {
  EXPECT_DOUBLE_EQ(a.int8, b.int8);
  EXPECT_DOUBLE_EQ(a.int7, b.int7);
  EXPECT_DOUBLE_EQ(a.fp16, b.fp16);
  EXPECT_DOUBLE_EQ(a.fp32, b.fp32);
  EXPECT_DOUBLE_EQ(a.exact_value, b.exact_value);
  EXPECT_DOUBLE_EQ(a.exact_row, b.exact_row);
  EXPECT_DOUBLE_EQ(a.directions, b.directions);
  EXPECT_DOUBLE_EQ(a.look, b.look);
  EXPECT_DOUBLE_EQ(a.projection, b.projection);
}

TEST(Costs, BuiltInOnesAreOfTheInstructionSet) {
  const Environment off("KITH_CALIBRATION", "off");
  for (const InstructionSet set : usable_instruction_sets()) {
    const test::Forced forced(set);
    const CostModel model = cost_model({});
    EXPECT_EQ(model.byte, 0);
    if (set == InstructionSet::avx512_vnni) {
      EXPECT_EQ(model.int8, tuning::costs_avx512.int8);
      EXPECT_EQ(model.difference_dim, tuning::costs_avx512.difference_dim);
    }
    if (set == InstructionSet::avx2) {
      EXPECT_EQ(model.int7, tuning::costs_avx2.narrow);
    }
    if (set == InstructionSet::portable) {
      EXPECT_EQ(model.fp16, tuning::costs_portable.fp16);
    }
  }
}

TEST(Costs, TheMachineTheyWereFittedOnHasTheBuiltInOnes) {
  const Environment off("KITH_CALIBRATION", "off");
  Calibration there;
  there.threads = 2;
  there.times = tuning::times_avx512;
  const CostModel model = cost_model_of(there, 2);
  EXPECT_DOUBLE_EQ(model.int8, tuning::costs_avx512.int8);
  EXPECT_DOUBLE_EQ(model.fp16, tuning::costs_avx512.fp16);
  EXPECT_DOUBLE_EQ(model.fp32, tuning::costs_avx512.fp32);
  EXPECT_DOUBLE_EQ(model.exact_value, tuning::cost_exact);
  EXPECT_DOUBLE_EQ(model.look, tuning::cost_of_a_look);
  EXPECT_EQ(model.byte, 0);  // its bandwidth is not known
}

TEST(Costs, EveryTimeHasItsOwn) {
  Calibration c;
  c.threads = 4;
  c.times = tuning::times_avx512;
  const CostModel before = cost_model_of(c, 4);
  c.times.int8 *= 2;
  c.times.int7 *= 3;
  c.times.fp16 *= 5;
  c.times.fp32 *= 7;
  c.times.exact_value *= 11;
  c.times.exact_row *= 13;
  c.times.directions *= 17;
  c.times.projection *= 19;
  CostModel wanted = before;
  wanted.int8 *= 2;
  wanted.int7 *= 3;
  wanted.fp16 *= 5;
  wanted.fp32 *= 7;
  wanted.exact_value *= 11;
  wanted.exact_row *= 13;
  wanted.directions *= 17;
  wanted.look *= 17;
  wanted.projection *= 19;
  expect_same(cost_model_of(c, 4), wanted);
  // Half of the threads take twice as long.
  EXPECT_DOUBLE_EQ(cost_model_of(c, 2).fp32, 2 * wanted.fp32);
}

TEST(Costs, FewQueriesWaitForMemoryManyDoNot) {
  CostModel model;
  model.int8 = 1;
  model.fp16 = 1;
  model.byte = 100;
  model.cache_bytes = 1 << 20;
  constexpr std::int64_t dim = 64;
  constexpr std::int64_t beyond = 1 << 20;
  EXPECT_EQ(model.pair(int8, 0, dim, dim, beyond, 0), 64);
  EXPECT_EQ(model.pair(int8, 0, dim, dim, beyond, 1), 6400);
  EXPECT_EQ(model.pair(fp16, 0, dim, dim, beyond, 1), 12800);
  EXPECT_EQ(model.pair(int8, 0, dim, dim, beyond, 10), 640);
  EXPECT_EQ(model.pair(int8, 0, dim, dim, beyond, 1'000'000), 64);
  EXPECT_EQ(model.pair(int8, 0, dim, dim, 1000, 1), 64);  // a cache holds them
  model.cache_bytes = 0;                                  // unknown: a usual one
  EXPECT_EQ(model.pair(int8, 0, dim, dim, 1000, 1), 64);
  EXPECT_EQ(model.pair(int8, 0, dim, dim, beyond, 1), 6400);
}

TEST(Costs, ACalibrationDecidesWhichCodesAndNoBitOfTheAnswer) {
  const Dataset rows = gaussian(3000);
  const Dataset queries = gaussian(20, 3000);
  const auto chosen = [&](WorkTimes times) {
    // A file has all of them.
    times.scan_few = times.scan = times.scan_values = times.tree_build = times.tree_search = 1;
    times.graph_build = times.graph_search = 1;
    const test::ChoicesBy by(test::calibration_of_this_cpu(times));
    const BruteForce index = BruteForce::build(rows, {.directions = false});
    return std::pair(index.filter(), index.search(queries, 10));
  };
  WorkTimes cheap_fp16 = tuning::times_avx512;
  cheap_fp16.fp16 /= 1e4;
  WorkTimes cheap_fp32 = tuning::times_avx512;
  cheap_fp32.fp32 /= 1e4;
  WorkTimes cheap_int8 = tuning::times_avx512;
  cheap_int8.int8 = cheap_int8.int7 /= 1e4;
  cheap_int8.exact_value /= 1e6;
  cheap_int8.exact_row /= 1e6;
  const auto [first, answer] = chosen(cheap_fp16);
  EXPECT_EQ(first, Filter::fp16);
  const auto [second, same] = chosen(cheap_fp32);
  EXPECT_EQ(second, Filter::fp32);
  EXPECT_EQ(chosen(cheap_int8).first, Filter::int8);
  EXPECT_EQ(answer.indices, same.indices);
  EXPECT_EQ(answer.distances, same.distances);
}

// Where integers are multiplied more slowly than floats, bytes are compared as floats, but for the few
// queries of one call, which do not repay making those.
TEST(Costs, BytesAreTheirOwnCodesWhereThatIsQuickest) {
  const Environment off("KITH_CALIBRATION", "off");
  const auto bytes = [](std::int64_t rows, std::int64_t first) {
    return generate(
        {.generator = Generator::gaussian, .rows = rows, .dim = 64, .dtype = Dtype::u8, .first_row = first});
  };
  const Dataset data = bytes(20'000, 0);
  const Dataset queries = bytes(100, 20'000);
  for (const InstructionSet set : usable_instruction_sets()) {
    const test::Forced forced(set);
    const auto filter_of = [&](const Neighbors& found) { return found.statistics.filter; };
    const BruteForce index = BruteForce::build(data.view());
    const CostModel costs = cost_model({});
    const bool quick = costs.int8 <= costs.fp32 || codes::prefers_narrow();
    EXPECT_EQ(filter_of(index.search(queries.view(), 10)), quick ? "int8" : "fp32") << name(set);
    EXPECT_EQ(set == InstructionSet::portable, !quick) << name(set);
    EXPECT_EQ(filter_of(knn(data.view(), queries.view(), 10)), "int8") << name(set);
  }
}

TEST(Costs, AFilterThatIsAskedForStaysWhateverItCosts) {
  const Dataset rows = gaussian(3000);
  WorkTimes times = {1e12, 1e12, 1e12, 1e12, 1e12, 1e12, 1e12, 1e12, 1, 1, 1, 1, 1, 1, 1};
  const test::ChoicesBy by(test::calibration_of_this_cpu(times));
  for (const Filter filter : {Filter::int8, Filter::fp16, Filter::fp32}) {
    EXPECT_EQ(BruteForce::build(rows, {.filter = filter}).filter(), filter) << name(filter);
  }
}

TEST(Costs, MeasuringFindsEveryTime) {
  for (const InstructionSet set : usable_instruction_sets()) {
    if (test::reduced() && set != usable_instruction_sets().front()) break;
    const test::Forced forced(set);
    Execution execution;
    execution.threads = 2;
    WorkTimes times;
    measure_filters(times, execution);
    for (const double time : {times.int8, times.int7, times.fp16, times.fp32, times.exact_value,
                              times.exact_row, times.directions, times.projection}) {
      EXPECT_GT(time, 0) << name(set);
      EXPECT_LT(time, 1e6) << name(set);
    }
    EXPECT_EQ(times.scan, 0);  // not its own
    // Only AVX2 has filters for codes of 7 bits.
    if (set != InstructionSet::avx2) {
      EXPECT_EQ(times.int7, times.int8) << name(set);
    }
  }
}

TEST(Costs, MeasuringStopsWhenAsked) {
  Execution execution;
  execution.cancelled = [] { return true; };
  WorkTimes times;
  EXPECT_THROW(measure_filters(times, execution), Cancelled);
}

}  // namespace
}  // namespace kith::brute_force
