// What the CUDA driver reports.
#include "cuda/devices.hpp"

#include <string>

#include <cuda_runtime_api.h>

namespace kith::cuda {
namespace {

constexpr int oldest_major = 8;  // compute capability 8.0 and up

struct Count {
  int devices = 0;
  std::string reason;
};

Count count() {
  Count result;
  const cudaError_t status = cudaGetDeviceCount(&result.devices);
  if (status != cudaSuccess) {
    result.devices = 0;
    result.reason = cudaGetErrorString(status);
    (void)cudaGetLastError();
  } else if (result.devices == 0) {
    result.reason = "the driver reports none";
  }
  return result;
}

}  // namespace

namespace {

std::vector<DeviceInfo> ask_driver() {
  std::vector<DeviceInfo> list;
  const int total = count().devices;
  for (int ordinal = 0; ordinal < total; ++ordinal) {
    DeviceInfo info;
    info.device = {Device::Kind::cuda, ordinal};
    cudaDeviceProp properties{};
    const cudaError_t status = cudaGetDeviceProperties(&properties, ordinal);
    if (status != cudaSuccess) {
      info.usable = false;
      info.note = cudaGetErrorString(status);
      (void)cudaGetLastError();
    } else {
      const std::string capability =
          std::to_string(properties.major) + "." + std::to_string(properties.minor);
      info.description = properties.name;
      info.memory_bytes = properties.totalGlobalMem;
      info.cores = properties.multiProcessorCount;
      info.instruction_sets = "sm_" + std::to_string(properties.major) + std::to_string(properties.minor);
      if (properties.major < oldest_major) {
        info.usable = false;
        info.note = "compute capability " + capability + " is older than 8.0, the oldest supported";
      }
    }
    list.push_back(std::move(info));
  }
  return list;
}

}  // namespace

// Asked once: properties take longer to get than a small search.
std::vector<DeviceInfo> devices() {
  static const std::vector<DeviceInfo> list = ask_driver();
  return list;
}

std::string absence() {
  const Count found = count();
  return found.devices == 0 ? found.reason : std::to_string(found.devices) + " CUDA device(s) found";
}

}  // namespace kith::cuda
