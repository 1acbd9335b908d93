// Rung 19: two kernels, distances and a modified insertion sort.
//
// Idea      The classic brute force for point clouds: one kernel writes all distances, the other sorts each
//           query's, and since only the first k matter, the sorted part is never longer than k. One thread a
//           query.
// Cost      queries x points x dim operations, the matrix written and read; an insertion moves up to k
//           entries.
// Limit     Lists lie in device memory, a column a query as the matrix is, so that threads in step touch
//           adjacent words. k has no limit, and each insertion is a chain of loads and stores with the whole
//           latency of memory. One query is one thread.
// Source    Garcia, Debreuve, Barlaud (2008), kNN-CUDA; the point-cloud report.
#include "matrix.cuh"

namespace kith::ladder {
namespace {

constexpr int threads = 256;
constexpr int sort_threads = 64;

__global__ void fill_columns(const float* query, const float* point, int dim, std::int64_t queries,
                             std::int64_t points, float* matrix) {
  const std::int64_t cell = blockIdx.x * static_cast<std::int64_t>(threads) + threadIdx.x;
  if (cell >= queries * points) return;
  const std::int64_t i = cell / queries;
  const std::int64_t q = cell % queries;
  matrix[cell] = squared_distance(query + q * dim, point + i * dim, dim);
}

// Rank r of query q at r * queries + q. Points come by ascending index: one that is just as far comes behind.
__global__ void sort_columns(const float* matrix, std::int64_t queries, std::int64_t points, std::int64_t k,
                             float* distance, int* index) {
  const std::int64_t q = blockIdx.x * static_cast<std::int64_t>(sort_threads) + threadIdx.x;
  if (q >= queries) return;
  for (std::int64_t rank = 0; rank < k; ++rank) {
    distance[rank * queries + q] = INFINITY;
    index[rank * queries + q] = INT_MAX;
  }
  float farthest = INFINITY;
  for (std::int64_t i = 0; i < points; ++i) {
    const float mine = matrix[i * queries + q];
    if (mine >= farthest) continue;
    std::int64_t at = k - 1;
    for (; at > 0 && mine < distance[(at - 1) * queries + q]; --at) {
      distance[at * queries + q] = distance[(at - 1) * queries + q];
      index[at * queries + q] = index[(at - 1) * queries + q];
    }
    distance[at * queries + q] = mine;
    index[at * queries + q] = static_cast<int>(i);
    farthest = distance[(k - 1) * queries + q];
  }
}

}  // namespace

Answer insertion_sort(const Problem& problem, Run& run) {
  const Gpu gpu(run);
  const OnDevice on(gpu, problem);
  const std::int64_t at_once = rows_at_once(gpu, problem, run);
  const auto matrix = gpu.room<float>(at_once * problem.points);
  // Of all batches one after the other, each as if it were alone.
  const auto distance = gpu.room<float>(problem.queries * problem.k);
  const auto index = gpu.room<int>(problem.queries * problem.k);
  const auto dim = static_cast<int>(problem.dim);
  run.search([&] {
    for (std::int64_t first = 0; first < problem.queries; first += at_once) {
      const std::int64_t some = smaller(at_once, problem.queries - first);
      fill_columns<<<blocks_for(some * problem.points, threads), threads, 0, gpu.stream()>>>(
          on.query.data() + first * dim, on.point.data(), dim, some, problem.points, matrix.data());
      cuda::check_launch("fill_columns");
      sort_columns<<<blocks_for(some, sort_threads), sort_threads, 0, gpu.stream()>>>(
          matrix.data(), some, problem.points, problem.k, distance.data() + first * problem.k,
          index.data() + first * problem.k);
      cuda::check_launch("sort_columns");
    }
    gpu.finish();
  });
  const std::vector<float> distances = gpu.download(distance);
  const std::vector<int> indices = gpu.download(index);
  std::vector<Neighbor> lists(distances.size());
  for (std::int64_t q = 0; q < problem.queries; ++q) {
    const std::int64_t first = q / at_once * at_once;
    const std::int64_t some = smaller(at_once, problem.queries - first);
    for (std::int64_t rank = 0; rank < problem.k; ++rank) {
      const auto from = static_cast<std::size_t>(first * problem.k + rank * some + q - first);
      lists[static_cast<std::size_t>(q * problem.k + rank)] = {distances[from], indices[from]};
    }
  }
  return put_all(problem, lists);
}

}  // namespace kith::ladder
