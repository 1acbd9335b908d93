// Rung 11: k > 1, one thread a query with insertion.
//
// Idea      The serial loop, once per thread: each thread owns a query, walks over all points and inserts
//           into its sorted list of k.
// Cost      queries x points x dim operations; an insertion moves up to k entries, but most points fail the
//           first comparison: about k ln(points / k) of them enter.
// Limit     Threads: 512 queries are 16 warps, and the chip holds 8448. Each waits for its own loads, and
//           nothing hides the wait. The lists are indexed by a variable, so they live in local memory, not
//           in registers, and when one thread of a warp inserts, the other 31 wait.
// Source    A rung of the reports.
#include "gpu.cuh"

namespace kith::ladder {
namespace {

constexpr int threads = 64;

__global__ void nearest_by_insertion(const float* query, const float* point, int dim, std::int64_t queries,
                                     std::int64_t points, int k, Neighbor* nearest) {
  const std::int64_t q = blockIdx.x * static_cast<std::int64_t>(threads) + threadIdx.x;
  if (q >= queries) return;
  Neighbor list[longest_list];
  for (int rank = 0; rank < k; ++rank) list[rank] = nobody();
  for (std::int64_t i = 0; i < points; ++i) {
    insert(list, k, {squared_distance(query + q * dim, point + i * dim, dim), static_cast<int>(i)});
  }
  for (int rank = 0; rank < k; ++rank) nearest[q * k + rank] = list[rank];
}

}  // namespace

Answer insertion(const Problem& problem, Run& run) {
  const Gpu gpu(run);
  const OnDevice on(gpu, problem);
  const auto nearest = gpu.room<Neighbor>(problem.queries * problem.k);
  run.search([&] {
    nearest_by_insertion<<<blocks_for(problem.queries, threads), threads, 0, gpu.stream()>>>(
        on.query.data(), on.point.data(), static_cast<int>(problem.dim), problem.queries, problem.points,
        static_cast<int>(problem.k), nearest.data());
    cuda::check_launch("nearest_by_insertion");
    gpu.finish();
  });
  return put_all(problem, gpu.download(nearest));
}

}  // namespace kith::ladder
