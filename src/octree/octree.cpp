// Octree: what its build and its files have of their own; point_tree does the rest.
#include "kith/octree.hpp"

#include <fmt/format.h>

#include "kith/error.hpp"
#include "octree/cpu/build.hpp"
#include "octree/memory.hpp"
#include "point_tree/build.hpp"
#include "point_tree/file.hpp"
#include "point_tree/tuning.hpp"

namespace kith {
namespace {

constexpr point_tree::TreeType tree_type = {.index = Octree::index_type.name,
                                            .default_leaf_size = point_tree::tuning::octree_leaf_size,
                                            .cubes = true,
                                            .bytes_a_point = octree::build_bytes_a_point,
                                            .build = octree::build};

}  // namespace

point_tree::TreeMemory octree::memory(const DatasetView& rows, std::int64_t leaf_size) {
  return point_tree::memory_of(tree_type, rows, leaf_size);
}

Octree Octree::build(const DatasetView& dataset, const OctreeParameters& parameters,
                     const Execution& execution) {
  if (!index_type.takes_dim(dataset.dim)) {
    throw InvalidArgument(
        fmt::format("an octree is for points of dimension 2 or 3, these have {}; use kd_tree", dataset.dim));
  }
  return Octree(
      point_tree::build_checked(tree_type, parameters.metric, parameters.leaf_size, dataset, execution));
}

Octree Octree::load(const std::filesystem::path& path, const Execution& execution) {
  point_tree::check_devices(execution);
  return Octree(point_tree::load(path, tree_type, execution));
}

}  // namespace kith
