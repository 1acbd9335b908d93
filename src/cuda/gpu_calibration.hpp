// What a GPU's work takes, as far as that was measured. No CUDA types: builds without CUDA include it too.
#pragma once

#include <memory>

#include "kith/calibration.hpp"

namespace kith::cuda {

/// The calibration that searches on a GPU are planned by. Null where there is none, and built-in figures do.
/// @throws IoError when KITH_CALIBRATION names a file that cannot be read
std::shared_ptr<const Calibration> calibration_of(int device);

}  // namespace kith::cuda
