/// @file
/// Exact nearest neighbours by a k-d tree (Bentley 1975): any dimension, sensible up to about 16.
#pragma once

#include "kith/point_tree.hpp"

namespace kith {

struct KdTreeParameters {
  Metric metric = Metric::sqeuclidean;  ///< sqeuclidean, euclidean or manhattan
  std::int64_t leaf_size = 0;           ///< most points a leaf, 1 to 4096; 0: chosen for this machine
};

/// A k-d tree: each node splits its points at the median of the axis along which they spread the most, four
/// splits at a time, the upper ones at medians of a sample. Adapts to any distribution.
class KdTree : public PointTree {
 public:
  /// @throws InvalidArgument, OutOfMemory, DeviceError, Cancelled
  static KdTree build(const DatasetView& dataset, const KdTreeParameters& parameters = {},
                      const Execution& execution = {});

  /// Memory-maps a saved tree; nothing is rebuilt.
  /// @throws IoError when the file is missing, truncated, corrupt or foreign
  static KdTree load(const std::filesystem::path& path, const Execution& execution = {});

 private:
  using PointTree::PointTree;
};

}  // namespace kith
