// KdTree: what its build and its files have of their own; point_tree does the rest.
#include "kith/kd_tree.hpp"

#include "kd_tree/cpu/build.hpp"
#include "kd_tree/memory.hpp"
#include "point_tree/build.hpp"
#include "point_tree/file.hpp"
#include "point_tree/tuning.hpp"

namespace kith {
namespace {

constexpr point_tree::TreeType tree_type = {.index = KdTree::index_type.name,
                                            .default_leaf_size = point_tree::tuning::kd_tree_leaf_size,
                                            .cubes = false,
                                            .bytes_a_point = kd_tree::build_bytes_a_point,
                                            .build = kd_tree::build};

}  // namespace

point_tree::TreeMemory kd_tree::memory(const DatasetView& rows, std::int64_t leaf_size) {
  return point_tree::memory_of(tree_type, rows, leaf_size);
}

KdTree KdTree::build(const DatasetView& dataset, const KdTreeParameters& parameters,
                     const Execution& execution) {
  return KdTree(
      point_tree::build_checked(tree_type, parameters.metric, parameters.leaf_size, dataset, execution));
}

KdTree KdTree::load(const std::filesystem::path& path, const Execution& execution) {
  point_tree::check_devices(execution);
  return KdTree(point_tree::load(path, tree_type, execution));
}

}  // namespace kith
