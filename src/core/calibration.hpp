// The calibrations that choices go by.
#pragma once

#include <functional>
#include <memory>

#include "kith/calibration.hpp"

namespace kith {

/// That of this CPU with its active instruction set: measured with so many threads, else with the most. Null
/// where there is none, and built-in figures do.
/// @throws IoError when KITH_CALIBRATION names a file that cannot be read
std::shared_ptr<const Calibration> cpu_calibration(int threads);

/// That of a GPU, which `describe` tells of; it is asked only where some GPU has been calibrated. Null where
/// there is none, and built-in figures do.
/// @throws IoError when KITH_CALIBRATION names a file that cannot be read
std::shared_ptr<const Calibration> gpu_calibration(const std::function<DeviceInfo()>& describe);

/// While one lives this process goes by no calibration: what is measured must not depend on what was.
class CalibrationsAside {
 public:
  CalibrationsAside();
  CalibrationsAside(const CalibrationsAside&) = delete;
  CalibrationsAside& operator=(const CalibrationsAside&) = delete;
  ~CalibrationsAside();
};

/// Makes the folder of a file and tries that it can be written; nothing is left. @throws IoError
void try_calibration_file(const std::filesystem::path& path);

}  // namespace kith
