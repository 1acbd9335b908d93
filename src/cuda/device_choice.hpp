// The device that a call runs on: the CPU or GPUs. No CUDA types: builds without CUDA include it too.
#pragma once

#include "kith/execution.hpp"

namespace kith::cuda {

/// What kind of device `execution` names. @throws InvalidArgument for none, for both kinds, or for a device
/// memory limit without a GPU; DeviceError for
/// CUDA in a build without it
Device::Kind kind_of_devices(const Execution& execution);

/// What the driver reports of a GPU that can be used. @throws DeviceError where it is not there or cannot be
DeviceInfo info_of(const Device& gpu);

}  // namespace kith::cuda
