/// @file
/// What KdTree and Octree share: exact search in low dimension over a tree of bounding boxes, and what is
/// built on top of it (self-join, radius search, normals, outliers). Answers are the same bits as those of
/// BruteForce (docs/exact-contract.md).
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "kith/dataset.hpp"
#include "kith/execution.hpp"
#include "kith/index_type.hpp"
#include "kith/metric.hpp"
#include "kith/neighbors.hpp"

namespace kith {

namespace point_tree {
struct Tree;
}

/// Metrics whose distances boxes bound, and what a search of a tree takes.
inline constexpr std::array tree_metrics = {Metric::sqeuclidean, Metric::euclidean, Metric::manhattan};
inline constexpr std::array tree_options = {SearchOption::radius, SearchOption::allowed};

constexpr bool is_tree_metric(Metric metric) {
  return std::ranges::find(tree_metrics, metric) != tree_metrics.end();
}

struct RadiusOptions {
  bool sorted = true;              ///< ascending by (distance, index); else in no particular order
  std::int64_t max_neighbors = 0;  ///< only this many of the nearest rows a query (then sorted); 0: all
};

/// Which rows are a point's neighbours: the k nearest, all within a radius, or the k nearest of those.
struct Neighborhood {
  std::int64_t k = 0;                                       ///< 0: no limit, a radius must be given
  double radius = std::numeric_limits<double>::infinity();  ///< in units of the tree's metric
};

/// Normals of the surface that points were measured on (Hoppe et al., SIGGRAPH 1992): the direction of least
/// variance of each point's neighbourhood, the point itself included.
struct Normals {
  std::vector<double> normals;  ///< [rows, dim], of length 1, any if neighbours coincide; NaN: fewer than dim
  std::vector<double>
      curvature;  ///< [rows]: least variance over the sum of all (Pauly et al. 2002), 0 to 1/dim
};

/// Memory that takes normals, row-major, on the host or on one CUDA device.
struct NormalsView {
  double* normals = nullptr;    ///< [rows, dim]
  double* curvature = nullptr;  ///< [rows]; null: not asked for
  std::int64_t rows = 0;
  std::int64_t dim = 0;
  MemorySpace space = MemorySpace::host;
  int device = 0;  ///< ordinal when space is cuda
  /// Elements from a row's to the next one's, of both; 0: dim, and 1. Only on the host.
  std::int64_t stride = 0;
  /// Called with numbers of rows that are as they stay, so that whoever writes them elsewhere need not wait
  /// for the rest; from the threads that work, several at once. Rows without a normal, and all that a device
  /// finds, may be left to the end of the call. What it throws ends the call.
  std::function<void(std::span<const std::int64_t> rows)> finished = {};

  std::int64_t normal_stride() const noexcept { return stride == 0 ? dim : stride; }
  std::int64_t curvature_stride() const noexcept { return stride == 0 ? 1 : stride; }
};

/// Distances of a point's neighbours, itself excluded.
struct Outliers {
  std::vector<double> mean_distance;  ///< [rows], in units of the metric's distance; NaN without neighbours
  std::vector<bool> outlier;          ///< [rows]
  double mean = 0;                    ///< of mean_distance over all points
  double deviation = 0;               ///< its standard deviation (of the sample)
  double threshold = 0;               ///< mean + ratio * deviation; farther points are outliers
};

/// A tree over rows; see KdTree and Octree. Keeps its own copy of the rows, in its own order; the caller's
/// array is neither changed nor needed after the build, and every index returned is a row of it.
///
/// Built and searched on the CPU or on a CUDA device, whichever each call's Execution names: a tree built on
/// one is searched on any other, and its first search there copies it. Of several devices the first does the
/// work. Queries may lie in host memory, or in that of the device that searches.
///
/// Thread-safe: any number of threads may search one tree. Copies share it. Distances, radii included, are in
/// units of the metric: squared for sqeuclidean.
class PointTree {
 public:
  /// The k nearest rows of each query, none farther than `radius`.
  /// @param queries [q, dim] of the rows' dtype
  /// @param k at least 1; where fewer rows are found, -1 and +inf
  /// @throws InvalidArgument, OutOfMemory, DeviceError, Cancelled
  Neighbors search(const DatasetView& queries, std::int64_t k, const Execution& execution = {},
                   double radius = std::numeric_limits<double>::infinity()) const;

  /// The same into memory of the caller, on the host or the device that searches; complete when the call
  /// returns.
  SearchStatistics search_into(const DatasetView& queries, const NeighborsView& out,
                               const Execution& execution = {},
                               double radius = std::numeric_limits<double>::infinity()) const;

  /// The same with options: the radius, and the rows that may be found. The answer is exact over the allowed
  /// rows: where they are few, a tree of their own is built for this search.
  /// @throws InvalidArgument also for another option, and for a set over another number of rows
  Neighbors search(const DatasetView& queries, std::int64_t k, const Execution& execution,
                   const SearchOptions& options) const;
  SearchStatistics search_into(const DatasetView& queries, const NeighborsView& out,
                               const Execution& execution, const SearchOptions& options) const;

  /// The k nearest other rows of every row; with `include_self` a row counts among its own neighbours.
  /// @return [rows, k]; -1 and +inf for rows with a NaN
  Neighbors all_knn(std::int64_t k, bool include_self = false, const Execution& execution = {},
                    double radius = std::numeric_limits<double>::infinity()) const;

  /// The same into memory of the caller, on the host or the device that searches: [rows, out.k].
  SearchStatistics all_knn_into(const NeighborsView& out, bool include_self = false,
                                const Execution& execution = {},
                                double radius = std::numeric_limits<double>::infinity()) const;

  /// All rows within `radius` (inclusive) of each query.
  /// @throws InvalidArgument, OutOfMemory, DeviceError, Cancelled
  RadiusNeighbors radius_search(const DatasetView& queries, double radius, const RadiusOptions& options = {},
                                const Execution& execution = {}) const;

  /// How many rows are within `radius` (inclusive) of each query.
  std::vector<std::int64_t> count_within(const DatasetView& queries, double radius,
                                         const Execution& execution = {}) const;

  /// @param viewpoint [dim] normals are flipped to point towards it; none: the largest component is positive
  /// @throws InvalidArgument when dim is not 2 or 3, or the metric is manhattan
  Normals normals(const Neighborhood& neighborhood, const std::optional<std::vector<double>>& viewpoint = {},
                  const Execution& execution = {}) const;

  /// The same into memory of the caller, on the host or the device that searches; complete when the call
  /// returns.
  /// With a stride a GPU's answer is held twice for a while.
  /// @param built_from the rows that the tree was built from, where they are still at hand, or empty. A
  ///   contiguous array of f32 or f64 in host memory spares a call on the CPU a copy of its own; some rows
  ///   are compared with the tree's, the others are taken on trust
  /// @throws InvalidArgument also where the view is not [rows(), dim()], or `built_from` holds other rows
  void normals_into(const NormalsView& out, const Neighborhood& neighborhood,
                    const std::optional<std::vector<double>>& viewpoint = {}, const Execution& execution = {},
                    const DatasetView& built_from = {}) const;

  /// Statistical outlier removal (Rusu et al. 2008): points whose mean distance to their neighbours is more
  /// than `ratio` standard deviations above the mean of all points. Points without a neighbour are outliers.
  Outliers outliers(const Neighborhood& neighborhood, double ratio = 2,
                    const Execution& execution = {}) const;

  /// Rows per unit of length, area or volume (for euclidean distances, of any dim) around each row: with a
  /// radius, the rows within it, itself included; with k alone, k over the ball that reaches the k-th other
  /// row.
  std::vector<double> density(const Neighborhood& neighborhood, const Execution& execution = {}) const;

  /// Writes one file, whole or not at all.
  /// @throws IoError
  void save(const std::filesystem::path& path, const Execution& execution = {}) const;

  std::int64_t rows() const noexcept;
  std::int64_t dim() const noexcept;
  Dtype dtype() const noexcept;
  Metric metric() const noexcept;
  std::int64_t leaf_size() const noexcept;
  /// Bytes of the tree, its copy of the rows included.
  std::uint64_t memory_bytes() const noexcept;

 protected:
  explicit PointTree(std::shared_ptr<const point_tree::Tree> tree) : tree_(std::move(tree)) {}
  std::shared_ptr<const point_tree::Tree> tree_;
};

}  // namespace kith
