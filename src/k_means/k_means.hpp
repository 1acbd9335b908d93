// k-means: Lloyd's iterations (1982) from centroids that k-means++ chose (Arthur and Vassilvitskii 2007).
//
// The same centroids bit for bit from any number of threads and on every instruction set: distances are
// summed dimension after dimension, ties go to the lower centroid, and sums over rows are taken in double
// over parts that depend on the number of rows alone, which are merged in order.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace kith {

struct KMeansParameters {
  std::int64_t count = 256;      ///< centroids, at least 1 and at most as many as rows
  std::int64_t iterations = 20;  ///< at most; fewer where no row changes its centroid any more
  std::uint64_t seed = 0;        ///< of the first centroids
};

struct KMeans {
  std::vector<float> centroids;  ///< [count, dim]
  double error = 0;              ///< mean squared distance of a row to its centroid, before the last update
  std::int64_t iterations = 0;   ///< done
};

/// @param rows [n, dim], finite; row i begins at rows + i * stride
/// @param check called now and then by any thread; what it throws stops the work
KMeans k_means(const float* rows, std::int64_t n, std::int64_t dim, std::int64_t stride,
               const KMeansParameters& parameters, int threads, const std::function<void()>& check);

/// Over how many parts of the rows sums are taken: a function of sizes alone.
std::int64_t k_means_sums(std::int64_t n, std::int64_t count, std::int64_t dim);
/// The random numbers that the first centroids are chosen by, one each, in [0, 1).
std::vector<double> k_means_uniforms(std::uint64_t seed, std::int64_t count);

/// Centroids side by side for the kernels: [dim, padded_count], padded by what is nearest to nothing.
struct SideBySide {
  std::int64_t dim = 0;
  std::int64_t count = 0;
  std::int64_t padded_count = 0;  ///< a multiple of 32
  std::vector<float> values;

  SideBySide() = default;
  SideBySide(const float* centroids, std::int64_t count, std::int64_t dim);
  /// Number of the nearest centroid, the lowest of those equally near.
  std::int64_t nearest(const float* row, float* distance) const;
  /// Squared distances, padded_count of them.
  void distances(const float* row, float* out) const;
};

}  // namespace kith
