// Several blocks a query (introduced by rung 8): each finds the nearest of its part of the points, a second
// kernel the nearest of the parts.
#pragma once

#include "gpu.cuh"
#include "reduce.cuh"

namespace kith::ladder {

inline constexpr int part_threads = 256;

/// Block b looks for query b / parts among every `parts`-th stretch of 256 points.
static __global__ void nearest_of_part(const float* query, const float* point, int dim, std::int64_t points,
                                       int parts, Neighbor* of_part) {
  const float* mine_query = query + static_cast<std::int64_t>(blockIdx.x / parts) * dim;
  const std::int64_t step = static_cast<std::int64_t>(parts) * part_threads;
  Neighbor mine = nobody();
  for (std::int64_t i = (blockIdx.x % parts) * part_threads + threadIdx.x; i < points; i += step) {
    mine = nearer(mine, {squared_distance(mine_query, point + i, dim, points), static_cast<int>(i)});
  }
  mine = tree_reduce<part_threads>(mine);
  if (threadIdx.x == 0) of_part[blockIdx.x] = mine;
}

static __global__ void nearest_part(const Neighbor* of_part, int parts, Neighbor* nearest) {
  Neighbor mine = nobody();
  for (int i = static_cast<int>(threadIdx.x); i < parts; i += part_threads) {
    mine = nearer(mine, of_part[static_cast<std::int64_t>(blockIdx.x) * parts + i]);
  }
  mine = tree_reduce<part_threads>(mine);
  if (threadIdx.x == 0) nearest[blockIdx.x] = mine;
}

/// How many blocks a query fill the device: as many as it can hold at once, by the occupancy calculator,
/// rounded down so that all run in one round; and no block with less than one round of points.
template <class Kernel>
int parts_to_fill(Kernel kernel, int threads, std::int64_t queries, std::int64_t points, int device) {
  int a_multiprocessor = 0;
  KITH_CUDA(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&a_multiprocessor, kernel, threads, 0));
  const std::int64_t at_once = static_cast<std::int64_t>(a_multiprocessor) * multiprocessors(device);
  const std::int64_t parts = at_once / queries;
  return static_cast<int>(smaller(parts > 1 ? parts : 1, blocks_for(points, threads)));
}

inline void launch_parts(const Gpu& gpu, const cuda::Buffer<float>& query, const cuda::Buffer<float>& point,
                         const Problem& problem, int parts, cuda::Buffer<Neighbor>& of_part,
                         cuda::Buffer<Neighbor>& nearest) {
  const auto queries = static_cast<unsigned>(problem.queries);
  nearest_of_part<<<queries* static_cast<unsigned>(parts), part_threads, 0, gpu.stream()>>>(
      query.data(), point.data(), static_cast<int>(problem.dim), problem.points, parts, of_part.data());
  cuda::check_launch("nearest_of_part");
  nearest_part<<<queries, part_threads, 0, gpu.stream()>>>(of_part.data(), parts, nearest.data());
  cuda::check_launch("nearest_part");
}

}  // namespace kith::ladder
