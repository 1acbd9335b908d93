// The CPU-only build's answer to "which GPUs are there".
#include "cuda/devices.hpp"

namespace kith::cuda {

std::vector<DeviceInfo> devices() {
  return {};
}

std::string absence() {
#ifdef KITH_PYTHON_WHEEL
  return "this build of Kith has no CUDA support; the package kith-cuda13 has";
#else
  return "this build of Kith has no CUDA support";
#endif
}

}  // namespace kith::cuda
