// Keys of a warp, one a thread: sorted and merged by exchanges (Batcher 1968). All threads call together.
#pragma once

#include <cstdint>

#include "select_k/cuda/key.cuh"

namespace kith::select_k::cuda {

__device__ inline Key<float> shuffle(const Key<float>& key, int from) {
  return {__shfl_sync(0xffffffffU, key.word, from)};
}
__device__ inline Key<double> shuffle(const Key<double>& key, int from) {
  return {__shfl_sync(0xffffffffU, key.word, from), __shfl_sync(0xffffffffU, key.low, from)};
}
template <class R>
__device__ Key<R> exchange(const Key<R>& key, int apart, bool smaller) {
  const Key<R> other = shuffle(key, static_cast<int>(threadIdx.x % 32) ^ apart);
  return (other < key) == smaller ? other : key;
}
/// Ascending by lane.
template <class R>
__device__ Key<R> sort_warp(Key<R> key) {
  const int lane = static_cast<int>(threadIdx.x % 32);
#pragma unroll
  for (int size = 2; size <= 32; size *= 2) {
#pragma unroll
    for (int apart = size / 2; apart > 0; apart /= 2)
      key = exchange(key, apart, ((lane & apart) == 0) == ((lane & size) == 0));
  }
  return key;
}
/// The 32 smallest of an ascending list and of as many more.
template <class R>
__device__ Key<R> merge_warp(const Key<R>& list, const Key<R>& more) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  const Key<R> falling = shuffle(sort_warp(more), 31 - lane);
  Key<R> key = falling < list ? falling : list;
#pragma unroll
  for (int apart = 16; apart > 0; apart /= 2) key = exchange(key, apart, (lane & apart) == 0);
  return key;
}

/// The smallest, in all threads.
template <class R>
__device__ Key<R> least_of_warp(Key<R> key) {
#pragma unroll
  for (int apart = 16; apart > 0; apart /= 2) {
    const Key<R> other = shuffle(key, static_cast<int>(threadIdx.x % 32) ^ apart);
    if (other < key) key = other;
  }
  return key;
}

}  // namespace kith::select_k::cuda
