// The CPU-only build's answer to "which GPUs are there".
#include "cuda/devices.hpp"

namespace kith::cuda {

std::vector<DeviceInfo> devices() {
  return {};
}

std::string absence() {
  return "this build of Kith has no CUDA support";
}

}  // namespace kith::cuda
