// What the CUDA driver reports. No CUDA types: builds without CUDA include it too.
#pragma once

#include <string>
#include <vector>

#include "kith/execution.hpp"

namespace kith::cuda {

/// Every device the driver reports; empty in a CPU-only build or without a driver.
std::vector<DeviceInfo> devices();

/// Why devices() is empty or short, in words ("this build has no CUDA support", "no NVIDIA driver", ...).
std::string absence();

}  // namespace kith::cuda
