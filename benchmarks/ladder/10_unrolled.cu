// Rung 10: an unrolled reduction.
//
// Idea      The tree in shared memory needs a barrier after each of its 8 steps. The last five, within a
//           warp, need neither barrier nor memory: threads of a warp hand each other registers by shuffles,
//           and the loop of known length is unrolled. One barrier in all: each warp reduces by five
//           shuffles, then one warp reduces the warps' answers.
// Cost      As rung 8; the reduction of a block in some 20 instructions a thread.
// Limit     What rung 8 is limited by. A block reduces once, after thousands of points: the tree was never
//           the cost, except where each block sees only a few hundred points.
// Source    Harris (2007), unrolling the last warp; shuffles since Kepler (2012), _sync since Volta (2017).
#include "parts.cuh"
#include "transpose.cuh"

namespace kith::ladder {
namespace {

constexpr int threads = 256;
constexpr int warps = threads / 32;

// The nearest of `width` adjacent lanes, in the first of them.
template <int width>
__device__ Neighbor warp_reduce(Neighbor mine) {
#pragma unroll
  for (int half = width / 2; half > 0; half /= 2) {
    const Neighbor other{__shfl_down_sync(0xffffffffU, mine.distance, half),
                         __shfl_down_sync(0xffffffffU, mine.index, half)};
    mine = nearer(mine, other);
  }
  return mine;
}

// The block's nearest, in thread 0.
__device__ Neighbor block_reduce(Neighbor mine) {
  __shared__ Neighbor of_warp[warps];
  const auto t = threadIdx.x;
  mine = warp_reduce<32>(mine);
  if (t % 32 == 0) of_warp[t / 32] = mine;
  __syncthreads();
  if (t < 32) mine = warp_reduce<warps>(t < warps ? of_warp[t] : nobody());
  return mine;
}

__global__ void nearest_unrolled(const float* query, const float* point, int dim, std::int64_t points,
                                 int parts, Neighbor* of_part) {
  const float* mine_query = query + static_cast<std::int64_t>(blockIdx.x / parts) * dim;
  const std::int64_t step = static_cast<std::int64_t>(parts) * threads;
  Neighbor mine = nobody();
  for (std::int64_t i = (blockIdx.x % parts) * threads + threadIdx.x; i < points; i += step) {
    mine = nearer(mine, {squared_distance(mine_query, point + i, dim, points), static_cast<int>(i)});
  }
  mine = block_reduce(mine);
  if (threadIdx.x == 0) of_part[blockIdx.x] = mine;
}

__global__ void nearest_part_unrolled(const Neighbor* of_part, int parts, Neighbor* nearest) {
  Neighbor mine = nobody();
  for (int i = static_cast<int>(threadIdx.x); i < parts; i += threads) {
    mine = nearer(mine, of_part[static_cast<std::int64_t>(blockIdx.x) * parts + i]);
  }
  mine = block_reduce(mine);
  if (threadIdx.x == 0) nearest[blockIdx.x] = mine;
}

}  // namespace

Answer unrolled(const Problem& problem, Run& run) {
  const Gpu gpu(run);
  const Transposed on(gpu, problem, run);
  const int parts =
      parts_to_fill(nearest_unrolled, threads, problem.queries, problem.points, run.gpus.front());
  const auto of_part = gpu.room<Neighbor>(problem.queries * parts);
  const auto nearest = gpu.room<Neighbor>(problem.queries);
  const auto queries = static_cast<unsigned>(problem.queries);
  run.search([&] {
    nearest_unrolled<<<queries* static_cast<unsigned>(parts), threads, 0, gpu.stream()>>>(
        on.query.data(), on.point.data(), static_cast<int>(problem.dim), problem.points, parts,
        of_part.data());
    cuda::check_launch("nearest_unrolled");
    nearest_part_unrolled<<<queries, threads, 0, gpu.stream()>>>(of_part.data(), parts, nearest.data());
    cuda::check_launch("nearest_part_unrolled");
    gpu.finish();
  });
  return put_all(problem, gpu.download(nearest));
}

}  // namespace kith::ladder
