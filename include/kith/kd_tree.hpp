/// @file
/// Exact nearest neighbours by a k-d tree (Bentley 1975): any dimension, sensible up to about 16.
#pragma once

#include "kith/point_tree.hpp"

namespace kith {

struct KdTreeParameters {
  Metric metric = Metric::sqeuclidean;  ///< sqeuclidean, euclidean or manhattan
  std::int64_t leaf_size = 0;           ///< most points a leaf, 1 to 4096; 0: chosen for the machine
};

/// A k-d tree: each node splits its points at the median of the axis along which they spread the most, four
/// splits at a time, the upper ones at medians of a sample. Adapts to any distribution. On a GPU, the first
/// CUDA device that `execution` names, cells are halved across their longest side instead, and the points
/// sorted by cell; rows may then lie in its memory, and the tree does. Where it was built does not matter to
/// where it is searched.
class KdTree : public PointTree {
 public:
  using Parameters = KdTreeParameters;
  static constexpr IndexType index_type = {
      .name = "kd_tree",
      .class_name = "KdTree",
      .summary = "boxes around halves of the points; any dimension, sensible up to about 16",
      .metrics = tree_metrics,
      .options = tree_options};

  /// @throws InvalidArgument, OutOfMemory, DeviceError, Cancelled
  static KdTree build(const DatasetView& dataset, const KdTreeParameters& parameters = {},
                      const Execution& execution = {});

  /// Memory-maps a saved tree; nothing is rebuilt. A GPU gets its copy with its first search.
  /// @throws IoError when the file is missing, truncated, corrupt or foreign
  static KdTree load(const std::filesystem::path& path, const Execution& execution = {});

 private:
  using PointTree::PointTree;
};

}  // namespace kith
