#include "cuda/gpu_calibration.hpp"

#include "core/calibration.hpp"
#include "cuda/devices.hpp"

namespace kith::cuda {

std::shared_ptr<const Calibration> calibration_of(int device) {
  return gpu_calibration([device] {
    for (const DeviceInfo& info : devices()) {
      if (info.device.ordinal == device) return info;
    }
    return DeviceInfo{};
  });
}

}  // namespace kith::cuda
