/// @file
/// Rows as codes of a few bits a value: scalar, RaBitQ and product quantization. Encode, decode, and estimate
/// distances from codes alone (docs/codes.md).
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string_view>
#include <variant>
#include <vector>

#include "kith/dataset.hpp"
#include "kith/execution.hpp"
#include "kith/metric.hpp"
#include "kith/neighbors.hpp"

namespace kith {

namespace codes {
struct PqParts;
}

/// How rows become codes.
enum class CodeKind : std::uint8_t {
  scalar,  ///< every value rounded to 8 or 4 bits on one scale
  rabitq,  ///< the direction from the mean, rotated at random and rounded to 1 to 8 bits per dimension
  pq,      ///< parts of the row, each the nearest of 256 centroids
};

/// "scalar", "rabitq" or "pq".
std::string_view name(CodeKind kind) noexcept;

/// Parses those names. @throws InvalidArgument
CodeKind parse_code_kind(std::string_view text);

/// One step for all values of all rows. Estimates are sums of integers.
struct ScalarCodesParameters {
  Metric metric = Metric::sqeuclidean;  ///< sqeuclidean or inner_product
  std::int64_t bits = 8;                ///< a value: 8 or 4
};

/// RaBitQ (Gao and Long 2024; more bits: Gao et al. 2025). Estimates come with a bound on their error.
struct RabitqParameters {
  Metric metric = Metric::sqeuclidean;  ///< sqeuclidean or inner_product
  std::int64_t bits = 4;                ///< a dimension: 1 to 8; and 12 bytes a row
  std::uint64_t seed = 0;               ///< of the random rotation
};

/// Product quantization (Jégou et al. 2011): one byte a part, the number of one of up to 256 centroids.
struct PqParameters {
  Metric metric = Metric::sqeuclidean;  ///< sqeuclidean or inner_product
  std::int64_t subspaces = 0;           ///< parts, 1 to the dimension; 0: one for every four dimensions
  bool rotate = false;                  ///< rotate rows at random first, to spread their variance evenly
  std::int64_t iterations = 20;         ///< of k-means, at most; 1 to 1000
  std::int64_t training_rows = 65536;   ///< rows, spread over all, that centroids are found from; 1 or more
  std::uint64_t seed = 0;               ///< of the rotation and the first centroids
};

using CodesParameters = std::variant<ScalarCodesParameters, RabitqParameters, PqParameters>;

/// Distances estimated from codes.
struct Estimates {
  std::int64_t queries = 0;
  std::int64_t rows = 0;
  /// [queries, rows], by the metric as Kith defines it (an inner product has its sign flipped). By their
  /// error estimates of squared distances may be below 0.
  std::vector<float> distances;
  /// RaBitQ: [queries, rows]: the true distance is this close to the estimate, with the confidence asked for.
  /// Empty where there is no bound.
  std::vector<float> bounds;
};

/// A way of encoding rows, trained on some of them.
///
/// Codes are a function of row, parameters and training rows, estimates one of query and code: the same
/// bits for any number of threads and every instruction set. Values must be finite and at most 2^50 in
/// magnitude. Copies share one immutable state; any number of threads may use one.
class Quantizer {
 public:
  /// Longest row that is encoded.
  static constexpr std::int64_t largest_dim = 32768;
  static constexpr double default_confidence = 0.95;

  /// Learns what the kind needs: mean and step, mean and rotation, or centroids.
  /// @param rows [n, dim] on the host, at least one of them finite; those that are not are skipped
  /// @throws InvalidArgument, OutOfMemory, DeviceError, Cancelled
  static Quantizer train(const DatasetView& rows, const CodesParameters& parameters,
                         const Execution& execution = {});

  /// Codes of rows.
  /// @param rows [n, dim] of the dtype trained on
  /// @return u8 [n, code_bytes()]
  /// @throws InvalidArgument for a value that is not finite or too large; for scalar codes under
  ///   inner_product also for a row longer than all trained on; OutOfMemory, Cancelled
  Dataset encode(const DatasetView& rows, const Execution& execution = {}) const;

  /// The rows that codes stand for.
  /// @param codes u8 [n, code_bytes()], as encode() gives them
  /// @return f32 [n, dim]; f64 where f64 rows were trained on
  /// @throws InvalidArgument, OutOfMemory, Cancelled
  Dataset decode(const DatasetView& codes, const Execution& execution = {}) const;

  /// Distances of all pairs of queries and encoded rows.
  /// @param queries [q, dim] of the dtype trained on
  /// @param codes u8 [n, code_bytes()]
  /// @param confidence RaBitQ: probability that a bound holds, over random rotations; above 0, below 1
  /// @throws InvalidArgument, OutOfMemory, Cancelled
  Estimates estimate(const DatasetView& queries, const DatasetView& codes, const Execution& execution = {},
                     double confidence = default_confidence) const;

  /// The k rows with the smallest estimates, ties to the lower row: ranking by codes alone. Distances are
  /// estimates; the recall is not known, and `certified` is false.
  /// @param k at least 1; beyond the number of rows, answers are padded with -1 and +inf
  /// @throws InvalidArgument, OutOfMemory, Cancelled
  Neighbors search(const DatasetView& queries, const DatasetView& codes, std::int64_t k,
                   const Execution& execution = {}) const;

  /// Sum of |x - decode(code of x)|^2 over rows, divided by that of |x - mean of the rows|^2: 0 is exact, 1
  /// as good as the mean alone.
  /// @param rows [n, dim], n at least 1
  /// @param codes those of the rows
  /// @throws InvalidArgument, Cancelled
  double reconstruction_error(const DatasetView& rows, const DatasetView& codes,
                              const Execution& execution = {}) const;

  /// Writes one file, whole or not at all: what was trained, not the codes of rows.
  /// @throws IoError, Cancelled
  void save(const std::filesystem::path& path, const Execution& execution = {}) const;

  /// @throws IoError when the file is missing, truncated, corrupt or foreign; Cancelled
  static Quantizer load(const std::filesystem::path& path, const Execution& execution = {});

  CodeKind kind() const noexcept;
  /// As given; PqParameters::subspaces is never 0.
  const CodesParameters& parameters() const noexcept;
  Metric metric() const noexcept;
  Dtype dtype() const noexcept;
  std::int64_t dim() const noexcept;
  /// Bytes per row.
  std::int64_t code_bytes() const noexcept;
  /// Bytes that the quantizer itself holds: mean, rotation, centroids.
  std::uint64_t memory_bytes() const noexcept;

  struct State;

 private:
  friend struct codes::PqParts;
  explicit Quantizer(std::shared_ptr<const State> state) : state_(std::move(state)) {}
  std::shared_ptr<const State> state_;
};

}  // namespace kith
