// Rung 2: the matrix of distances, then thrust::min_element for each query.
//
// Idea      The first step onto a GPU: one thread computes one distance and stores it; a library finds the
//           smallest of each row.
// Cost      queries x points x dim operations, and 4 bytes a pair written and read again.
// Limit     The library: each call takes temporary memory, launches its kernels and waits for the answer,
//           some 100 us however short the row. With 1024 queries that is all one sees; with one query it is
//           the best part of the rung.
// Source    Thrust (Bell, Hoberock 2011); a rung of the reports.
#include <thrust/device_ptr.h>
#include <thrust/execution_policy.h>
#include <thrust/extrema.h>

#include "matrix.cuh"

namespace kith::ladder {

Answer matrix_thrust(const Problem& problem, Run& run) {
  const Gpu gpu(run);
  const OnDevice on(gpu, problem);
  const std::int64_t rows = rows_at_once(gpu, problem, run);
  const auto matrix = gpu.room<float>(rows * problem.points);
  std::vector<Neighbor> nearest(static_cast<std::size_t>(problem.queries), nobody());
  run.search([&] {
    for (std::int64_t first = 0; first < problem.queries && problem.points > 0; first += rows) {
      const std::int64_t some = smaller(rows, problem.queries - first);
      launch_fill_matrix(gpu, problem, on, first, some, matrix.data());
      for (std::int64_t q = 0; q < some; ++q) {
        run.stop_if_cancelled();
        // The first of equal elements: the lower index, as the order of answers has it.
        const auto row = thrust::device_pointer_cast(matrix.data() + q * problem.points);
        const auto smallest =
            thrust::min_element(thrust::cuda::par.on(gpu.stream()), row, row + problem.points);
        Neighbor& mine = nearest[static_cast<std::size_t>(first + q)];
        mine.index = static_cast<int>(smallest - row);
        KITH_CUDA(cudaMemcpyAsync(&mine.distance, smallest.get(), sizeof(float), cudaMemcpyDeviceToHost,
                                  gpu.stream()));
      }
      gpu.finish();
    }
  });
  return put_all(problem, nearest);
}

}  // namespace kith::ladder
