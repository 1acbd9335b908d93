// What a launch asks of the runtime, asked once: attributes of devices and kernels.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <tuple>
#include <type_traits>

#include <cuda_runtime_api.h>

#include "cuda/runtime.hpp"
#include "kith/error.hpp"

namespace kith::cuda {

/// For tests: every device is one of compute capability 8.6, with as little shared memory. Set it while
/// nothing is searched; with KITH_TEST_AS_86 in the environment it is so from the start.
inline std::atomic<bool> pretends_86{std::getenv("KITH_TEST_AS_86") != nullptr};
inline int attribute_of_86(cudaDeviceAttr attribute) {
  switch (attribute) {
    case cudaDevAttrComputeCapabilityMajor: return 8;
    case cudaDevAttrComputeCapabilityMinor: return 6;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin: return 99 << 10;
    default: return -1;
  }
}

/// An attribute of a device.
inline int device_attribute(cudaDeviceAttr attribute, int device) {
  if (pretends_86 && attribute_of_86(attribute) >= 0) return attribute_of_86(attribute);
  static std::mutex mutex;
  static std::map<std::pair<int, int>, int> known;
  const std::scoped_lock lock(mutex);
  const auto [at, fresh] = known.try_emplace({static_cast<int>(attribute), device}, 0);
  if (fresh) {
    const cudaError_t status = cudaDeviceGetAttribute(&at->second, attribute, device);
    if (status != cudaSuccess) known.erase(at);
    check(status, "cudaDeviceGetAttribute");
  }
  return at->second;
}

inline int processors(int device) {
  return device_attribute(cudaDevAttrMultiProcessorCount, device);
}
inline int shared_limit(int device) {
  return device_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
}

/// Whether a kernel may be launched before the one it follows has ended: the device must be able to (compute
/// capability 9.0 and up), and the kernel's code must have been compiled for such a device, since in other
/// code wait_for_previous() is nothing. The device must be current.
inline bool overlaps_launches(const void* kernel, int device) {
  if (device_attribute(cudaDevAttrComputeCapabilityMajor, device) < 9) return false;
  static std::mutex mutex;
  static std::map<std::pair<const void*, int>, bool> known;
  const std::scoped_lock lock(mutex);
  const auto found = known.find({kernel, device});
  if (found != known.end()) return found->second;
  cudaFuncAttributes attributes{};
  KITH_CUDA(cudaFuncGetAttributes(&attributes, kernel));
  return known.emplace(std::make_pair(kernel, device), attributes.ptxVersion >= 90).first->second;
}

/// Launches a kernel that begins with wait_for_previous(): its launch overlaps the end of what is on the
/// stream before it.
template <class... Parameters, class... Arguments>
void launch_early(void (*kernel)(Parameters...), dim3 grid, int threads, std::size_t shared_bytes, int device,
                  cudaStream_t stream, Arguments&&... arguments) {
  static_assert((std::is_same_v<std::decay_t<Parameters>, std::decay_t<Arguments>> && ...));
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  if (overlaps_launches(reinterpret_cast<const void*>(kernel), device)) {
    config.attrs = &attribute;
    config.numAttrs = 1;
  }
  void* pointers[] = {const_cast<void*>(static_cast<const void*>(&arguments))...};
  KITH_CUDA(cudaLaunchKernelExC(&config, reinterpret_cast<const void*>(kernel), pointers));
}

#ifdef __CUDACC__
/// First in a kernel of launch_early: what came before is complete.
__device__ inline void wait_for_previous() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  cudaGridDependencySynchronize();
#endif
}
/// Lets the next kernel be launched already; it still waits for this one's end.
__device__ inline void let_next_launch() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  cudaTriggerProgrammaticLaunchCompletion();
#endif
}
#endif

/// Refuses what a device that it pretends to be would refuse.
inline void mind_pretended_limit(const void* kernel, std::size_t bytes, int device) {
  cudaFuncAttributes attributes{};
  KITH_CUDA(cudaFuncGetAttributes(&attributes, kernel));
  const std::size_t all = attributes.sharedSizeBytes + bytes;
  const int limit = shared_limit(device);
  if (all > static_cast<std::size_t>(limit)) {
    throw DeviceError("a kernel asks for " + std::to_string(all) + " bytes of shared memory, the limit is " +
                      std::to_string(limit));
  }
}

/// Lets a kernel have so many bytes of dynamic shared memory on a device; returns how many of its blocks fit
/// a multiprocessor at once, at least 1. The device must be current.
template <class Kernel>
int allow_shared(Kernel kernel, int threads, std::size_t bytes, int device) {
  static std::mutex mutex;
  static std::map<std::tuple<const void*, int, std::size_t>, int> known;
  const auto* function = reinterpret_cast<const void*>(kernel);
  const std::scoped_lock lock(mutex);
  if (pretends_86) mind_pretended_limit(function, bytes, device);
  const auto found = known.find({function, device, bytes});
  if (found != known.end()) return found->second;
  // More than 48 KiB, static memory included, must be asked for; the largest so far stays allowed.
  if (bytes > (std::size_t{40} << 10U)) {
    static std::map<std::pair<const void*, int>, std::size_t> allowed;
    std::size_t& most = allowed[{function, device}];
    if (bytes > most) {
      KITH_CUDA(cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                     static_cast<int>(bytes)));
      most = bytes;
    }
  }
  int resident = 0;
  KITH_CUDA(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, function, threads, bytes));
  if (resident < 1) resident = 1;
  known.emplace(std::make_tuple(function, device, bytes), resident);
  return resident;
}

}  // namespace kith::cuda
