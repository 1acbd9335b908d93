// --index and the options of its kinds.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "common.hpp"

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

/// -k and --radius of the commands that work on each point's neighbourhood.
void add_neighborhood_options(CLI::App& command, IndexOptions& options, std::optional<std::int64_t>& k);
/// A metric by name. @throws InvalidArgument for one that trees do not know
Metric parse_tree_metric(const std::string& text);

/// Whether it is a tree.
bool has_leaves(std::string_view index);

}  // namespace kith::cli
