// Rung 14: rung 13 with the block size tuned.
//
// Idea      More threads a block mean shorter walks and longer merges, and lists that keep other blocks off
//           the multiprocessor. The occupancy calculator says how many blocks of a size fit; we take the
//           size with which the most threads are at work at once.
// Cost      As rung 13.
// Limit     As rung 13. Threads at work are a proxy: the calculator knows nothing of merges, banks and
//           insertions. The engine avoids the lists instead: it finds a bound first, and collects the few
//           points below it.
// Source    cudaOccupancyMaxActiveBlocksPerMultiprocessor (CUDA 6.5, 2014); a rung of the reports.
#include "merged_lists.cuh"

namespace kith::ladder {
namespace {

// Of 32, 64, ..., 512 threads a block.
int best_block(const Problem& problem, int device) {
  constexpr std::size_t shared_limit = std::size_t{48} << 10U;  // without asking for more
  int best = 32;
  std::int64_t most = 0;
  for (int threads = 32; threads <= 512 && list_bytes(threads, problem.k) <= shared_limit; threads *= 2) {
    int a_multiprocessor = 0;
    KITH_CUDA(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&a_multiprocessor, nearest_by_lists, threads,
                                                            list_bytes(threads, problem.k)));
    const std::int64_t blocks =
        smaller(problem.queries, std::int64_t{a_multiprocessor} * multiprocessors(device));
    if (blocks * threads > most) {  // not >=: the smaller block has fewer merges
      most = blocks * threads;
      best = threads;
    }
  }
  return best;
}

}  // namespace

Answer tuned_lists(const Problem& problem, Run& run) {
  const Gpu gpu(run);
  return search_by_lists(gpu, problem, best_block(problem, run.gpus.front()), run);
}

}  // namespace kith::ladder
