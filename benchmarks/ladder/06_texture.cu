// Rung 6: points through texture memory.
//
// Idea      Texture units have caches and address arithmetic of their own. On the GPUs of 2008 ordinary
//           loads were not cached at all, and reading points as a texture was the way to a cache.
// Cost      As rung 5, plus a copy of the points into a texture (`build`).
// Limit     A texture is at most 65,536 texels wide here, a point a texel, a row a coordinate. More points
//           are folded: each coordinate takes several rows of 65,536, and a fetch pays for the division of
//           its index (a shift and a mask). Loads have been cached since Fermi (2010), in the very memory
//           that serves textures since Volta; a texture unit delivers a quarter of the values a cycle, so
//           with many queries this rung loses today. With one query in 16 dimensions it still wins over rung
//           5: one block waits for memory, whichever way it asks.
// Source    Garcia, Debreuve, Barlaud, Fast k nearest neighbor search using GPU (2008); texture objects,
//           which replaced the texture references of that time in CUDA 12.
#include <memory>

#include "reduce.cuh"
#include "transpose.cuh"

namespace kith::ladder {
namespace {

constexpr int threads = 256;

// A texture and the array behind it.
class PointTexture {
 public:
  // `from`: `rows` rows of `width` values, one after the other.
  PointTexture(const Gpu& gpu, const float* from, std::int64_t width, std::int64_t rows) {
    const cudaChannelFormatDesc one_float = cudaCreateChannelDesc<float>();
    gpu.take(width * rows * static_cast<std::int64_t>(sizeof(float)));
    KITH_CUDA(cudaMallocArray(&array_, &one_float, static_cast<std::size_t>(width),
                              static_cast<std::size_t>(rows)));
    const std::size_t bytes = static_cast<std::size_t>(width) * sizeof(float);
    const cudaError_t copied =
        cudaMemcpy2DToArrayAsync(array_, 0, 0, from, bytes, bytes, static_cast<std::size_t>(rows),
                                 cudaMemcpyDeviceToDevice, gpu.stream());
    cudaResourceDesc resource{};
    resource.resType = cudaResourceTypeArray;
    resource.res.array.array = array_;
    cudaTextureDesc description{};  // whole coordinates, no filtering, no scaling
    description.addressMode[0] = description.addressMode[1] = cudaAddressModeClamp;
    const cudaError_t made =
        copied != cudaSuccess ? copied : cudaCreateTextureObject(&texture_, &resource, &description, nullptr);
    if (made != cudaSuccess) (void)cudaFreeArray(array_);
    cuda::check(made, "cudaCreateTextureObject");
  }
  PointTexture(const PointTexture&) = delete;
  PointTexture& operator=(const PointTexture&) = delete;
  ~PointTexture() {
    (void)cudaDestroyTextureObject(texture_);
    (void)cudaFreeArray(array_);
  }
  cudaTextureObject_t texture() const { return texture_; }

 private:
  cudaArray_t array_ = nullptr;
  cudaTextureObject_t texture_ = 0;
};

// Point i is texel (i % width, coordinate * folds + i / width).
__global__ void nearest_of_texture(const float* query, cudaTextureObject_t point, int dim,
                                   std::int64_t points, int folds, Neighbor* nearest) {
  const float* mine_query = query + static_cast<std::int64_t>(blockIdx.x) * dim;
  Neighbor mine = nobody();
  for (std::int64_t i = threadIdx.x; i < points; i += threads) {
    const auto x = static_cast<float>(i % texture_width) + 0.5F;
    const auto y = static_cast<float>(i / texture_width) + 0.5F;
    float sum = 0;
    for (int c = 0; c < dim; ++c) {
      const float difference = mine_query[c] - tex2D<float>(point, x, y + static_cast<float>(c * folds));
      sum += difference * difference;
    }
    mine = nearer(mine, {sum, static_cast<int>(i)});
  }
  mine = tree_reduce<threads>(mine);
  if (threadIdx.x == 0) nearest[blockIdx.x] = mine;
}

}  // namespace

Answer texture(const Problem& problem, Run& run) {
  const Gpu gpu(run);
  const std::int64_t folds = blocks_for(problem.points, texture_width);
  const std::int64_t width = folds > 1 ? texture_width : (problem.points > 0 ? problem.points : 1);
  if (folds > 1) {
    run.fallback = std::to_string(problem.points) +
                   " points are wider than a texture of 65,536: each coordinate is "
                   "folded into " +
                   std::to_string(folds) + " rows";
  }
  const auto query = gpu.upload(problem.query, problem.queries * problem.dim);
  const auto nearest = gpu.room<Neighbor>(problem.queries);
  auto rows = gpu.upload(problem.point, problem.points * problem.dim);
  auto image = gpu.room<float>(problem.dim * folds * width);
  // What lies behind the last point is copied, never fetched.
  KITH_CUDA(cudaMemsetAsync(image.data(), 0, image.bytes(), gpu.stream()));
  gpu.finish();
  std::unique_ptr<PointTexture> points;
  run.build([&] {
    launch_transpose(gpu, rows.data(), problem.dim, problem.points, folds * width, image.data());
    points = std::make_unique<PointTexture>(gpu, image.data(), width, problem.dim * folds);
    gpu.finish();
  });
  run.search([&] {
    nearest_of_texture<<<blocks_for(problem.queries, 1), threads, 0, gpu.stream()>>>(
        query.data(), points->texture(), static_cast<int>(problem.dim), problem.points,
        static_cast<int>(folds), nearest.data());
    cuda::check_launch("nearest_of_texture");
    gpu.finish();
  });
  return put_all(problem, gpu.download(nearest));
}

}  // namespace kith::ladder
