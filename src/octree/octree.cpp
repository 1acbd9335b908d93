// Octree: what its build and its files have of their own; point_tree does the rest.
#include "kith/octree.hpp"

#include <fmt/format.h>

#include "kith/error.hpp"
#include "octree/cpu/build.hpp"
#include "point_tree/build.hpp"
#include "point_tree/file.hpp"
#include "point_tree/tuning.hpp"

namespace kith {

Octree Octree::build(const DatasetView& dataset, const OctreeParameters& parameters,
                     const Execution& execution) {
  if (!index_type.takes_dim(dataset.dim)) {
    throw InvalidArgument(
        fmt::format("an octree is for points of dimension 2 or 3, these have {}; use kd_tree", dataset.dim));
  }
  return Octree(point_tree::build_checked(
      {index_type.name, parameters.metric, parameters.leaf_size, point_tree::tuning::octree_leaf_size, true},
      dataset, execution, octree::build_bytes_a_point, octree::build));
}

Octree Octree::load(const std::filesystem::path& path, const Execution& execution) {
  point_tree::check_devices(execution);
  return Octree(point_tree::load(path, index_type.name, execution));
}

}  // namespace kith
