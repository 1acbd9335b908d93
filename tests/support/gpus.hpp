// CUDA devices that tests find.
#pragma once

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

}  // namespace kith::test
