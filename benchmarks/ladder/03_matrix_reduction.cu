// Rung 3: the matrix of distances, then one block a query reduces its row.
//
// Idea      All rows are reduced at once, by a kernel of our own: a block's threads stride over a row, each
//           keeping its nearest in a register; a tree in shared memory finds the nearest of these.
// Cost      As rung 2, with two launches in all instead of some for every query.
// Limit     Memory: the matrix is written and read, 8 bytes a pair, where the points themselves are 4 dim
//           bytes and fit the cache. With one query one block does all the reading, and 131 of 132
//           multiprocessors wait for it.
// Source    Harris, Optimizing Parallel Reduction in CUDA (2007): sequential addressing.
#include "matrix.cuh"
#include "reduce.cuh"

namespace kith::ladder {
namespace {

constexpr int threads = 256;

__global__ void reduce_rows(const float* matrix, std::int64_t points, Neighbor* nearest) {
  const float* row = matrix + blockIdx.x * points;
  Neighbor mine = nobody();
  for (std::int64_t i = threadIdx.x; i < points; i += threads) {
    mine = nearer(mine, {row[i], static_cast<int>(i)});
  }
  mine = tree_reduce<threads>(mine);
  if (threadIdx.x == 0) nearest[blockIdx.x] = mine;
}

}  // namespace

Answer matrix_reduction(const Problem& problem, Run& run) {
  const Gpu gpu(run);
  const OnDevice on(gpu, problem);
  const std::int64_t rows = rows_at_once(gpu, problem, run);
  const auto matrix = gpu.room<float>(rows * problem.points);
  const auto nearest = gpu.room<Neighbor>(problem.queries);
  run.search([&] {
    for (std::int64_t first = 0; first < problem.queries; first += rows) {
      const std::int64_t some = smaller(rows, problem.queries - first);
      launch_fill_matrix(gpu, problem, on, first, some, matrix.data());
      reduce_rows<<<static_cast<unsigned>(some), threads, 0, gpu.stream()>>>(matrix.data(), problem.points,
                                                                             nearest.data() + first);
      cuda::check_launch("reduce_rows");
    }
    gpu.finish();
  });
  return put_all(problem, gpu.download(nearest));
}

}  // namespace kith::ladder
