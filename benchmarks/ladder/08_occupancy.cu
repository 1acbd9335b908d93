// Rung 8: several blocks a query, as many as the occupancy calculator says.
//
// Idea      A GPU is full when every multiprocessor holds as many blocks as its registers and shared memory
//           allow. The runtime knows that number for a kernel; dealing the points of a query to several
//           blocks reaches it also with one query. A second kernel reduces the blocks' answers.
// Cost      As rung 5, and a second launch over queries x parts candidates.
// Limit     One query: memory, which is now read as fast as it goes. Many queries: two loads' worth of
//           arithmetic a load (a subtraction and a multiply-add), so the load units, long before the
//           floating-point units are busy.
// Source    cudaOccupancyMaxActiveBlocksPerMultiprocessor (CUDA 6.5, 2014); a rung of the reports.
#include "parts.cuh"
#include "transpose.cuh"

namespace kith::ladder {

Answer occupancy(const Problem& problem, Run& run) {
  const Gpu gpu(run);
  const Transposed on(gpu, problem, run);
  const int parts =
      parts_to_fill(nearest_of_part, part_threads, problem.queries, problem.points, run.gpus.front());
  auto of_part = gpu.room<Neighbor>(problem.queries * parts);
  auto nearest = gpu.room<Neighbor>(problem.queries);
  run.search([&] {
    launch_parts(gpu, on.query, on.point, problem, parts, of_part, nearest);
    gpu.finish();
  });
  return put_all(problem, gpu.download(nearest));
}

}  // namespace kith::ladder
