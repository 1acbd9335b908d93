// What every way of re-ranking candidates does at the end: bounds and counts.
#pragma once

#include "brute_force/cuda/bound.cuh"
#include "brute_force/cuda/kernels.hpp"
#include "select_k/cuda/key.cuh"

namespace kith::brute_force::cuda {

__device__ inline std::int64_t query_of(const Subset& subset, std::int64_t i) {
  return subset.ids == nullptr ? i : static_cast<std::int64_t>(subset.ids[i]);
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
