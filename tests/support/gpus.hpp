// CUDA devices that tests find.
#pragma once

#include <cstdint>

#include "kith/execution.hpp"

namespace kith::test {

/// Those that Kith can use, counted once.
inline int gpus() {
  static const int count = [] {
    int usable = 0;
    for (const DeviceInfo& info : devices()) usable += info.device.kind == Device::Kind::cuda && info.usable;
    return usable;
  }();
  return count;
}

/// A call on the first of them.
inline Execution on_gpu(std::uint64_t device_memory_limit = 0) {
  Execution execution;
  execution.devices = {{Device::Kind::cuda, 0}};
  execution.device_memory_limit = device_memory_limit;
  return execution;
}

}  // namespace kith::test
