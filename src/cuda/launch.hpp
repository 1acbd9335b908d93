// What a launch asks of the runtime, asked once: attributes of devices and kernels.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <tuple>

#include <cuda_runtime_api.h>

#include "cuda/runtime.hpp"

namespace kith::cuda {

/// An attribute of a device.
inline int device_attribute(cudaDeviceAttr attribute, int device) {
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

/// Lets a kernel have so many bytes of dynamic shared memory on a device; returns how many of its blocks fit
/// a multiprocessor at once, at least 1. The device must be current.
template <class Kernel>
int allow_shared(Kernel kernel, int threads, std::size_t bytes, int device) {
  static std::mutex mutex;
  static std::map<std::tuple<const void*, int, std::size_t>, int> known;
  const auto* function = reinterpret_cast<const void*>(kernel);
  const std::scoped_lock lock(mutex);
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
