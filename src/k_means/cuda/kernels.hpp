// The kernel of k-means, as the host calls it.
#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

namespace kith::clusters::cuda {

inline constexpr int most_centroids = 256;

/// Some parts: one after the other in all arrays.
struct PartsJob {
  const float* rows;  ///< [all dimensions, n]
  std::int64_t n;
  const std::int64_t* starts;  ///< [parts + 1]: their dimensions among these
  const std::int64_t* sums;    ///< [parts]: how many sums over rows are taken, k_means_sums()
  int parts;
  int count;  ///< of centroids
  std::int64_t iterations;
  const double* uniforms;  ///< [parts, count]
  float* centroids;        ///< [all dimensions, most_centroids]
  float* distances;        ///< [parts, n]
  std::uint16_t* nearest;  ///< [parts, n]
};
/// A block a part, which does all of it.
void find_centroids(const PartsJob& job, cudaStream_t stream);

/// to[d, i] = from[i, d].
void transpose(const float* from, std::int64_t n, std::int64_t dim, float* to, cudaStream_t stream);

}  // namespace kith::clusters::cuda
