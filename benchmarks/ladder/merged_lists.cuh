// A list of k a thread, merged by a tree (introduced by rung 13; rung 14 chooses the number of threads).
#pragma once

#include "gpu.cuh"
#include "transpose.cuh"

namespace kith::ladder {

/// Bytes of shared memory a block takes: a list for each thread.
inline std::size_t list_bytes(int threads, std::int64_t k) {
  return static_cast<std::size_t>(threads) * static_cast<std::size_t>(k) * sizeof(Neighbor);
}

/// The k nearest of two ascending lists, into the first.
__device__ inline void merge(Neighbor* into, const Neighbor* from, int k) {
  Neighbor merged[longest_list];
  for (int rank = 0, a = 0, b = 0; rank < k; ++rank) {
    merged[rank] = closer(from[b], into[a]) ? from[b++] : into[a++];
  }
  for (int rank = 0; rank < k; ++rank) into[rank] = merged[rank];
}

/// A block a query; blockDim.x is a power of two. Thread t owns list t of the shared ones; in each step the
/// lower half of the threads merges in the upper half's.
static __global__ void nearest_by_lists(const float* query, const float* point, int dim, std::int64_t points,
                                        int k, Neighbor* nearest) {
  extern __shared__ Neighbor lists[];
  const int t = static_cast<int>(threadIdx.x);
  const float* mine_query = query + static_cast<std::int64_t>(blockIdx.x) * dim;
  Neighbor* mine = lists + t * k;
  for (int rank = 0; rank < k; ++rank) mine[rank] = nobody();
  for (std::int64_t i = t; i < points; i += blockDim.x) {
    insert(mine, k, {squared_distance(mine_query, point + i, dim, points), static_cast<int>(i)});
  }
  for (int half = static_cast<int>(blockDim.x) / 2; half > 0; half /= 2) {
    __syncthreads();
    if (t < half) merge(mine, lists + (t + half) * k, k);
  }
  __syncthreads();
  for (int rank = t; rank < k; rank += static_cast<int>(blockDim.x)) {
    nearest[static_cast<std::int64_t>(blockIdx.x) * k + rank] = lists[rank];
  }
}

inline Answer search_by_lists(const Gpu& gpu, const Problem& problem, int threads, Run& run) {
  const Transposed on(gpu, problem, run);
  const auto nearest = gpu.room<Neighbor>(problem.queries * problem.k);
  run.search([&] {
    nearest_by_lists<<<blocks_for(problem.queries, 1), static_cast<unsigned>(threads),
                       list_bytes(threads, problem.k), gpu.stream()>>>(
        on.query.data(), on.point.data(), static_cast<int>(problem.dim), problem.points,
        static_cast<int>(problem.k), nearest.data());
    cuda::check_launch("nearest_by_lists");
    gpu.finish();
  });
  return put_all(problem, gpu.download(nearest));
}

}  // namespace kith::ladder
