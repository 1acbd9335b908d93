// Device memory and stream order for programs that share arrays with other GPU libraries (the Python module).
// No CUDA types: a CPU-only build has the same functions, which say that it has no GPU.
#pragma once

#include <cstdint>
#include <memory>

#include "kith/dataset.hpp"

namespace kith::cuda {

/// Memory on a device. It is freed when the last owner lets go of it and the device has finished what it was
/// given until then, since other libraries may still be reading.
/// @throws OutOfMemory, DeviceError
std::shared_ptr<void> allocate(int device, std::uint64_t bytes);

/// Bytes that calls without a limit may take of a device: most of what is free. @throws DeviceError
std::uint64_t available_bytes(int device);

/// Copies to host memory, after what the default streams have been given; complete on return. @throws
/// DeviceError
void copy_to_host(const void* from, int device, void* to, std::uint64_t bytes);

/// Rows in device memory to contiguous ones in host memory; complete on return. @throws DeviceError
void copy_rows_to_host(const DatasetView& rows, void* to);

/// Copies from host memory; complete on return. @throws DeviceError
void copy_to_device(const void* from, void* to, int device, std::uint64_t bytes);

/// The device whose memory, or managed memory, an address lies in. @throws InvalidArgument for host memory
int device_of(const void* address);

/// A stream of the process's own on a device, where the work of other libraries and ours meet: they make it
/// wait for their arrays, a search waits for it. @throws DeviceError
void* meeting_stream(int device);

/// Whatever is on `stream` now comes before what the meeting stream is given later.
/// @param stream a cudaStream_t of the device; 1 and 2 are the legacy and the per-thread default stream
void meet(int device, std::uintptr_t stream);

/// The same of both default streams of the device, the legacy one and the calling thread's own.
void meet_default(int device);

/// Waits for the meeting stream.
void wait_for_meeting(int device);

}  // namespace kith::cuda
