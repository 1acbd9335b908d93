// The matrix of all distances in device memory, which rungs 2 and 3 begin with, a row a query.
#pragma once

#include "gpu.cuh"

namespace kith::ladder {

/// Most cells of a matrix: 4 GiB.
inline constexpr std::int64_t matrix_cells = std::int64_t{1} << 30;
/// Most rows: a grid's second dimension ends at 65,535.
inline constexpr std::int64_t matrix_rows = 65535;

/// How many queries' rows fit a matrix beside what lies on the device already and the answers; says so where
/// they are not all.
inline std::int64_t rows_at_once(const Gpu& gpu, const Problem& problem, Run& run) {
  std::int64_t cells = matrix_cells;
  if (gpu.left() > 0) {
    const auto answers = static_cast<std::int64_t>(sizeof(Neighbor)) * problem.queries * problem.k;
    cells = smaller(cells, (static_cast<std::int64_t>(gpu.left()) - answers) / 4);
  }
  std::int64_t fit = problem.points > 0 ? smaller(cells / problem.points, matrix_rows) : matrix_rows;
  if (fit < 1) fit = 1;
  if (fit < problem.queries) {
    run.fallback = "the matrix is cut to " + std::to_string(fit) + " queries at a time, to stay within " +
                   (cells < matrix_cells ? std::to_string(4 * cells) + " bytes" : "4 GiB");
  }
  return smaller(fit, problem.queries);
}

/// One thread a cell. Threads of a warp read points that are `dim` values apart: of each 128-byte line that
/// is fetched a thread uses 4 bytes at a time, and leaves it to the cache to keep the rest.
static __global__ void fill_matrix(const float* query, const float* point, int dim, std::int64_t points,
                                   float* matrix) {
  const std::int64_t i = blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x;
  const std::int64_t q = blockIdx.y;
  if (i < points) matrix[q * points + i] = squared_distance(query + q * dim, point + i * dim, dim);
}

inline void launch_fill_matrix(const Gpu& gpu, const Problem& problem, const OnDevice& on, std::int64_t first,
                               std::int64_t rows, float* matrix) {
  constexpr int threads = 256;
  const auto dim = static_cast<int>(problem.dim);
  const dim3 grid(blocks_for(problem.points, threads), static_cast<unsigned>(rows));
  fill_matrix<<<grid, threads, 0, gpu.stream()>>>(on.query.data() + first * dim, on.point.data(), dim,
                                                  problem.points, matrix);
  cuda::check_launch("fill_matrix");
}

}  // namespace kith::ladder
