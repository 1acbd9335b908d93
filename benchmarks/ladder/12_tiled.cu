// Rung 12: k > 1, distances by tiles in shared memory.
//
// Idea      The matrix of distances is computed as a matrix product is: a block of 16 x 16 threads loads 16
//           coordinates of 16 queries and of 16 points into shared memory once, and each value serves 16
//           pairs. Then rung 11's insertion over the finished distances.
// Cost      queries x points x dim operations, loads cut by 16; the matrix written and read once.
// Limit     The second kernel: still one thread a query, 512 threads on the whole chip, each reading 8192
//           distances one after the other. The first is limited by shared memory: two loads of it for each
//           subtraction and multiply-add.
// Source    Tiling, CUDA C++ Programming Guide (2007); Garcia et al. (2008) for distances.
#include "matrix.cuh"

namespace kith::ladder {
namespace {

constexpr int tile = 16;
constexpr int threads = 64;

// Block (x, y): points [16 x, 16 x + 16), queries [16 y, 16 y + 16). The matrix has a column a query, so that
// the threads of the second kernel read adjacent values.
__global__ void fill_tile(const float* query, const float* point, int dim, std::int64_t queries,
                          std::int64_t points, float* matrix) {
  __shared__ float some_query[tile][tile];      // [coordinate][query]
  __shared__ float some_point[tile][tile + 1];  // [point][coordinate]; one more against bank conflicts
  const int tx = static_cast<int>(threadIdx.x);
  const int ty = static_cast<int>(threadIdx.y);
  const std::int64_t first_query = static_cast<std::int64_t>(blockIdx.y) * tile;
  const std::int64_t first_point = static_cast<std::int64_t>(blockIdx.x) * tile;
  float sum = 0;
  for (int c = 0; c < dim; c += tile) {
    // Thread (tx, ty) loads coordinate c + tx of query ty and of point ty; what is not there is 0 in both.
    const bool inside = c + tx < dim;
    some_query[tx][ty] =
        inside && first_query + ty < queries ? query[(first_query + ty) * dim + c + tx] : 0.0F;
    some_point[ty][tx] =
        inside && first_point + ty < points ? point[(first_point + ty) * dim + c + tx] : 0.0F;
    __syncthreads();
#pragma unroll
    for (int j = 0; j < tile; ++j) {
      const float difference = some_query[j][tx] - some_point[ty][j];
      sum += difference * difference;
    }
    __syncthreads();  // before the next coordinates overwrite these
  }
  // And owns the pair of query tx and point ty.
  if (first_query + tx < queries && first_point + ty < points) {
    matrix[(first_point + ty) * queries + first_query + tx] = sum;
  }
}

__global__ void select_by_insertion(const float* matrix, std::int64_t queries, std::int64_t points, int k,
                                    Neighbor* nearest) {
  const std::int64_t q = blockIdx.x * static_cast<std::int64_t>(threads) + threadIdx.x;
  if (q >= queries) return;
  Neighbor list[longest_list];
  for (int rank = 0; rank < k; ++rank) list[rank] = nobody();
  for (std::int64_t i = 0; i < points; ++i) insert(list, k, {matrix[i * queries + q], static_cast<int>(i)});
  for (int rank = 0; rank < k; ++rank) nearest[q * k + rank] = list[rank];
}

}  // namespace

Answer tiled(const Problem& problem, Run& run) {
  const Gpu gpu(run);
  const OnDevice on(gpu, problem);
  const std::int64_t at_once = rows_at_once(gpu, problem, run);
  const auto matrix = gpu.room<float>(at_once * problem.points);
  const auto nearest = gpu.room<Neighbor>(problem.queries * problem.k);
  const auto dim = static_cast<int>(problem.dim);
  const auto k = static_cast<int>(problem.k);
  run.search([&] {
    for (std::int64_t first = 0; first < problem.queries; first += at_once) {
      const std::int64_t some = smaller(at_once, problem.queries - first);
      const dim3 grid(blocks_for(problem.points, tile), blocks_for(some, tile));
      fill_tile<<<grid, dim3(tile, tile), 0, gpu.stream()>>>(on.query.data() + first * dim, on.point.data(),
                                                             dim, some, problem.points, matrix.data());
      cuda::check_launch("fill_tile");
      select_by_insertion<<<blocks_for(some, threads), threads, 0, gpu.stream()>>>(
          matrix.data(), some, problem.points, k, nearest.data() + first * k);
      cuda::check_launch("select_by_insertion");
    }
    gpu.finish();
  });
  return put_all(problem, gpu.download(nearest));
}

}  // namespace kith::ladder
