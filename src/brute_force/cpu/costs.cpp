#include "brute_force/cpu/costs.hpp"

#include <algorithm>

#include "brute_force/cpu/tuning.hpp"
#include "core/calibration.hpp"
#include "core/instruction_set.hpp"

namespace kith::brute_force {
namespace {

const tuning::Costs& built_in() {
  switch (active_instruction_set()) {
    case InstructionSet::avx512_vnni: return tuning::costs_avx512;
    case InstructionSet::avx_vnni: return tuning::costs_avx_vnni;
    case InstructionSet::avx2: return tuning::costs_avx2;
    case InstructionSet::neon_i8mm: return tuning::costs_neon_i8mm;
    case InstructionSet::neon: return tuning::costs_neon;
    default: return tuning::costs_portable;
  }
}

CostModel model_of(const tuning::Costs& costs) {
  return {.int8 = costs.int8,
          .int7 = costs.narrow,
          .fp16 = costs.fp16,
          .fp32 = costs.fp32,
          .exact_value = tuning::cost_exact,
          .exact_row = tuning::cost_exact_rows,
          .directions = tuning::cost_of_directions,
          .look = tuning::cost_of_a_look,
          .projection = tuning::cost_of_projection,
          .difference_dim = costs.difference_dim};
}

}  // namespace

double CostModel::pair(codes::CodeChoice choice, double kept, std::int64_t values, std::int64_t dim,
                       std::int64_t rows, std::int64_t queries) const {
  const double step = choice.filter == Filter::int8   ? (choice.narrow ? int7 : int8)
                      : choice.filter == Filter::fp16 ? fp16
                                                      : fp32;
  const auto bytes = static_cast<double>(values) * (choice.filter == Filter::int8   ? 1
                                                    : choice.filter == Filter::fp16 ? 2
                                                                                    : 4);
  double compared = step * static_cast<double>(values);
  constexpr std::int64_t usual_cache = std::int64_t{32} << 20U;
  const std::int64_t cached = cache_bytes > 0 ? cache_bytes : usual_cache;
  if (queries > 0 && bytes * static_cast<double>(rows) > static_cast<double>(cached)) {
    const std::int64_t together = std::min(queries, tuning::largest_chunk);
    compared = std::max(compared, byte * bytes / static_cast<double>(together));
  }
  return compared + kept * (exact_value * static_cast<double>(dim) + exact_row);
}

CostModel cost_model_of(const Calibration& calibration, int threads) {
  const WorkTimes& here = calibration.times;
  const WorkTimes& there = tuning::times_avx512;
  // What is computed takes as many times longer as there are fewer threads; reading memory does not.
  const double fewer = static_cast<double>(calibration.threads) / threads;
  CostModel model = model_of(tuning::costs_avx512);
  const CostScale scale(model, here, there, fewer);
  scale(&WorkTimes::int8, &CostModel::int8);
  scale(&WorkTimes::int7, &CostModel::int7);
  scale(&WorkTimes::fp16, &CostModel::fp16);
  scale(&WorkTimes::fp32, &CostModel::fp32);
  scale(&WorkTimes::exact_value, &CostModel::exact_value);
  scale(&WorkTimes::exact_row, &CostModel::exact_row);
  scale(&WorkTimes::directions, &CostModel::directions, &CostModel::look);
  scale(&WorkTimes::projection, &CostModel::projection);
  if (calibration.bandwidth > 0) model.byte = 1e9 / calibration.bandwidth / there.int8;
  model.cache_bytes = calibration.cache_bytes;
  model.difference_dim = built_in().difference_dim;
  return model;
}

CostModel cost_model(const Execution& execution) {
  const int threads = resolve_threads(execution);
  if (const auto known = cpu_calibration(threads)) return cost_model_of(*known, threads);
  return model_of(built_in());
}

}  // namespace kith::brute_force
