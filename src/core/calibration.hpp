// The calibrations that choices go by.
#pragma once

#include <memory>
#include <string_view>

#include "kith/calibration.hpp"

namespace kith {

/// That of this CPU with its active instruction set; null where there is none, and built-in figures do.
/// @throws IoError when KITH_CALIBRATION names a file that cannot be read
std::shared_ptr<const Calibration> cpu_calibration();

/// That of a GPU of this model; null where there is none. @throws IoError as above
std::shared_ptr<const Calibration> gpu_calibration(std::string_view model);

}  // namespace kith
