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

/// What a calibration measured on the GPU that built-in costs were fitted on, an H200.
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

/// Multiplies costs by what their kind of work takes here over what it took where they were fitted, and by
/// how many times fewer threads work than were measured.
template <class Costs>
class CostScale {
 public:
  CostScale(Costs& costs, const WorkTimes& here, const WorkTimes& there, double fewer = 1)
      : costs_(costs), here_(here), there_(there), fewer_(fewer) {}
  template <class... Cost>
  void operator()(double WorkTimes::*what, Cost... those) const {
    ((costs_.*those *= fewer_ * here_.*what / there_.*what), ...);
  }

 private:
  Costs& costs_;
  const WorkTimes& here_;
  const WorkTimes& there_;
  double fewer_;
};

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
