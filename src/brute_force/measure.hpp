// How long the CPU's filters take here, for calibrations.
#pragma once

#include "kith/calibration.hpp"
#include "kith/execution.hpp"

namespace kith::brute_force {

/// Sets the times of filters, with the active instruction set and all threads. @throws Cancelled
void measure_filters(WorkTimes& times, const Execution& execution);

}  // namespace kith::brute_force
