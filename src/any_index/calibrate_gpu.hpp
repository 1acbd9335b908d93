// Small searches of every kind on a GPU, timed.
#pragma once

#include "kith/calibration.hpp"
#include "kith/execution.hpp"

namespace kith {

/// Measures the GPU that `execution` names, which goes by no calibration meanwhile. The date is the caller's.
/// @throws DeviceError, OutOfMemory, Cancelled
Calibration measure_gpu(const Execution& execution);

}  // namespace kith
