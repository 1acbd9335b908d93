// How long filters take, for calibrations.
#pragma once

#include "kith/calibration.hpp"
#include "kith/execution.hpp"

namespace kith::brute_force {

/// Sets the times of filters, with the active instruction set and all threads. @throws Cancelled
void measure_filters(WorkTimes& times, const Execution& execution);

/// What a calibration measured on the GPU that built-in costs were fitted on, an H200: costs on another one
/// are these times the ratio of what is measured there.
inline constexpr WorkTimes times_of_h200 = {.int8 = 1.9e-6,
                                            .fp16 = 3.8e-6,
                                            .fp32 = 7e-5,
                                            .exact_value = 2e-4,
                                            .scan_few = 5e-3,
                                            .scan = 18,
                                            .tree_build = 0.17,
                                            .tree_search = 2,
                                            .graph_build = 700,
                                            .graph_search = 150,
                                            .launch = 5e4};

}  // namespace kith::brute_force
