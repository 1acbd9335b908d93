// The kernel of a query a warp, its memory and its launch.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <cuda/atomic>

#include "cuda/launch.hpp"
#include "point_tree/cuda/warp_walk.cuh"

namespace kith::point_tree::cuda {
namespace {

constexpr int warps_a_block = constants.walk_warps;

// With D the scratch lies in shared memory, and the compiler may know.
template <class T, int D, class List>
__global__ void __launch_bounds__(warps_a_block * 32) warp_kernel(const __grid_constant__ WarpSearch<T> s) {
  extern __shared__ __align__(16) unsigned char memory[];
  const int in_block = static_cast<int>(threadIdx.x) / 32;
  const std::int64_t warp = static_cast<std::int64_t>(blockIdx.x) * warps_a_block + in_block;
  const std::int64_t warps = static_cast<std::int64_t>(gridDim.x) * warps_a_block;
  unsigned char* scratch = memory + in_block * s.scratch_bytes;
  if constexpr (D == 0) {
    if (s.scratch != nullptr) scratch = s.scratch + warp * s.scratch_bytes;
  }
  Walk<T, D, List> walk(s, scratch, warp);
  const std::int64_t count = s.device_count == nullptr ? s.count : static_cast<std::int64_t>(*s.device_count);
  for (std::int64_t i = warp; i < count; i += warps) {
    walk.run(s.order != nullptr ? s.order[i] : (s.short_order != nullptr ? s.short_order[i] : i));
  }
  if (s.report == nullptr) return;
  // What the block has written is there before it arrives; the last to arrive sees all of it.
  __shared__ bool last;
  __syncthreads();
  if (threadIdx.x == 0) {
    const ::cuda::atomic_ref<unsigned, ::cuda::thread_scope_device> arrived(*s.arrived);
    last = arrived.fetch_add(1, ::cuda::memory_order_acq_rel) == gridDim.x - 1;
    if (last) arrived.store(0, ::cuda::memory_order_relaxed);
  }
  __syncthreads();
  if (!last || threadIdx.x >= 32) return;
  // All is read before anything is written: one way to memory.
  const int lane = static_cast<int>(threadIdx.x);
  const bool counts = lane >= 2 && lane < 2 + s.others;
  unsigned long long sums[2] = {0, 0};
  unsigned long long mine = counts ? __ldcg(s.counts + 2 * count_slots + lane - 2) : 0;
#pragma unroll
  for (int at = lane; at < count_slots; at += 32) {
    const ulonglong2 both = __ldcg(reinterpret_cast<const ulonglong2*>(s.counts) + at);
    sums[0] += both.x;
    sums[1] += both.y;
  }
#pragma unroll
  for (int apart = 16; apart > 0; apart /= 2) {
    sums[0] += __shfl_xor_sync(everyone, sums[0], apart);
    sums[1] += __shfl_xor_sync(everyone, sums[1], apart);
  }
  if (lane < 2) mine = sums[lane];
  if (lane < 2 + s.others) *static_cast<volatile unsigned long long*>(s.report + lane) = mine;
  __syncwarp();  // all of them are read
  for (int at = lane; at < 2 * count_slots + s.others; at += 32) s.counts[at] = 0;
}

template <class T>
void lay_out(WarpSearch<T>& search, std::int64_t levels) {
  // A node's children at most above most_unordered; from there on one node at a time, the last, leaves at
  // most 15 entries a level.
  search.stack_bytes =
      (most_unordered + 32 + 15 * (levels + 1)) * static_cast<std::int64_t>(sizeof(Waiting<T, std::int64_t>));
  search.scratch_bytes =
      (search.stack_bytes + search.tree.dim * static_cast<std::int64_t>(sizeof(T)) + 15) / 16 * 16;
  const std::int64_t k = search.answer.k;
  search.longest = k + (k / 2 > 64 ? k / 2 : 64);
  search.list_room = (search.longest + 32 + 1) / 2 * 2;
}

template <class T, class List, bool special_3d = false>
void launch(WarpSearch<T> search, std::int64_t levels, const WarpMemory& memory, unsigned char* scratch,
            int device, cudaStream_t stream) {
  if (search.count == 0) return;
  lay_out(search, levels);
  const std::size_t shared =
      memory.scratch > 0 ? 0 : static_cast<std::size_t>(warps_a_block * search.scratch_bytes);
  search.scratch = memory.scratch > 0 ? scratch : nullptr;
  search.lists = scratch + memory.warps * memory.scratch;
  const std::int64_t blocks =
      std::min((search.count + warps_a_block - 1) / warps_a_block, memory.warps / warps_a_block);
  const auto go = [&](auto kernel) {
    allow_shared(kernel, warps_a_block * 32, shared, device);
    kernel<<<static_cast<unsigned>(blocks), warps_a_block * 32, shared, stream>>>(search);
    check_launch("warp_kernel");
  };
  if constexpr (special_3d) {
    if (search.tree.dim == 3 && memory.scratch == 0) {
      go(warp_kernel<T, 3, List>);
      return;
    }
  }
  go(warp_kernel<T, 0, List>);
}

}  // namespace
}  // namespace kith::point_tree::cuda
