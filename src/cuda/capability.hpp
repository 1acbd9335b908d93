// What a device's compute capability lets kernels do.
#pragma once

#include "cuda/launch.hpp"

namespace kith::cuda {

/// Products of a warpgroup (wgmma) are there: compute capability 9.0, and no other.
inline bool has_wgmma(int device) {
  return device_attribute(cudaDevAttrComputeCapabilityMajor, device) == 9 &&
         device_attribute(cudaDevAttrComputeCapabilityMinor, device) == 0;
}

}  // namespace kith::cuda
