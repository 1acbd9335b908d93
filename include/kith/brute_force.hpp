/// @file
/// Exact nearest neighbours by looking at every row: a cheap filter with a proven error bound, then
/// exact re-ranking of what it keeps (docs/exact-contract.md).
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>

#include "kith/dataset.hpp"
#include "kith/execution.hpp"
#include "kith/filter.hpp"
#include "kith/index_type.hpp"
#include "kith/metric.hpp"
#include "kith/neighbors.hpp"

namespace kith {

struct BruteForceParameters {
  Metric metric = Metric::sqeuclidean;
  Filter filter = Filter::automatic;
  /// Whether codes may hold leading directions alone, where these promise to be quicker; see
  /// SearchStatistics::directions. Unset: as true, but on GPUs, where finding them takes some tenths of a
  /// second, they must promise more. The answer is the same either way.
  std::optional<bool> directions = std::nullopt;
  /// Lists that rows are divided into by k-means, so that queries look only at those near enough: about so
  /// many, 0 for none. Unset: where a sample shows clusters, and the searches to come repay making lists. For
  /// the Euclidean metrics and cosine; on GPUs where rows and codes fit into their memory. The answer is the
  /// same either way.
  std::optional<std::int64_t> lists = std::nullopt;
};

inline constexpr SearchOption brute_force_options[] = {SearchOption::allowed};

/// Exact k-nearest-neighbour search over a dataset of any dimension and dtype.
///
/// Thread-safe: any number of threads may search one index. Answers are the same bits for every
/// filter, thread count, batch size and device.
class BruteForce {
 public:
  using Parameters = BruteForceParameters;
  static constexpr IndexType index_type = {.name = "brute_force",
                                           .class_name = "BruteForce",
                                           .summary = "looks at every row, through a filter",
                                           .options = brute_force_options};

  /// Over rows that stay the caller's and must outlive the index.
  /// @throws InvalidArgument, OutOfMemory, Cancelled
  static BruteForce build(const DatasetView& dataset, const BruteForceParameters& parameters = {},
                          const Execution& execution = {});

  /// Over rows the index keeps alive itself.
  static BruteForce build(const Dataset& dataset, const BruteForceParameters& parameters = {},
                          const Execution& execution = {});

  /// The k nearest rows of each query.
  /// @param queries [q, dim] of the dataset's dtype
  /// @param k at least 1; more than the rows there are pads with -1 and +inf
  /// @param options `allowed`: only these rows may be found, and the answer is exact over them. Few are
  /// copied
  ///     side by side for this search.
  /// @throws InvalidArgument, OutOfMemory, DeviceError, Cancelled
  Neighbors search(const DatasetView& queries, std::int64_t k, const Execution& execution = {},
                   const SearchOptions& options = {}) const;

  /// The same answer into memory of the caller's, on the host or on a GPU; complete when the call returns.
  /// Queries and answers on the GPU that searches are used where they lie, ordered after the work on
  /// execution.stream, or on the default streams where none is named.
  /// @param out [queries.rows, k]; its k is the k of the search
  /// @throws InvalidArgument, OutOfMemory, DeviceError, Cancelled; what `out` holds is then unspecified
  SearchStatistics search_into(const DatasetView& queries, const NeighborsView& out,
                               const Execution& execution = {}, const SearchOptions& options = {}) const;

  /// Writes one file, whole or not at all.
  /// @throws IoError
  void save(const std::filesystem::path& path, const Execution& execution = {}) const;

  /// Memory-maps a saved index and rebuilds its codes.
  /// @throws IoError when the file is missing, truncated, corrupt or foreign
  static BruteForce load(const std::filesystem::path& path, const Execution& execution = {});

  std::int64_t rows() const noexcept;
  std::int64_t dim() const noexcept;
  Dtype dtype() const noexcept;
  Metric metric() const noexcept;
  /// The filter in use; never `automatic`.
  Filter filter() const noexcept;
  /// Bytes held beyond the dataset itself.
  std::uint64_t memory_bytes() const noexcept;

  struct State;

 private:
  explicit BruteForce(std::shared_ptr<const State> state) : state_(std::move(state)) {}
  std::shared_ptr<const State> state_;
};

/// One-shot search: builds what pays off for this many queries, searches, forgets.
/// @param dataset [n, dim]; @param queries [q, dim] of the same dtype
/// @param options as BruteForce::search takes them
Neighbors knn(const DatasetView& dataset, const DatasetView& queries, std::int64_t k,
              const BruteForceParameters& parameters = {}, const Execution& execution = {},
              const SearchOptions& options = {});

/// The same into memory of the caller's; see BruteForce::search_into.
SearchStatistics knn_into(const DatasetView& dataset, const DatasetView& queries, const NeighborsView& out,
                          const BruteForceParameters& parameters = {}, const Execution& execution = {},
                          const SearchOptions& options = {});

}  // namespace kith
