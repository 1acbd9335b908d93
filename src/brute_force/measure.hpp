// How long the CPU's filters take here, for calibrations.
#pragma once

#include "kith/calibration.hpp"
#include "kith/execution.hpp"

namespace kith::brute_force {

/// Bytes that measuring takes at once.
inline constexpr std::uint64_t measuring_bytes = std::uint64_t{160} << 20U;

/// Sets the times of filters, with the active instruction set and all threads. @throws Cancelled
void measure_filters(WorkTimes& times, const Execution& execution);

}  // namespace kith::brute_force
