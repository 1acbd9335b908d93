// What commands that choose among indexes, or work on a tree, have in common.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "common.hpp"
#include "input.hpp"

namespace kith::cli {

/// --index and the options that only some indexes know.
struct IndexOptions {
  std::string index = "auto";
  std::optional<std::int64_t> leaf_size;
  std::optional<double> radius;
  /// What approximate indexes are told: recall, list_size, beam_width, rerank.
  SearchOptions approximate{};
  /// What only some types are built with.
  std::optional<std::int64_t> max_degree{}, build_list_size{};
  std::optional<double> alpha{};
  std::optional<std::uint64_t> seed{};
  std::optional<std::int64_t> code_bits{}, code_dim{}, rabitq_bits{}, pq_subspaces{};
  std::string codes{};                  // their kind; empty: as usual
  std::string tuning;                   ///< file of --tune
  const CLI::Option* filter = nullptr;  ///< --filter, where the command has it

  /// All that a search is told.
  SearchOptions search() const {
    SearchOptions all = approximate;
    all.radius = radius;
    return all;
  }
  double radius_or_all() const { return radius.value_or(std::numeric_limits<double>::infinity()); }
};

/// --index with brute_force among its values, and --leaf-size. `with_tiles`: point_tiles as well, which is no
/// AnyIndex.
void add_any_index_options(CLI::App& command, Common& common, IndexOptions& options, bool with_tiles = false);
/// --recall, --list-size, --beam-width and --rerank, of approximate indexes.
void add_approximate_options(CLI::App& command, IndexOptions& options);
/// --allowed FILE.
void add_allowed_option(CLI::App& command, Common& common, std::string& file);
/// The rows that FILE allows, of `rows`; nothing without a file. "-" is standard input.
/// @throws IoError
std::optional<RowSet> read_allowed(const Common& common, std::string& file, std::int64_t rows);
/// --max-degree, --build-list-size, --alpha, --seed, --code-bits and --code-dim, of graphs.
void add_graph_options(CLI::App& command, IndexOptions& options);
/// --index with trees only, and --leaf-size.
void add_tree_index_options(CLI::App& command, Common& common, IndexOptions& options);
/// --radius. `text` says what it limits.
void add_radius_option(CLI::App& command, IndexOptions& options, const std::string& text);
/// --metric with those that trees know.
void add_tree_metric_option(CLI::App& command, Common& common, std::string& metric);

/// Checks values, and options that the index named would ignore, before anything is read.
/// @throws InvalidArgument
void check_index_options(const IndexOptions& options);

/// The index to take for one search of a known size, and why. @param queries 0: many
/// @throws InvalidArgument
IndexChoice resolve_index(const IndexOptions& options, std::int64_t rows, std::int64_t dim,
                          std::int64_t queries, std::int64_t k, Metric metric, const Execution& execution);

/// The parameters of a type, as options ask for them: checked by check_index_options.
IndexParameters make_parameters(std::string_view type, Metric metric, const IndexOptions& options,
                                Filter filter);

/// The index that answered, for --json and for the note of --index auto.
struct IndexUsed {
  std::string name;
  std::int64_t leaf_size = 0;  ///< of a tree
  std::string reason;          ///< why --index auto took it; empty where it was named
};
IndexUsed used(const AnyIndex& index);
/// {"name": ..., "leaf_size": ..., "reason": ...}, without what there is not.
nlohmann::json to_json(const IndexUsed& index);
/// The note that says what --index auto came to; nothing where it was not asked.
void note_choice(const Common& common, const IndexUsed& index);

/// A metric by name. @throws InvalidArgument for one that trees do not know
Metric parse_tree_metric(const std::string& text);

/// Refuses what `plan` cannot hold together with a tree over the points; about, before anything is read. On a
/// GPU the tree lies there.
/// @throws OutOfMemory
void check_with_tree(MemoryPlan plan, const Size& points);

/// Builds the tree; `plan` then has its bytes and `execution` what is left for the search.
AnyIndex build_tree(const IndexOptions& options, const Dataset& points, Metric metric, MemoryPlan& plan,
                    Execution& execution);

/// -k and --radius of the commands that work on each point's neighbourhood.
void add_neighborhood_options(CLI::App& command, IndexOptions& options, std::optional<std::int64_t>& k);
/// The k nearest, all within the radius, or the k nearest of those; 20 nearest when neither is given.
/// @throws InvalidArgument
Neighborhood neighborhood(const IndexOptions& options, const std::optional<std::int64_t>& k);

/// Points as a format of point clouds holds them: f32 and f64 as they are, narrower types as f32.
Dataset as_floats(const Common& common, const Dataset& points);

}  // namespace kith::cli
