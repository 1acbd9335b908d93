// How long filters take, for calibrations.
#pragma once

#include "kith/calibration.hpp"
#include "kith/execution.hpp"

namespace kith::brute_force {

/// Sets the times of filters, with the active instruction set and all threads. @throws Cancelled
void measure_filters(WorkTimes& times, const Execution& execution);

/// What a calibration measured on the GPU that built-in costs were fitted on, an H200: costs on another one
/// are these times the ratio of what is measured there.
inline constexpr WorkTimes times_of_h200 = {.int8 = 1.85e-6,
                                            .fp16 = 4e-6,
                                            .fp32 = 8.9e-5,
                                            .exact_value = 8.3e-4,
                                            .scan_few = 2.9e-3,
                                            .scan = 15,
                                            .tree_build = 0.15,
                                            .tree_search = 1.33,
                                            .graph_build = 640,
                                            .graph_search = 84,
                                            .launch = 6.1e4};

}  // namespace kith::brute_force
