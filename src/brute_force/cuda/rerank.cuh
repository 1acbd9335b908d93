// What every way of re-ranking candidates does at the end: bounds and counts.
#pragma once

#include "brute_force/cuda/bound.cuh"
#include "brute_force/cuda/kernels.hpp"
#include "select_k/cuda/key.cuh"

namespace kith::brute_force::cuda {

__device__ inline std::int64_t query_of(const Subset& subset, std::int64_t i) {
  return subset.ids == nullptr ? i : static_cast<std::int64_t>(subset.ids[i]);
}

// Which query a block is at, and its place among the blocks that share it. `slot`: where these meet.
struct Share {
  std::int64_t q;
  int slot, index, count;
};

// Where the first blocks of a launch share the queries that `heavy` names, and all other queries have a block
// each. False: there is nothing to do. By all threads of block `block`.
inline constexpr std::uint32_t nobody = 0xffffffffU;
__device__ inline bool find_share(const std::uint32_t* heavy, unsigned block, Share& share) {
  const int query = static_cast<int>(block) - most_heavy * heavy_shares;
  if (query < 0) {
    const int slot = static_cast<int>(block) / heavy_shares;
    share = {heavy[slot], slot, static_cast<int>(block) % heavy_shares, heavy_shares};
    return heavy[slot] != nobody;
  }
  share = {query, 0, 0, 1};
  const bool shared = threadIdx.x < most_heavy && heavy[threadIdx.x] == static_cast<unsigned>(query);
  return __syncthreads_or(shared ? 1 : 0) == 0;
}

// True in the last of the blocks that share a query: what the others wrote before, it can read, but not
// through the first-level cache. `last` is shared.
template <class R>
__device__ inline bool is_last(const Batch<R>& batch, const Share& share, int* last) {
  __threadfence();  // what each thread wrote is seen before the block's arrival is
  __syncthreads();
  if (threadIdx.x == 0) {
    const bool all = atomicAdd(batch.arrived + share.q, 1U) == static_cast<unsigned>(share.count) - 1;
    if (all) batch.arrived[share.q] = 0;
    *last = all ? 1 : 0;
  }
  __syncthreads();
  if (*last == 0) return false;
  __threadfence();  // and read after its arrival
  return true;
}

// The k-th key became known or smaller: the query's bound follows.
template <class R>
__device__ inline void tighten(const Batch<R>& batch, std::int64_t q, const Key<R>& worst) {
  if (worst.is_none()) return;
  const R distance = worst.distance();
  if (!(distance < batch.best[q])) return;
  batch.best[q] = distance;
  if (batch.scalars[q].kind == codes::RowKind::regular) {
    batch.bounds[q] = make_bound(distance, batch.space, batch.scalars[q], batch.maxima);
  }
}

// What is counted when a query's candidates are done with.
template <class R>
__device__ inline void finish_candidates(const Batch<R>& batch, std::int64_t q) {
  const std::uint32_t kept = batch.candidates.counts[q];
  batch.candidates.counts[q] = 0;
  atomicAdd(batch.counters + 4, static_cast<unsigned long long>(kept));
  const bool over = kept > batch.candidates.room;
  if (over && batch.overflow[q] == 0) {
    batch.overflow[q] = 1;
    atomicAdd(batch.counters + 1, 1ULL);
  }
}

}  // namespace kith::brute_force::cuda
