// The device's memory pool, set up once.
#pragma once

#include <cstdint>

#include "cuda/runtime.hpp"

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

}  // namespace kith::cuda
