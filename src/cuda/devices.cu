// What the CUDA driver reports.
#include "cuda/devices.hpp"

#include <atomic>
#include <memory>
#include <string>

#include <cuda_runtime_api.h>

#include "core/fork.hpp"
#include "cuda/fork.hpp"

namespace kith::cuda {
namespace {

constexpr int oldest_major = 8;  // compute capability 8.0 and up

struct Count {
  int devices = 0;
  std::string reason;
};

Count count() {
  Count result;
  check_driver();
  const cudaError_t status = cudaGetDeviceCount(&result.devices);
  if (status != cudaSuccess) {
    result.devices = 0;
    // Forked from a process in which somebody else has used the driver.
    result.reason =
        forked() && status == cudaErrorInitializationError ? driver_lost_reason : cudaGetErrorString(status);
    (void)cudaGetLastError();
  } else if (result.devices == 0) {
    result.reason = "the driver reports none";
  } else {
    use_driver();
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
  static std::atomic<const std::vector<DeviceInfo>*> known{nullptr};
  const std::vector<DeviceInfo>* list = known.load(std::memory_order_acquire);
  if (driver_lost()) {
    std::vector<DeviceInfo> unusable = list == nullptr ? std::vector<DeviceInfo>() : *list;
    for (DeviceInfo& device : unusable) {
      device.usable = false;
      device.note = driver_lost_reason;
    }
    return unusable;
  }
  if (list == nullptr) {
    // Without a lock, which another thread could hold while the process is forked. The thread that loses the
    // race throws its list away; the other is never freed.
    auto asked = std::make_unique<const std::vector<DeviceInfo>>(ask_driver());
    if (known.compare_exchange_strong(list, asked.get(), std::memory_order_acq_rel)) {
      list = asked.release();
    }
  }
  return *list;
}

std::string absence() {
  if (driver_lost()) return driver_lost_reason;
  const Count found = count();
  return found.devices == 0 ? found.reason : std::to_string(found.devices) + " CUDA device(s) found";
}

}  // namespace kith::cuda
