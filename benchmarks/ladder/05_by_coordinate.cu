// Rung 5: points coordinate by coordinate.
//
// Idea      From an array of structures to a structure of arrays: all first coordinates, then all second
//           ones. The 32 threads of a warp, which own 32 adjacent points, then read 128 adjacent bytes: one
//           line a load.
// Cost      One pass over the points to transpose them, once for all searches (`build`); then as rung 4.
// Limit     With many queries the loads themselves: each value is loaded, used by one subtraction and one
//           multiply-add, and forgotten. With one query, the one block: it waits for memory, not for lines,
//           and now a point's coordinates come from dim places far apart where a row was one or two lines.
//           There it loses to rung 4.
// Source    Coalescing, CUDA C++ Best Practices Guide; the reports' transposition.
#include "reduce.cuh"
#include "transpose.cuh"

namespace kith::ladder {
namespace {

constexpr int threads = 256;

__global__ void nearest_by_coordinate(const float* query, const float* point, int dim, std::int64_t points,
                                      Neighbor* nearest) {
  const float* mine_query = query + static_cast<std::int64_t>(blockIdx.x) * dim;
  Neighbor mine = nobody();
  for (std::int64_t i = threadIdx.x; i < points; i += threads) {
    mine = nearer(mine, {squared_distance(mine_query, point + i, dim, points), static_cast<int>(i)});
  }
  mine = tree_reduce<threads>(mine);
  if (threadIdx.x == 0) nearest[blockIdx.x] = mine;
}

}  // namespace

Answer by_coordinate(const Problem& problem, Run& run) {
  const Gpu gpu(run);
  const Transposed on(gpu, problem, run);
  const auto nearest = gpu.room<Neighbor>(problem.queries);
  run.search([&] {
    nearest_by_coordinate<<<blocks_for(problem.queries, 1), threads, 0, gpu.stream()>>>(
        on.query.data(), on.point.data(), static_cast<int>(problem.dim), problem.points, nearest.data());
    cuda::check_launch("nearest_by_coordinate");
    gpu.finish();
  });
  return put_all(problem, gpu.download(nearest));
}

}  // namespace kith::ladder
