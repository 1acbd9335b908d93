// Product quantization: H. Jégou, M. Douze, C. Schmid: Product quantization for nearest neighbor search.
// TPAMI 2011.
//
// A row less the mean, rotated at random where asked, is cut into parts of about equal length; the code has a
// byte a part, the number of the nearest of up to 256 centroids that k-means found for the part. A query's
// squared distances to all centroids, or products with them, are a table; the estimate of a row is the sum of
// one entry a part, in float32, part after part from the first.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "codes/coding.hpp"
#include "codes/rotation.hpp"
#include "k_means/k_means.hpp"

namespace kith::codes {

inline constexpr std::int64_t pq_table_width = 256;  ///< entries a part

struct PqSpace {
  Rows rows;
  Metric metric = Metric::sqeuclidean;
  std::int64_t subspaces = 1;
  std::vector<double> mean;
  std::unique_ptr<const Rotation> rotation;  ///< null: none
  std::vector<float> matrix;                 ///< [dim, dim], in its place: rows times it; empty: none
  std::int64_t count = 0;                    ///< centroids a part
  std::vector<float> centroids;              ///< of part after part [count, its dimensions]
  std::vector<SideBySide> parts;             ///< the same for the kernels

  std::vector<std::int64_t> starts;  ///< where parts begin, and the last one ends

  std::int64_t begin(std::int64_t j) const { return starts[static_cast<std::size_t>(j)]; }
  std::int64_t dim_of(std::int64_t j) const { return begin(j + 1) - begin(j); }
  const float* centroids_of(std::int64_t j) const { return centroids.data() + begin(j) * count; }
  void lay_out();
};

/// Parts of about equal length: the first dim % subspaces have one dimension more.
std::vector<std::int64_t> even_starts(std::int64_t dim, std::int64_t subspaces);

/// Centroids of all parts of rows [n, dim], as k_means() finds them with the seed of part j j more: a machine
/// that does so.
using KMeansOfParts = std::function<std::vector<float>(
    const float* rows, std::int64_t n, const std::vector<std::int64_t>& starts,
    const KMeansParameters& parameters, const std::function<void()>& check)>;

/// @param on_machine in the place of the host's threads, unless it is empty @throws what it throws; Cancelled
std::unique_ptr<const Coding> train_pq_on(const KMeansOfParts& on_machine, const DatasetView& rows,
                                          const PqParameters& parameters, const Execution& execution);

/// Null for codings of another kind.
const PqSpace* pq_space(const Coding& coding);

class PqWorker : public Worker {
 public:
  explicit PqWorker(const PqSpace& space);

  void encode(const void* row, std::uint8_t* code) override;
  void decode(const std::uint8_t* code, double* row) override;
  void set_query(const void* query) override;
  void estimate(const std::uint8_t* codes, std::int64_t count, float* distances, float* bounds) override;
  void estimate_gathered(const std::uint8_t* codes, const std::uint32_t* rows, std::int64_t count,
                         float* distances) override;

  /// A row, centred where asked and rotated, as floats of its own.
  const float* transformed(const void* row, bool centered);

 private:
  void rotate();
  void rotate_back();
  template <class Code>
  void sum_entries(const Code& code, std::int64_t count, float* distances) const;

  const PqSpace& space_;
  std::vector<double> values_;
  std::vector<double> scratch_;
  std::vector<float> floats_;
  std::vector<float> table_;  // [subspaces, 256]
  double offset_ = 0;
};

}  // namespace kith::codes
