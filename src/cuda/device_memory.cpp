// Device memory for other libraries' eyes, and the streams where they meet us.
#include "cuda/device_memory.hpp"

#include <algorithm>
#include <map>
#include <mutex>

#include "cuda/pool.hpp"
#include "cuda/runtime.hpp"

namespace kith::cuda {
namespace {

// Streams of a device; they live as long as the process, whose end may come after the driver's.
struct Streams {
  cudaStream_t meeting = nullptr;
  cudaStream_t memory = nullptr;
};

const Streams& streams_of(int device) {
  use_driver();
  static std::mutex mutex;
  static auto& all = *new std::map<int, Streams>;
  const std::scoped_lock lock(mutex);
  const auto known = all.find(device);
  if (known != all.end()) return known->second;
  const DeviceGuard guard(device);
  Streams made;
  KITH_CUDA(cudaStreamCreateWithFlags(&made.meeting, cudaStreamNonBlocking));
  KITH_CUDA(cudaStreamCreateWithFlags(&made.memory, cudaStreamNonBlocking));
  return all.emplace(device, made).first->second;
}

void free_memory(void* memory, int device) noexcept {
  // Errors have nobody to go to; after the driver's end, or a fork, there is nothing to free.
  if (driver_lost()) return;
  int before = 0;
  if (cudaGetDevice(&before) != cudaSuccess || cudaSetDevice(device) != cudaSuccess) return;
  (void)cudaDeviceSynchronize();
  try {
    (void)cudaFreeAsync(memory, streams_of(device).memory);
  } catch (const Error&) {
    (void)cudaFree(memory);  // no stream to free it on: at once, then
  }
  (void)cudaSetDevice(before);
  (void)cudaGetLastError();
}

}  // namespace

std::shared_ptr<void> allocate(int device, std::uint64_t bytes) {
  if (bytes == 0) return nullptr;
  const cudaStream_t stream = streams_of(device).memory;
  const DeviceGuard guard(device);
  void* memory = nullptr;
  KITH_CUDA(cudaMallocAsync(&memory, bytes, stream));
  std::shared_ptr<void> owner(memory, [device](void* p) { free_memory(p, device); });
  KITH_CUDA(cudaStreamSynchronize(stream));  // other streams write to it next
  return owner;
}

std::uint64_t available_bytes(int device) {
  use_driver();
  const DeviceGuard guard(device);
  return available_memory({});
}

void copy_to_host(const void* from, int device, void* to, std::uint64_t bytes) {
  if (bytes == 0) return;
  const cudaStream_t stream = streams_of(device).memory;
  const DeviceGuard guard(device);
  follow_default(stream);
  KITH_CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream));
  KITH_CUDA(cudaStreamSynchronize(stream));
}

void copy_rows_to_host(const DatasetView& rows, void* to) {
  if (rows.rows == 0) return;
  const cudaStream_t stream = streams_of(rows.device).memory;
  const DeviceGuard guard(rows.device);
  const std::size_t width = static_cast<std::size_t>(rows.dim) * size_of(rows.dtype);
  const std::size_t pitch = static_cast<std::size_t>(rows.row_stride) * size_of(rows.dtype);
  KITH_CUDA(cudaMemcpy2DAsync(to, width, rows.data, std::max(width, pitch), width,
                              static_cast<std::size_t>(rows.rows), cudaMemcpyDeviceToHost, stream));
  KITH_CUDA(cudaStreamSynchronize(stream));
}

void copy_to_device(const void* from, void* to, int device, std::uint64_t bytes) {
  if (bytes == 0) return;
  const cudaStream_t stream = streams_of(device).memory;
  const DeviceGuard guard(device);
  KITH_CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream));
  KITH_CUDA(cudaStreamSynchronize(stream));
}

int device_of(const void* address) {
  use_driver();
  cudaPointerAttributes attributes{};
  KITH_CUDA(cudaPointerGetAttributes(&attributes, address));
  if (attributes.type != cudaMemoryTypeDevice && attributes.type != cudaMemoryTypeManaged) {
    throw InvalidArgument("the address is not in the memory of a GPU; pass an array that lies there");
  }
  return attributes.device;
}

void* meeting_stream(int device) {
  return streams_of(device).meeting;
}

void meet(int device, std::uintptr_t stream) {
  const cudaStream_t meeting = streams_of(device).meeting;
  const DeviceGuard guard(device);
  // The numbers 1 and 2 are what cudaStreamLegacy and cudaStreamPerThread are defined as.
  // NOLINTNEXTLINE(performance-no-int-to-ptr)
  follow(reinterpret_cast<cudaStream_t>(stream), meeting);
}

void meet_default(int device) {
  const cudaStream_t meeting = streams_of(device).meeting;
  const DeviceGuard guard(device);
  follow_default(meeting);
}

void wait_for_meeting(int device) {
  const cudaStream_t meeting = streams_of(device).meeting;
  const DeviceGuard guard(device);
  KITH_CUDA(cudaStreamSynchronize(meeting));
}

}  // namespace kith::cuda
