// Calibrations that tests choose by.
#pragma once

#include "core/cpu_device.hpp"
#include "core/instruction_set.hpp"
#include "kith/calibration.hpp"
#include "support/environment.hpp"
#include "support/files.hpp"

namespace kith::test {

/// A calibration of this CPU and its active instruction set that says `times`.
inline Calibration calibration_of_this_cpu(const WorkTimes& times) {
  const DeviceInfo cpu = cpu_device();
  Calibration c;
  c.model = cpu.description;
  c.instruction_set = name(active_instruction_set());
  c.cores = cpu.cores;
  c.threads = cpu.cores;
  c.bandwidth = 2e10;
  c.date = "2026-01-01T00:00:00Z";
  c.times = times;
  return c;
}

/// While it lives choices go by a calibration of the test's own.
class ChoicesBy {
 public:
  explicit ChoicesBy(const Calibration& calibration) { keep_calibration(calibration, folder_ / "c.json"); }

 private:
  TemporaryFolder folder_;
  Environment file_{"KITH_CALIBRATION", (folder_ / "c.json").string()};
};

}  // namespace kith::test
