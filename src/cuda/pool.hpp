// How much of a device's memory is taken, and kept.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/runtime.hpp"
#include "kith/execution.hpp"

namespace kith::cuda {

/// Lets a device's pool keep some memory between calls: getting it anew takes longer than many a search. A
/// threshold that somebody has set already stays.
inline void keep_some_memory(int device) {
  constexpr std::uint64_t kept_bytes = std::uint64_t{2} << 30U;
  cudaMemPool_t pool = nullptr;
  std::uint64_t threshold = 0;
  KITH_CUDA(cudaDeviceGetDefaultMemPool(&pool, device));
  KITH_CUDA(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold));
  if (threshold != 0) return;
  threshold = kept_bytes;
  KITH_CUDA(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold));
}

/// Bytes that a call may take of the current device: the caller's limit, or most of what is free. Others may
/// use the device too.
inline std::uint64_t available_memory(const Execution& execution) {
  if (execution.device_memory_limit > 0) return execution.device_memory_limit;
  std::size_t free = 0;
  std::size_t total = 0;
  KITH_CUDA(cudaMemGetInfo(&free, &total));
  return free / 16 * 15;
}

}  // namespace kith::cuda
