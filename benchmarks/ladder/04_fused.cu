// Rung 4: distance and reduction in one kernel.
//
// Idea      A distance is used once: compare it where it was computed, in a register, and there is no
//           matrix. One block a query.
// Cost      queries x points x dim operations; the points are read once a query, mostly from the cache.
// Limit     How the points lie. Stored row by row, the 32 threads of a warp read values that are 4 dim bytes
//           apart: with 16 coordinates one load touches 16 lines of 128 bytes, and the load unit serves them
//           one after the other. With one query there is still one block only.
// Source    Kernel fusion; a rung of the reports.
#include "gpu.cuh"
#include "reduce.cuh"

namespace kith::ladder {
namespace {

constexpr int threads = 256;

__global__ void nearest_of_all(const float* query, const float* point, int dim, std::int64_t points,
                               Neighbor* nearest) {
  const float* mine_query = query + static_cast<std::int64_t>(blockIdx.x) * dim;
  Neighbor mine = nobody();
  for (std::int64_t i = threadIdx.x; i < points; i += threads) {
    mine = nearer(mine, {squared_distance(mine_query, point + i * dim, dim), static_cast<int>(i)});
  }
  mine = tree_reduce<threads>(mine);
  if (threadIdx.x == 0) nearest[blockIdx.x] = mine;
}

}  // namespace

Answer fused(const Problem& problem, Run& run) {
  const Gpu gpu(run);
  const OnDevice on(gpu, problem);
  const auto nearest = gpu.room<Neighbor>(problem.queries);
  run.search([&] {
    nearest_of_all<<<blocks_for(problem.queries, 1), threads, 0, gpu.stream()>>>(
        on.query.data(), on.point.data(), static_cast<int>(problem.dim), problem.points, nearest.data());
    cuda::check_launch("nearest_of_all");
    gpu.finish();
  });
  return put_all(problem, gpu.download(nearest));
}

}  // namespace kith::ladder
