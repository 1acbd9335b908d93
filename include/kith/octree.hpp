/// @file
/// Exact nearest neighbours by an octree (Meagher 1980), or a quadtree in two dimensions.
#pragma once

#include "kith/point_tree.hpp"

namespace kith {

struct OctreeParameters {
  Metric metric = Metric::sqeuclidean;  ///< sqeuclidean, euclidean or manhattan
  std::int64_t leaf_size = 0;           ///< most points a leaf, 1 to 4096; 0: chosen for the machine
};

/// An octree (dim 3) or quadtree (dim 2): points are sorted along the Morton curve, and nodes are its cells,
/// cut in half until few points are left. Quick to build; cells follow space, not the points. Built on the
/// CPU, or on the first CUDA device that `execution` names: rows may then lie in its memory, and the tree
/// does. Where it was built does not matter to where it is searched.
class Octree : public PointTree {
 public:
  using Parameters = OctreeParameters;
  static constexpr IndexType index_type = {
      .name = "octree",
      .class_name = "Octree",
      .summary = "cells of a grid of grids; 2 or 3 dimensions, built the quickest",
      .smallest_dim = 2,
      .largest_dim = 3,
      .metrics = tree_metrics,
      .options = tree_options};

  /// @throws InvalidArgument when dim is neither 2 nor 3; OutOfMemory, DeviceError, Cancelled
  static Octree build(const DatasetView& dataset, const OctreeParameters& parameters = {},
                      const Execution& execution = {});

  /// Memory-maps a saved tree; nothing is rebuilt. A GPU gets its copy with its first search.
  /// @throws IoError when the file is missing, truncated, corrupt or foreign
  static Octree load(const std::filesystem::path& path, const Execution& execution = {});

 private:
  using PointTree::PointTree;
};

}  // namespace kith
