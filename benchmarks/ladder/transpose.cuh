// Points from row by row to coordinate by coordinate (introduced by rung 5).
#pragma once

#include "gpu.cuh"

namespace kith::ladder {

/// One thread a point: it reads its row, and its warp writes 32 adjacent values of each coordinate.
static __global__ void transpose(const float* point, int dim, std::int64_t points, std::int64_t stride,
                                 float* by_coordinate) {
  const std::int64_t i = blockIdx.x * static_cast<std::int64_t>(blockDim.x) + threadIdx.x;
  if (i >= points) return;
  for (int c = 0; c < dim; ++c) by_coordinate[c * stride + i] = point[i * dim + c];
}

/// Coordinate c of point i at c * stride + i; `stride` is at least the number of points.
inline void launch_transpose(const Gpu& gpu, const float* point, std::int64_t dim, std::int64_t points,
                             std::int64_t stride, float* by_coordinate) {
  constexpr int threads = 256;
  transpose<<<blocks_for(points, threads), threads, 0, gpu.stream()>>>(point, static_cast<int>(dim), points,
                                                                       stride, by_coordinate);
  cuda::check_launch("transpose");
}

/// The problem on the device, points coordinate by coordinate; transposed inside run.build().
class Transposed {
 public:
  Transposed(const Gpu& gpu, const Problem& problem, Run& run)
      : query(gpu.upload(problem.query, problem.queries * problem.dim)),
        point(gpu.room<float>(problem.points * problem.dim)) {
    const auto rows = gpu.upload(problem.point, problem.points * problem.dim);
    gpu.finish();
    run.build([&] {
      launch_transpose(gpu, rows.data(), problem.dim, problem.points, problem.points, point.data());
      gpu.finish();
    });
  }
  cuda::Buffer<float> query, point;
};

}  // namespace kith::ladder
