// Folders of shards at the command line: what search, radius, info and verify do with them.
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include "common.hpp"
#include "input.hpp"
#include "kith/sharded.hpp"
#include "result.hpp"

namespace kith::cli {

/// Whether a path is a folder of shards, sound or not.
bool is_shards(const std::string& path);

/// What `kith search` asks of a folder.
/// @param allowed the file of --allowed, or empty
void search_shards(const Common& common, const std::string& folder, Source queries,
                   const std::string& input_format, const ResultOptions& result, const SearchOptions& asked,
                   std::string& allowed);

/// Queries for a folder, after an estimate: of its dimension and element type. `plan` then has them.
/// @param answer_bytes of one query
/// @throws IoError, InvalidArgument, OutOfMemory
Dataset load_queries(const Common& common, const Sharded& shards, Source queries,
                     const std::string& input_format, double answer_bytes, MemoryPlan& plan);

/// What kith info says of a folder.
nlohmann::ordered_json describe_shards(const std::string& path);

}  // namespace kith::cli
