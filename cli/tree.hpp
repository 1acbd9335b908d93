// What commands that choose among indexes, or work on a tree, have in common.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <nlohmann/json_fwd.hpp>

#include "common.hpp"
#include "index_options.hpp"
#include "input.hpp"

namespace kith::cli {

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

/// Rows as their header says, for estimates: there are none yet.
DatasetView shape_of(const Source& source, const Size& size);

/// Refuses what `plan` cannot hold together with a tree over such rows while it is built, or with the tree
/// and what a search takes: by the estimates that build and search go by, before anything is read. On a GPU
/// the tree lies there.
/// @param what, bytes of the search
/// @throws OutOfMemory
void check_with_tree(const MemoryPlan& plan, const IndexOptions& options, const DatasetView& rows,
                     const std::string& what, double bytes);

/// What in_memory(on_gpu) returns; nothing where that does not fit in memory and `may_take_tiles()`, which
/// then have to do. What only building or searching finds out about memory is no reason to fail either,
/// unless it is a GPU's, which in_memory() says.
template <class InMemory, class MayTakeTiles>
auto unless_too_large(const InMemory& in_memory, const MayTakeTiles& may_take_tiles)
    -> std::optional<decltype(in_memory(std::declval<bool&>()))> {
  bool on_gpu = false;
  try {
    return in_memory(on_gpu);
  } catch (const OutOfMemory&) {
    if (on_gpu || !may_take_tiles()) throw;
  }
  return std::nullopt;
}

/// Builds the tree; `plan` then has its bytes and `execution` what is left for the search.
AnyIndex build_tree(const IndexOptions& options, const Dataset& points, Metric metric, MemoryPlan& plan,
                    Execution& execution);

/// The k nearest, all within the radius, or the k nearest of those; 20 nearest when neither is given.
/// @throws InvalidArgument
Neighborhood neighborhood(const IndexOptions& options, const std::optional<std::int64_t>& k);

/// Points as a format of point clouds holds them: f32 and f64 as they are, narrower types as f32.
Dataset as_floats(const Common& common, const Dataset& points);

}  // namespace kith::cli
