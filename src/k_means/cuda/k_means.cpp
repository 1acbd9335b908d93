// k-means on a device, the host's part: as many parts at once as there is room for.
#include "k_means/cuda/k_means.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "cuda/pool.hpp"
#include "cuda/runtime.hpp"
#include "cuda/upload.hpp"
#include "k_means/cuda/kernels.hpp"
#include "kith/dataset.hpp"
#include "kith/error.hpp"

namespace kith::clusters::cuda {

using namespace kith::cuda;

namespace {

class Finder {
 public:
  Finder(const float* rows, std::int64_t n, const std::vector<std::int64_t>& starts,
         const KMeansParameters& parameters)
      : rows_(rows), n_(n), starts_(starts), parameters_(parameters) {}

  // Of dimensions [starts[j], starts[j + 1]), the rows twice.
  std::uint64_t bytes(std::size_t j) const {
    const auto dim = static_cast<std::uint64_t>(starts_[j + 1] - starts_[j]);
    return dim * (2 * static_cast<std::uint64_t>(n_) + most_centroids) * sizeof(float) +
           static_cast<std::uint64_t>(n_) * (sizeof(float) + sizeof(std::uint16_t)) +
           static_cast<std::uint64_t>(parameters_.count) * sizeof(double) + 64;
  }

  // Parts [first, last) to `out`.
  void find(std::size_t first, std::size_t last, std::vector<float>& out) {
    const std::int64_t begin = starts_[first];
    const std::int64_t dim = starts_[last] - begin;
    const std::int64_t count = parameters_.count;
    std::vector<std::int64_t> starts, sums;
    std::vector<double> uniforms;
    for (std::size_t j = first; j < last; ++j) {
      starts.push_back(starts_[j] - begin);
      sums.push_back(k_means_sums(n_, count, starts_[j + 1] - starts_[j]));
      const std::vector<double> its = k_means_uniforms(parameters_.seed + j, count);
      uniforms.insert(uniforms.end(), its.begin(), its.end());
    }
    starts.push_back(dim);
    const auto parts = static_cast<std::int64_t>(last - first);
    const Buffer<float> rows(n_ * dim, stream_);
    const Buffer<float> turned(n_ * dim, stream_);
    uploader_.copy(DatasetView(rows_ + begin, Dtype::f32, n_, dim, starts_.back()), rows.data(), stream_,
                   execution_);
    transpose(rows.data(), n_, dim, turned.data(), stream_);
    const Buffer<float> centroids(dim * most_centroids, stream_);
    KITH_CUDA(cudaMemsetAsync(centroids.data(), 0, centroids.bytes(), stream_));
    const Buffer<float> distances(parts * n_, stream_);
    const Buffer<std::uint16_t> nearest(parts * n_, stream_);
    const auto its_starts = uploaded(starts);
    const auto its_sums = uploaded(sums);
    const auto its_uniforms = uploaded(uniforms);
    find_centroids({.rows = turned.data(),
                    .n = n_,
                    .starts = its_starts.data(),
                    .sums = its_sums.data(),
                    .parts = static_cast<int>(parts),
                    .count = static_cast<int>(count),
                    .iterations = parameters_.iterations,
                    .uniforms = its_uniforms.data(),
                    .centroids = centroids.data(),
                    .distances = distances.data(),
                    .nearest = nearest.data()},
                   stream_);
    std::vector<float> found(static_cast<std::size_t>(dim * most_centroids));
    download(centroids.data(), found.data(), found.size() * sizeof(float), stream_, execution_);
    for (std::size_t j = first; j < last; ++j) {
      const std::int64_t its_dim = starts_[j + 1] - starts_[j];
      float* to = out.data() + starts_[j] * count;
      for (std::int64_t c = 0; c < count; ++c) {
        for (std::int64_t d = 0; d < its_dim; ++d) {
          *to++ = found[static_cast<std::size_t>((starts_[j] - begin + d) * most_centroids + c)];
        }
      }
    }
  }

 private:
  template <class T>
  Buffer<T> uploaded(const std::vector<T>& from) {
    const auto count = static_cast<std::int64_t>(from.size());
    Buffer<T> to(count, stream_);
    uploader_.copy(DatasetView(from.data(), Dtype::u8, count * static_cast<std::int64_t>(sizeof(T)), 1, 1),
                   to.data(), stream_, execution_);
    return to;
  }

  const float* rows_;
  std::int64_t n_;
  const std::vector<std::int64_t>& starts_;
  const KMeansParameters& parameters_;
  Execution execution_;  // the caller's `check` asks whether to stop
  Stream stream_;
  Uploader uploader_;
};

}  // namespace

std::vector<float> k_means_of_parts(const float* rows, std::int64_t n,
                                    const std::vector<std::int64_t>& starts,
                                    const KMeansParameters& parameters, int device, std::uint64_t room,
                                    const std::function<void()>& check) {
  const DeviceGuard guard(device);
  keep_some_memory(device);
  Finder finder(rows, n, starts, parameters);
  std::vector<float> centroids(static_cast<std::size_t>(parameters.count * starts.back()));
  const std::size_t parts = starts.size() - 1;
  for (std::size_t first = 0; first < parts;) {
    check();
    std::size_t last = first;
    for (std::uint64_t taken = 0; last < parts && taken + finder.bytes(last) <= room; ++last) {
      taken += finder.bytes(last);
    }
    if (last == first) {
      throw OutOfMemory(
          fmt::format("to find {} centroids of {} rows takes {} bytes of GPU memory, of which there are {}; "
                      "raise the device "
                      "memory limit, or do it on the CPU",
                      parameters.count, n, finder.bytes(first), room));
    }
    finder.find(first, last, centroids);
    first = last;
  }
  return centroids;
}

}  // namespace kith::clusters::cuda
