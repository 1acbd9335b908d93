// The kernel of groups of queries, and its launch.
#pragma once

#include "cuda/launch.hpp"
#include "point_tree/cuda/group.cuh"
#include "point_tree/cuda/group_candidates.cuh"
#include "point_tree/cuda/group_walk.cuh"

namespace kith::point_tree::cuda {

/// search_groups() where `cells` is set: search_group_columns.cu.
void search_columns(const GroupSearch& search, int device, cudaStream_t stream);

namespace {

template <int K, bool manhattan, Output output>
__global__ void __launch_bounds__(warps_a_block<K> * 32, blocks_at_once<K>)
    group_kernel(const __grid_constant__ GroupSearch search) {
  extern __shared__ __align__(16) unsigned char memory[];
  const int warp = static_cast<int>(threadIdx.x) / 32;
  std::int64_t last = search.count;
  if (search.usable != nullptr) {
    const std::int64_t usable = static_cast<std::int64_t>(*search.usable) - search.first;
    last = usable < last ? usable : last;
  }
  // The warps of a block take turns, so that they find each other's nodes and points in cache.
  const std::int64_t block = static_cast<std::int64_t>(blockIdx.x) * warps_a_block<K> * search.groups_a_warp;
  const std::int64_t end = 32 * (block + warps_a_block<K> * search.groups_a_warp);
  last = end < last ? end : last;
  Group<K, manhattan, output> group(search, memory + warp * shared_bytes<K>(search.stack));
#pragma unroll 1
  for (std::int64_t first = 32 * (block + warp); first < last; first += 32 * warps_a_block<K>) {
    group.run(search.first + first, last - first < 32 ? static_cast<int>(last - first) : 32);
  }
}

template <int K, bool manhattan, Output output>
void launch(const GroupSearch& search, int device, cudaStream_t stream) {
  const std::size_t bytes = static_cast<std::size_t>(warps_a_block<K>) * shared_bytes<K>(search.stack);
  allow_shared(group_kernel<K, manhattan, output>, warps_a_block<K> * 32, bytes, device);
  const std::int64_t queries = 32 * warps_a_block<K> * search.groups_a_warp;
  group_kernel<K, manhattan, output><<<static_cast<unsigned>((search.count + queries - 1) / queries),
                                       warps_a_block<K> * 32, bytes, stream>>>(search);
  check_launch("group_kernel");
}

// Calls f.operator()<K>() with the shortest list that has room for k.
template <class F>
void visit_list(std::int64_t k, const F& f) {
  if (k <= 8)
    f.template operator()<8>();
  else if (k <= 16)
    f.template operator()<16>();
  else if (k <= 24)
    f.template operator()<24>();
  else
    f.template operator()<32>();
}

}  // namespace
}  // namespace kith::point_tree::cuda
