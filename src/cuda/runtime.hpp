// The CUDA runtime, wrapped once: errors become exceptions, streams and memory have owners.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <cuda_runtime_api.h>

#include "cuda/fork.hpp"
#include "kith/error.hpp"

namespace kith::cuda {

/// @throws OutOfMemory or DeviceError that names the call
inline void check(cudaError_t status, const char* call) {
  if (status == cudaSuccess) return;
  (void)cudaGetLastError();
  const std::string text = std::string(call) + ": " + cudaGetErrorString(status);
  if (status == cudaErrorMemoryAllocation) {
    throw OutOfMemory("the GPU has no memory left (" + text +
                      "); search fewer queries at once, set a device memory limit, or name more devices");
  }
  throw DeviceError("the GPU reported a failure (" + text + ")");
}
#define KITH_CUDA(call) ::kith::cuda::check((call), #call)

/// Right after every kernel launch.
inline void check_launch(const char* kernel) {
  check(cudaGetLastError(), kernel);
}

// What a forked process has inherited it can only leave as it is: destructors then call nothing.

/// Makes a device current for a scope. @throws DeviceError, also in a process that was forked (fork.hpp)
class DeviceGuard {
 public:
  explicit DeviceGuard(int device) {
    use_driver();
    KITH_CUDA(cudaGetDevice(&before_));
    if (before_ != device) KITH_CUDA(cudaSetDevice(device));
  }
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;
  ~DeviceGuard() {
    if (!driver_lost()) (void)cudaSetDevice(before_);
  }

 private:
  int before_ = 0;
};

/// A stream of its own; never the default one.
class Stream {
 public:
  Stream() { KITH_CUDA(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking)); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream() {
    if (stream_ != nullptr && !driver_lost()) (void)cudaStreamDestroy(stream_);
  }
  operator cudaStream_t() const { return stream_; }  // NOLINT(google-explicit-constructor)
  void synchronize() const { KITH_CUDA(cudaStreamSynchronize(stream_)); }

 private:
  cudaStream_t stream_ = nullptr;
};

/// An event without timing: orders streams, or tells when a buffer is free again.
class Event {
 public:
  Event() { KITH_CUDA(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming)); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  ~Event() {
    if (!driver_lost()) (void)cudaEventDestroy(event_);
  }
  operator cudaEvent_t() const { return event_; }  // NOLINT(google-explicit-constructor)

 private:
  cudaEvent_t event_ = nullptr;
};

/// An event of the calling thread's on the current device, kept for the next call: making one takes longer
/// than using it.
inline std::unique_ptr<Event>& own_event() {
  thread_local std::vector<std::unique_ptr<Event>> events;  // by device
  int device = 0;
  KITH_CUDA(cudaGetDevice(&device));
  if (static_cast<std::size_t>(device) >= events.size()) events.resize(static_cast<std::size_t>(device) + 1);
  return events[static_cast<std::size_t>(device)];
}

/// What `before` has been given comes before what `after`, a stream of the current device, is given later.
/// `before` may be of another device. An event costs less than asking whether anything is pending (an H200:
/// 0.5 us against 1.4 us).
inline void follow(cudaStream_t before, cudaStream_t after) {
  std::unique_ptr<Event>& event = own_event();
  if (event == nullptr) event = std::make_unique<Event>();
  if (cudaEventRecord(*event, before) == cudaSuccess) {
    KITH_CUDA(cudaStreamWaitEvent(after, *event, 0));
    return;
  }
  (void)cudaGetLastError();
  event.reset();  // of a device that was reset
  KITH_CUDA(
      cudaStreamSynchronize(before));  // or the stream is another device's: its events are not for this one
}

/// The same for both default streams of the current device, the legacy one and the calling thread's own. A
/// stream of ours, which does not block, waits for neither by itself. An event of the legacy stream comes
/// after all blocking streams, and the threads' own are of these.
inline void follow_default(cudaStream_t after) {
  follow(cudaStreamLegacy, after);
}

/// Device memory from the stream-ordered pool. The stream must outlive it.
template <class T>
class Buffer {
 public:
  Buffer() = default;
  Buffer(std::int64_t count, cudaStream_t stream) : count_(count), stream_(stream) {
    if (count > 0) {
      KITH_CUDA(cudaMallocAsync(reinterpret_cast<void**>(&data_), static_cast<std::size_t>(count) * sizeof(T),
                                stream));
    }
  }
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Buffer() {
    if (data_ != nullptr && !driver_lost()) (void)cudaFreeAsync(data_, stream_);
  }

  /// At least `count` values; what was inside is lost when it grows.
  T* reserve(std::int64_t count, cudaStream_t stream) {
    if (count > count_) {
      *this = Buffer();
      *this = Buffer(count, stream);
    }
    return data_;
  }
  T* data() const { return data_; }
  std::int64_t size() const { return count_; }
  std::uint64_t bytes() const { return static_cast<std::uint64_t>(count_) * sizeof(T); }
  bool empty() const { return count_ == 0; }

 private:
  void swap(Buffer& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(count_, other.count_);
    std::swap(stream_, other.stream_);
  }
  T* data_ = nullptr;
  std::int64_t count_ = 0;
  cudaStream_t stream_ = nullptr;
};

/// Page-locked host memory.
template <class T>
class PinnedBuffer {
 public:
  PinnedBuffer() = default;
  explicit PinnedBuffer(std::int64_t count) : count_(count) {
    if (count > 0) {
      KITH_CUDA(
          cudaMallocHost(reinterpret_cast<void**>(&data_), static_cast<std::size_t>(count) * sizeof(T)));
    }
  }
  PinnedBuffer(PinnedBuffer&& other) noexcept { swap(other); }
  PinnedBuffer& operator=(PinnedBuffer&& other) noexcept {
    swap(other);
    return *this;
  }
  ~PinnedBuffer() {
    if (data_ != nullptr && !driver_lost()) (void)cudaFreeHost(data_);
  }
  T* reserve(std::int64_t count) {
    if (count > count_) {
      *this = PinnedBuffer();
      *this = PinnedBuffer(count);
    }
    return data_;
  }
  T* data() const { return data_; }
  std::int64_t size() const { return count_; }

 private:
  void swap(PinnedBuffer& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(count_, other.count_);
  }
  T* data_ = nullptr;
  std::int64_t count_ = 0;
};

/// Host memory of somebody else's, page-locked and known to all devices for as long as this lives.
class PinnedRegion {
 public:
  PinnedRegion() = default;
  PinnedRegion(const PinnedRegion&) = delete;
  PinnedRegion& operator=(const PinnedRegion&) = delete;
  ~PinnedRegion() {
    if (data_ != nullptr && !driver_lost()) (void)cudaHostUnregister(data_);
  }
  /// False where the driver refuses (some kinds of mapped files).
  bool add(const void* data, std::uint64_t bytes) {
    auto* start = const_cast<void*>(data);
    for (const unsigned flags : {cudaHostRegisterPortable | cudaHostRegisterMapped | cudaHostRegisterReadOnly,
                                 cudaHostRegisterPortable | cudaHostRegisterMapped}) {
      if (cudaHostRegister(start, bytes, flags) == cudaSuccess) {
        data_ = start;
        return true;
      }
      (void)cudaGetLastError();
    }
    return false;
  }
  bool known() const { return data_ != nullptr; }

 private:
  void* data_ = nullptr;
};

}  // namespace kith::cuda
