// GPUs in a forked process. No CUDA types: builds without CUDA include it too.
#pragma once

namespace kith::cuda {

/// Before the driver is called. @throws DeviceError in a process that was forked from one that had used it:
/// there the driver does not work, and calls may never return
void check_driver();

/// The same, and notes that this process uses the driver from now on.
void use_driver();

/// Whether this process was forked from one that had used the driver: what a destructor asks before it calls.
bool driver_lost() noexcept;

/// What to tell a user then.
inline constexpr const char* driver_lost_reason =
    "this process was forked from one that had used CUDA, and CUDA does not work after a fork; start "
    "processes by multiprocessing's \"spawn\" or \"forkserver\", or use the CPU in forked ones";

}  // namespace kith::cuda
