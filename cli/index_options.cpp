// --index and the options of its kinds.
#include "index_options.hpp"

#include <fmt/format.h>

#include "interrupt.hpp"
#include "kith/point_tiles.hpp"
#include "stream.hpp"
#include "suggest.hpp"

namespace kith::cli {
namespace {

using Choices = std::vector<std::pair<std::string, std::string>>;

// The index types that `wanted` says yes to.
template <class Wanted>
void add_types(Choices& choices, const Wanted& wanted) {
  for (const IndexType& type : Indexes::types) {
    if (wanted(type)) choices.emplace_back(type.name, type.summary);
  }
}

void add_index_option(CLI::App& command, Common& common, IndexOptions& options, const Choices& choices) {
  common
      .choice(command
                  .add_option("--index", options.index,
                              "What to search with; exact types never change the answer")
                  ->type_name("TYPE"),
              choices)
      ->capture_default_str()
      ->group("Search");
  command
      .add_option("--leaf-size", options.leaf_size,
                  "Most points in a leaf of a tree, 1 to 4096 [default: a size measured to be fast]")
      ->type_name("N")
      ->group("Search");
}

}  // namespace

bool has_leaves(std::string_view index) {
  if (Indexes::find(index) == nullptr) return false;
  IndexParameters parameters = Indexes::parameters(index, Metric::euclidean);
  return set_leaf_size(parameters, 0);
}

void add_any_index_options(CLI::App& command, Common& common, IndexOptions& options, bool with_tiles) {
  Choices choices = {{"auto", "whichever should be fastest, its build included; a note says which and why"}};
  add_types(choices, [](const IndexType&) { return true; });
  if (with_tiles) choices.emplace_back(PointTiles::type_name, PointTiles::summary);
  add_index_option(command, common, options, choices);
}

void add_approximate_options(CLI::App& command, IndexOptions& options) {
  SearchOptions& asked = options.approximate;
  command
      .add_option(
          "--recall", asked.recall,
          "Share of the nearest rows to find, above 0 and at most 1: an approximate index takes the shortest "
          "list that reaches it with 99 % confidence, by the measurements of its build; 1 is exact [default: "
          "0.95]")
      ->type_name("R")
      ->group("Search");
  command
      .add_option(
          "--list-size", asked.list_size,
          "Instead of --recall: length of the list of nearest rows that a walk through the graph keeps, at "
          "least K; a longer one finds more and takes longer")
      ->type_name("L")
      ->group("Search");
  command
      .add_option("--beam-width", asked.beam_width,
                  "With --list-size: rows of that list expanded at a time, 1 to 64 [default: 1]")
      ->type_name("N")
      ->group("Search");
  command
      .add_option(
          "--rerank", asked.rerank,
          "With --list-size: rows of that list evaluated exactly, from K to L [default: as many as the build "
          "found to be enough]")
      ->type_name("N")
      ->group("Search");
}

void add_allowed_option(CLI::App& command, Common& common, std::string& file) {
  common.file(
      command
          .add_option("--allowed", file,
                      "Find only these rows of the base: a file with the number of a row a line, or an "
                      "npy array, integers that are numbers of rows, or bool with a flag a row; an exact "
                      "answer is exact over them")
          ->type_name("FILE")
          ->group("Search"));
}

std::optional<RowSet> read_allowed(const Common& common, std::string& file, std::int64_t rows) {
  if (file.empty()) return std::nullopt;
  open_input(common, file);
  return read_row_set(file, rows, interrupted);
}

void add_graph_options(CLI::App& command, IndexOptions& options) {
  command
      .add_option("--max-degree", options.max_degree,
                  "Most neighbours of a row in a graph, 4 to 1024 [default: 64]")
      ->type_name("N")
      ->group("Index");
  command
      .add_option("--build-list-size", options.build_list_size,
                  "Length of the list while the neighbours of a row of the graph are sought, --max-degree to "
                  "65536; a longer one makes a better graph and takes longer; 0 for 128, or 256 for 400,000 "
                  "rows or more of 384 values or more, and twice --max-degree at least [default: 0]")
      ->type_name("N")
      ->group("Index");
  command
      .add_option(
          "--alpha", options.alpha,
          "How much longer a detour may be that replaces an edge of the graph, 1 to 2 [default: 1.05]")
      ->type_name("A")
      ->group("Index");
  from_zero(command.add_option("--seed", options.seed,
                               "Seed of the order in which rows are added to the graph [default: 0]"))
      ->type_name("N")
      ->group("Index");
  command
      .add_option(
          "--code-bits", options.code_bits,
          "Bits a value of the codes that walks through the graph compare: 8, or 4 for half the bytes "
          "and longer lists; 0 for 4 where codes of 384 values or more keep the order of the nearest rows "
          "of a sample, else 8 [default: 0]")
      ->type_name("N")
      ->group("Index");
  command
      .add_option(
          "--code-dim", options.code_dim,
          "Values of such a code: leading principal directions, a multiple of 32 below the dimension; "
          "the dimension for all values; 0 for as few directions as hold 92.5 % of the variance, where "
          "half of them do [default: 0]")
      ->type_name("N")
      ->group("Index");
  command
      .add_option("--codes", options.codes,
                  "What walks through the graph compare: scalar codes, or rabitq or pq codes of them, which "
                  "take less memory and want longer lists [default: scalar]")
      ->type_name("KIND")
      ->group("Index");
  command
      .add_option("--rabitq-bits", options.rabitq_bits,
                  "rabitq: bits a value of the codes, 1 to 8 [default: 4]")
      ->type_name("N")
      ->group("Index");
  command
      .add_option("--pq-subspaces", options.pq_subspaces,
                  "pq: bytes a code [default: one for every four values of a scalar code]")
      ->type_name("N")
      ->group("Index");
}

void add_tree_index_options(CLI::App& command, Common& common, IndexOptions& options) {
  Choices choices = {{"auto", std::string(KdTree::index_type.name)}};
  add_types(choices, [](const IndexType& type) { return has_leaves(type.name); });
  add_index_option(command, common, options, choices);
}

void add_radius_option(CLI::App& command, IndexOptions& options, const std::string& text) {
  command.add_option("--radius", options.radius, text)->type_name("R")->group("Search");
}

void add_tree_metric_option(CLI::App& command, Common& common, std::string& metric) {
  auto* option = command.add_option("--metric", metric, "The distance of two rows")
                     ->type_name("METRIC")
                     ->capture_default_str()
                     ->group("Search");
  common.choice(option,
                {{"euclidean", "the straight-line distance, in the units of the coordinates"},
                 {"sqeuclidean", "its square; a radius is squared, too"},
                 {"manhattan", "sum of |q_i - x_i|"}},
                false);
  option->check([](const std::string& value) {
    try {
      parse_tree_metric(value);
      return std::string();
    } catch (const InvalidArgument& error) {
      std::vector<std::string> names;
      for (const Metric known : tree_metrics) names.emplace_back(name(known));
      return error.what() + did_you_mean(value, names);
    }
  });
}

Metric parse_tree_metric(const std::string& text) {
  const Metric metric = parse_metric(text);
  if (!is_tree_metric(metric)) {
    throw InvalidArgument(fmt::format(
        "no tree supports {}, trees support sqeuclidean, euclidean and manhattan; kith knn --index "
        "brute_force supports all metrics",
        text));
  }
  return metric;
}

void add_neighborhood_options(CLI::App& command, IndexOptions& options, std::optional<std::int64_t>& k) {
  command
      .add_option("-k,--neighbors", k,
                  "Nearest points that make a neighbourhood, at least 1 [default: 20; all within the radius "
                  "where one is given]")
      ->type_name("K")
      ->group("Search");
  add_radius_option(command, options, "Only points at most this far; with -k the nearest K of them");
}

}  // namespace kith::cli
