// The CPU as one of the devices.
#pragma once

#include "kith/execution.hpp"

namespace kith {

/// This machine's CPU: its model, memory, usable cores and instruction sets.
DeviceInfo cpu_device();

}  // namespace kith
