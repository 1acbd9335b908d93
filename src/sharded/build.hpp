// Rows into a folder of shards.
#pragma once

#include <filesystem>
#include <functional>
#include <span>

#include <nlohmann/json_fwd.hpp>

#include "kith/dataset.hpp"
#include "kith/sharded.hpp"

namespace kith::sharded {

/// Rows that shards are made of, some at a time and in order.
struct RowSource {
  std::int64_t rows = 0;
  std::int64_t dim = 0;
  Dtype dtype = Dtype::f32;
  bool in_memory = false;  ///< take() copies nothing
  std::function<Dataset(std::int64_t first, std::int64_t count)> take;
};

/// @param sources what the rows are of, for the journal
/// @param resumable whether a run to come finds the same rows there
void build(const RowSource& rows, const nlohmann::json& sources, bool resumable,
           const std::filesystem::path& folder, const ShardedParameters& parameters,
           const Execution& execution);

/// Where a folder is to be: nothing, an empty folder, or older shards, which are replaced. @throws IoError
void check_place(const std::filesystem::path& folder);

/// Folders of shards as one, see Sharded::join().
void join(const std::filesystem::path& folder, std::span<const std::filesystem::path> parts,
          const Execution& execution);

/// A part of a long call, whose progress counts `units` of `total` after `done`. `execution` outlives it.
Execution part_of(const Execution& execution, const char* stage, std::int64_t done, std::int64_t units,
                  std::int64_t total);

}  // namespace kith::sharded
