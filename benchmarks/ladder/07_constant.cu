// Rung 7: queries in constant memory.
//
// Idea      All threads of a block read the same query: a broadcast, which is what constant memory is for. A
//           value of it is an operand of the instruction that uses it, no load at all.
// Cost      As rung 5.
// Limit     64 KiB: 16,384 values, 1024 queries of 16 coordinates and not one more. Further queries go in
//           further batches, each a copy and a launch. And it saves only the query's loads, which hit the
//           first cache anyway; those of the points remain. An index that is not known when the kernel is
//           compiled (here: the query's number) goes through a load of its own after all.
// Source    CUDA C++ Programming Guide, constant memory; the reports' constant-memory version.
#include "reduce.cuh"
#include "transpose.cuh"

namespace kith::ladder {
namespace {

constexpr int threads = 256;

__constant__ float some_queries[constant_values];

__global__ void nearest_to_constant(const float* point, int dim, std::int64_t points, Neighbor* nearest) {
  const float* mine_query = some_queries + static_cast<std::int64_t>(blockIdx.x) * dim;
  Neighbor mine = nobody();
  for (std::int64_t i = threadIdx.x; i < points; i += threads) {
    mine = nearer(mine, {squared_distance(mine_query, point + i, dim, points), static_cast<int>(i)});
  }
  mine = tree_reduce<threads>(mine);
  if (threadIdx.x == 0) nearest[blockIdx.x] = mine;
}

}  // namespace

Answer constant(const Problem& problem, Run& run) {
  const Gpu gpu(run);
  const Transposed on(gpu, problem, run);
  const auto nearest = gpu.room<Neighbor>(problem.queries);
  const std::int64_t batch = constant_values / problem.dim;
  if (problem.queries > batch) {
    run.fallback = "64 KiB hold " + std::to_string(batch) + " queries: they go in " +
                   std::to_string((problem.queries + batch - 1) / batch) + " batches";
  }
  run.search([&] {
    for (std::int64_t first = 0; first < problem.queries; first += batch) {
      const std::int64_t some = smaller(batch, problem.queries - first);
      KITH_CUDA(cudaMemcpyToSymbolAsync(some_queries, on.query.data() + first * problem.dim,
                                        static_cast<std::size_t>(some * problem.dim) * sizeof(float), 0,
                                        cudaMemcpyDeviceToDevice, gpu.stream()));
      nearest_to_constant<<<static_cast<unsigned>(some), threads, 0, gpu.stream()>>>(
          on.point.data(), static_cast<int>(problem.dim), problem.points, nearest.data() + first);
      cuda::check_launch("nearest_to_constant");
    }
    gpu.finish();
  });
  return put_all(problem, gpu.download(nearest));
}

}  // namespace kith::ladder
