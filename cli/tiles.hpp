// Point tiles at the command line: what build, all-knn, search, info and verify do with a folder of them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "common.hpp"
#include "input.hpp"
#include "kith/point_tiles.hpp"
#include "result.hpp"

namespace kith::cli {

/// --tile-points of build and of commands that may make tiles.
void add_tile_points_option(CLI::App& command, std::optional<std::int64_t>& tile_points);
/// @throws InvalidArgument
PointTilesParameters tile_parameters(const std::optional<std::int64_t>& tile_points);

/// Options of searches that only tiles know.
struct TileOptions {
  std::string inside = "kd_tree";
  std::string order = "input";
  std::string index_dtype = "i64";
  const CLI::Option *inside_given = nullptr, *order_given = nullptr, *dtype_given = nullptr;
};
void add_inside_option(CLI::App& command, Common& common, TileOptions& options);
/// --order and --index-dtype, of answers in files.
void add_tile_answer_options(CLI::App& command, Common& common, TileOptions& options);
/// The first of them that was given, as it is written; null for none.
const char* given_tile_option(const TileOptions& options);
/// @throws InvalidArgument where one was given for an index that is no tiles
void refuse_tile_options(const TileOptions& options, const std::string& index);

/// True for a folder: files and streams are no tiles.
bool is_tiles(const std::string& path);

/// make_execution() for what runs on the CPU.
Execution tile_execution(const Common& common);

/// Builds a folder from files, a line on stderr or JSON on stdout included.
void build_tiles(const Common& common, std::vector<Source>& clouds, const std::string& input_format,
                 const std::string& folder, const PointTilesParameters& parameters);

/// All nearest neighbours of tiles, into files.
void join_tiles(const Common& common, const PointTiles& tiles, const ResultOptions& result,
                const TileSearchOptions& options, const TileOptions& how);
/// The same of files, through a folder beside the answer that goes away with it. `why` ends the note that
/// says so.
void join_through_tiles(const Common& common, std::vector<Source>& clouds, const std::string& input_format,
                        const PointTilesParameters& parameters, const ResultOptions& result,
                        const TileSearchOptions& options, const TileOptions& how, const std::string& why);

/// Queries in files, in a folder of tiles of their own or through one beside the answer, which `why` is the
/// reason of.
void search_tiles(const Common& common, const PointTiles& tiles, Source queries,
                  const std::string& input_format, const ResultOptions& result,
                  const TileSearchOptions& options, const TileOptions& how, const std::string& why);
/// Whether an answer may be that of tiles: npy files.
bool takes_tile_answer(const ResultOptions& result);

/// What kith info says of a folder.
nlohmann::ordered_json describe_tiles(const std::string& path);

nlohmann::json to_json(const TileStatistics& statistics);
std::string describe(const TileStatistics& statistics);

}  // namespace kith::cli
