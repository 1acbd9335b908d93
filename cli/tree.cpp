// Which index options come to, and the trees.
#include "tree.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "kd_tree/memory.hpp"
#include "octree/memory.hpp"
#include "stream.hpp"

namespace kith::cli {
namespace {

// Parameters and options that are not every index's.
bool has_filter(std::string_view index) {
  if (Indexes::find(index) == nullptr) return false;  // point tiles
  IndexParameters parameters = Indexes::parameters(index, Metric::euclidean);
  return set_filter(parameters, Filter::automatic);
}

// The first option of a walk that was given, as it is written.
const char* walk_option(const IndexOptions& options) {
  const SearchOptions& asked = options.approximate;
  if (asked.list_size) return "--list-size";
  if (asked.beam_width) return "--beam-width";
  if (!options.tuning.empty()) return "--tune";
  return asked.rerank ? "--rerank" : nullptr;
}

// The first option of approximate indexes that was given. A recall of 1 is anyone's.
const char* approximate_option(const IndexOptions& options) {
  const SearchOptions& asked = options.approximate;
  if (asked.recall && *asked.recall != 1) return "--recall";
  return walk_option(options);
}

// The first option of building a graph that was given.
const char* graph_option(const IndexOptions& options) {
  if (options.max_degree) return "--max-degree";
  if (options.build_list_size) return "--build-list-size";
  if (options.alpha) return "--alpha";
  if (options.code_bits) return "--code-bits";
  if (options.code_dim) return "--code-dim";
  if (!options.codes.empty()) return "--codes";
  if (options.rabitq_bits) return "--rabitq-bits";
  if (options.pq_subspaces) return "--pq-subspaces";
  return options.seed ? "--seed" : nullptr;
}

bool is_graph(std::string_view index) {
  if (Indexes::find(index) == nullptr) return false;
  const IndexParameters parameters = Indexes::parameters(index, Metric::euclidean);
  return std::visit(
      [](const auto& its) {
        return requires {
          its.max_degree;
        };
      },
      parameters);
}

// The first type that is built or searched by such options.
std::string_view first_graph() {
  return std::ranges::find_if(Indexes::types, [](const IndexType& type) { return is_graph(type.name); })
      ->name;
}

const char* tree_option(const IndexOptions& options) {
  if (options.radius) return "--radius";
  return options.leaf_size ? "--leaf-size" : nullptr;
}

}  // namespace

IndexUsed used(const AnyIndex& index) {
  const PointTree* tree = index.point_tree();
  return {index.type(), tree == nullptr ? 0 : tree->leaf_size(), ""};
}

nlohmann::json to_json(const IndexUsed& index) {
  nlohmann::json object = {{"name", index.name}};
  if (index.leaf_size > 0) object["leaf_size"] = index.leaf_size;
  if (!index.reason.empty()) object["reason"] = index.reason;
  return object;
}

void note_choice(const Common& common, const IndexUsed& index) {
  if (index.reason.empty()) return;
  note(common, fmt::format("--index auto takes {}: {}", index.name, index.reason));
}

void check_index_options(const IndexOptions& options) {
  if (options.leaf_size && (*options.leaf_size < 1 || *options.leaf_size > 4096)) {
    throw InvalidArgument(fmt::format("--leaf-size {}: use 1 to 4096", *options.leaf_size));
  }
  if (options.radius && !(*options.radius >= 0)) {
    throw InvalidArgument(fmt::format("--radius {}: use 0 or more, in units of the metric", *options.radius));
  }
  if (const auto recall = options.approximate.recall; recall && !(*recall > 0 && *recall <= 1)) {
    throw InvalidArgument(fmt::format("--recall {}: use above 0, to 1 for the exact answer", *recall));
  }
  const bool filter = options.filter != nullptr && options.filter->count() > 0;
  const char* for_trees = tree_option(options);
  for (const char* for_graphs : {approximate_option(options), graph_option(options)}) {
    if (for_graphs == nullptr) continue;
    if (options.index != "auto" && !is_graph(options.index)) {
      throw InvalidArgument(
          fmt::format("{0} is for graphs, --index {1} would ignore it; use --index {2}, or leave "
                      "{0} out",
                      for_graphs, options.index, first_graph()));
    }
    if (filter || for_trees != nullptr) {
      throw InvalidArgument(fmt::format("{} is for graphs, {} is not; leave one of them out", for_graphs,
                                        filter ? "--filter" : for_trees));
    }
  }
  if (options.index != "auto") {
    if (for_trees != nullptr && !has_leaves(options.index)) {
      throw InvalidArgument(
          fmt::format("{} is for trees, --index {} would ignore it; use --index kd_tree or auto", for_trees,
                      options.index));
    }
    if (!filter || has_filter(options.index)) return;
    throw InvalidArgument(fmt::format(
        "--filter is for brute_force, --index {} would ignore it; leave one of them out", options.index));
  }
  if (filter && for_trees != nullptr) {
    throw InvalidArgument(
        fmt::format("--filter is for brute_force, {} is for trees; leave one of them out", for_trees));
  }
}

IndexChoice resolve_index(const IndexOptions& options, std::int64_t rows, std::int64_t dim,
                          std::int64_t queries, std::int64_t k, Metric metric, const Execution& execution) {
  if (options.index != "auto") return {options.index, "--index asks for it"};
  if (const char* asking = walk_option(options)) {
    return {std::string(first_graph()), fmt::format("{} is an option of graphs", asking)};
  }
  if (const char* asking = graph_option(options)) {
    return {std::string(first_graph()), fmt::format("{} is an option of graphs", asking)};
  }
  if (options.filter != nullptr && options.filter->count() > 0) {
    return {std::string(BruteForce::index_type.name), "--filter is its option"};
  }
  if (const char* asking = tree_option(options)) {
    if (!is_tree_metric(metric)) {
      throw InvalidArgument(
          fmt::format("{} is for trees, and no tree supports {}; use sqeuclidean, euclidean or manhattan, or "
                      "leave {} out",
                      asking, name(metric), asking));
    }
    return {std::string(KdTree::index_type.name), fmt::format("{} is an option of trees", asking)};
  }
  return choose_index(rows, dim, queries, k, metric, execution, options.approximate.recall.value_or(1));
}

IndexParameters make_parameters(std::string_view type, Metric metric, const IndexOptions& options,
                                Filter filter) {
  IndexParameters parameters = Indexes::parameters(type, metric);
  set_filter(parameters, filter);
  set_leaf_size(parameters, options.leaf_size.value_or(0));
  std::visit(
      [&](auto& its) {
        if constexpr (requires { its.max_degree; }) {
          its.max_degree = options.max_degree.value_or(its.max_degree);
          its.build_list_size = options.build_list_size.value_or(its.build_list_size);
          its.alpha = options.alpha.value_or(its.alpha);
          its.seed = options.seed.value_or(its.seed);
          its.code_bits = options.code_bits.value_or(its.code_bits);
          its.code_dim = options.code_dim.value_or(its.code_dim);
          if (!options.codes.empty()) its.codes = parse_code_kind(options.codes);
          its.rabitq_bits = options.rabitq_bits.value_or(its.rabitq_bits);
          its.pq_subspaces = options.pq_subspaces.value_or(its.pq_subspaces);
        }
      },
      parameters);
  return parameters;
}

DatasetView shape_of(const Source& source, const Size& size) {
  Dtype dtype = Dtype::f64;  // the widest, where the header does not say
  const double element = size.bytes / std::max(1.0, size.rows * size.row_elements);
  try {
    if (source.inspected) dtype = parse_dtype(source.inspected->element_type);
  } catch (const InvalidArgument&) {
    if (element == static_cast<double>(size_of(Dtype::f32))) dtype = Dtype::f32;
  }
  const auto dim = static_cast<std::int64_t>(size.row_elements);
  return {nullptr, dtype, static_cast<std::int64_t>(size.rows), dim, dim};
}

void check_with_tree(const MemoryPlan& plan, const IndexOptions& options, const DatasetView& rows,
                     const std::string& what, double bytes) {
  MemoryPlan searching = plan;
  if (!plan.on_gpu()) {
    const std::int64_t leaf_size = options.leaf_size.value_or(0);
    const point_tree::TreeMemory memory = options.index == Octree::index_type.name
                                              ? octree::memory(rows, leaf_size)
                                              : kd_tree::memory(rows, leaf_size);
    MemoryPlan building = plan;
    building.add("tree while it is built", static_cast<double>(memory.building));
    building.check();
    searching.add("tree", static_cast<double>(memory.tree));
  }
  searching.add(what, bytes);
  searching.check();
}

AnyIndex build_tree(const IndexOptions& options, const Dataset& points, Metric metric, MemoryPlan& plan,
                    Execution& execution) {
  const IndexParameters parameters = make_parameters(
      options.index == "auto" ? KdTree::index_type.name : options.index, metric, options, Filter::automatic);
  execution.memory_limit = plan.left();
  AnyIndex tree = AnyIndex::build(points, parameters, execution);
  if (plan.on_gpu()) {
    hold_on_device(tree, execution);
    return tree;
  }
  plan.add("tree", static_cast<double>(tree.memory_bytes()));
  plan.check();
  execution.memory_limit = plan.left();
  return tree;
}

Neighborhood neighborhood(const IndexOptions& options, const std::optional<std::int64_t>& k) {
  if (k && *k < 1) {
    throw InvalidArgument(fmt::format("-k {}: at least 1 neighbour must be asked for", *k));
  }
  if (!k && options.radius && std::isinf(*options.radius)) {
    throw InvalidArgument(
        "--radius inf: every point is within it of every other; give a radius that is finite, or -k as well");
  }
  constexpr std::int64_t usual = 20;
  return {k.value_or(options.radius ? 0 : usual), options.radius_or_all()};
}

Dataset as_floats(const Common& common, const Dataset& points) {
  if (points.dtype() == Dtype::f32 || points.dtype() == Dtype::f64) return points;
  note(common, fmt::format("the points are {} and are written as f32, which holds them exactly",
                           name(points.dtype())));
  return convert(points, Dtype::f32);
}

}  // namespace kith::cli
