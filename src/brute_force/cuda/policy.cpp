// Costs of searches on a GPU: built in, or by a calibration.
#include "brute_force/cuda/tuning.hpp"
#include "core/calibration.hpp"
#include "cuda/capability.hpp"
#include "cuda/gpu_calibration.hpp"

namespace kith::brute_force::tuning {

Policy scaled(const Policy& built_in, const WorkTimes& here) {
  Policy p = built_in;
  const CostScale scale(p, here, times_of_h200);
  scale(&WorkTimes::int8, &Policy::int8_step_seconds, &Policy::int8_least_seconds, &Policy::int8_kept_seconds,
        &Policy::kept_int8_seconds, &Policy::look_int8_seconds, &Policy::look_run_seconds);
  scale(&WorkTimes::fp16, &Policy::fp16_step_seconds, &Policy::fp16_least_seconds);
  scale(&WorkTimes::fp32, &Policy::fp32_value_seconds, &Policy::kept_float_seconds,
        &Policy::look_float_seconds, &Policy::look_value_seconds);
  scale(&WorkTimes::exact_value, &Policy::evaluated_seconds, &Policy::evaluated_byte_seconds,
        &Policy::open_seconds, &Policy::rerank_seconds, &Policy::rerank_candidate_seconds);
  scale(&WorkTimes::launch, &Policy::stage_seconds);
  return p;
}

Policy policy_of(int device) {
  const Policy& built_in = kith::cuda::has_wgmma(device) ? with_wgmma : without_wgmma;
  const auto known = kith::cuda::calibration_of(device);
  return known == nullptr ? built_in : scaled(built_in, known->times);
}

}  // namespace kith::brute_force::tuning
