// The inner loops of k-means, compiled once per instruction set. Plain data only.
#pragma once

#include <cstdint>

namespace kith {

/// Squared distances of one row to centroids that lie side by side: value d of centroid c at
/// centroids[d * padded_count + c], padded_count a multiple of 32. Each is summed dimension after dimension,
/// so all sets give the same values.
struct KMeansKernels {
  void (*distances)(const float* row, std::int64_t dim, const float* centroids, std::int64_t padded_count,
                    float* out);
  /// The nearest centroid, the lowest of those equally near, and its distance.
  std::int32_t (*nearest)(const float* row, std::int64_t dim, const float* centroids,
                          std::int64_t padded_count, float* distance);
};

extern const KMeansKernels k_means_kernels_portable;
extern const KMeansKernels k_means_kernels_avx2;
extern const KMeansKernels k_means_kernels_avx512;

/// Those of the active instruction set.
const KMeansKernels& k_means_kernels();

}  // namespace kith
