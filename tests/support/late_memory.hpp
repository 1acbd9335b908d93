// What a caller's default stream still does to its memory when it calls the library.
#pragma once

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <ostream>
#include <string>
#include <thread>

#include "support/device_memory.hpp"

namespace kith::test {

/// The two streams that are called the default: all threads' one, and that of each thread, which is what a
/// program compiled with --default-stream per-thread means by it.
enum class DefaultStream { legacy, per_thread };

inline cudaStream_t handle(DefaultStream which) {
  return which == DefaultStream::legacy ? cudaStreamLegacy : cudaStreamPerThread;
}
inline std::string name(DefaultStream which) {
  return which == DefaultStream::legacy ? "legacy" : "per_thread";
}
inline void PrintTo(DefaultStream which, std::ostream* out) {
  *out << name(which);
}

/// Makes a stream of the current device busy for so long that a call which does not wait is over before.
inline void keep_busy(cudaStream_t stream) {
  const auto wait = [](void* /*unused*/) { std::this_thread::sleep_for(std::chrono::milliseconds(60)); };
  cuda_ok(cudaLaunchHostFunc(stream, wait, nullptr));
}

/// A stream that does not go on before it is let go, or some seconds have passed.
class HeldStream {
 public:
  explicit HeldStream(cudaStream_t stream) : stream_(stream) {
    const auto wait = [](void* held) {
      const auto* flag = static_cast<const std::atomic<bool>*>(held);
      for (int i = 0; i < 3000 && flag->load(); ++i)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    };
    cuda_ok(cudaLaunchHostFunc(stream, wait, &held_));
  }
  HeldStream(const HeldStream&) = delete;
  HeldStream& operator=(const HeldStream&) = delete;
  ~HeldStream() {
    held_ = false;
    (void)cudaStreamSynchronize(stream_);
  }
  bool pending() const { return cudaStreamQuery(stream_) == cudaErrorNotReady; }

 private:
  cudaStream_t stream_;
  std::atomic<bool> held_{true};
};

/// Memory of a device that holds one thing until a stream, which is busy for a while, brings another.
class LateMemory {
 public:
  LateMemory(const void* before, const void* after, std::size_t bytes, int device = 0)
      : bytes_(bytes), before_(before, bytes, device), after_(after, bytes, device), memory_(bytes, device) {
    restore();
  }
  LateMemory(const LateMemory&) = delete;
  LateMemory& operator=(const LateMemory&) = delete;
  ~LateMemory() { synchronize(); }

  /// What it holds before, and nothing that changes it.
  void restore() {
    synchronize();
    cuda_ok(cudaMemcpy(memory_.data(), before_.data(), bytes_, cudaMemcpyDefault));
    synchronize();
  }
  /// The same, and on its way, by a stream of the current device, what it holds after.
  void start(cudaStream_t stream) {
    restore();
    keep_busy(stream);
    cuda_ok(cudaMemcpyAsync(memory_.data(), after_.data(), bytes_, cudaMemcpyDefault, stream));
  }
  const DeviceMemory& memory() const { return memory_; }
  void* data() const { return memory_.data(); }
  int device() const { return memory_.device(); }

 private:
  // Of the memory's device and of the current one.
  void synchronize() const {
    int current = 0;
    cuda_ok(cudaGetDevice(&current));
    cuda_ok(cudaDeviceSynchronize());
    cuda_ok(cudaSetDevice(memory_.device()));
    cuda_ok(cudaDeviceSynchronize());
    cuda_ok(cudaSetDevice(current));
  }
  std::size_t bytes_;
  DeviceMemory before_, after_, memory_;
};

}  // namespace kith::test
