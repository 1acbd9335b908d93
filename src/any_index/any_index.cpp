// The list of index types behind AnyIndex.
#include "kith/any_index.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "io/index_file.hpp"
#include "kith/error.hpp"

namespace kith {

std::vector<std::string> index_types() {
  return {"brute_force", "kd_tree", "octree"};
}

AnyIndex AnyIndex::build(std::string_view type, const Dataset& dataset, const IndexParameters& parameters,
                         const Execution& execution) {
  const Metric metric = parameters.metric;
  if (type == "brute_force") {
    return {type, BruteForce::build(dataset, {metric, parameters.filter}, execution)};
  }
  if (type == "kd_tree") return {type, KdTree::build(dataset, {metric, parameters.leaf_size}, execution)};
  if (type == "octree") return {type, Octree::build(dataset, {metric, parameters.leaf_size}, execution)};
  throw InvalidArgument(
      fmt::format("index type '{}' is not one Kith knows; use {}", type, fmt::join(index_types(), ", ")));
}

AnyIndex AnyIndex::load(const std::filesystem::path& path, const Execution& execution) {
  const IndexFile file = IndexFile::open(path, false);
  const auto type = file.header().value("index", std::string());
  if (type == "brute_force") return {type, BruteForce::load(path, execution)};
  if (type == "kd_tree") return {type, KdTree::load(path, execution)};
  if (type == "octree") return {type, Octree::load(path, execution)};
  throw IoError(
      fmt::format("'{}' holds an index of type '{}', which this Kith does not know; use a newer one",
                  path.string(), type));
}

}  // namespace kith
