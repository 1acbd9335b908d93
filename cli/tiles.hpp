// Point tiles at the command line: what build, all-knn, search, info and verify do with a folder of them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "common.hpp"
#include "core/temporary_files.hpp"
#include "input.hpp"
#include "interrupt.hpp"
#include "kith/point_tiles.hpp"
#include "result.hpp"
#include "run.hpp"
#include "tree.hpp"

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
  std::string value_dtype = "f64";
  const CLI::Option *inside_given = nullptr, *order_given = nullptr, *dtype_given = nullptr,
                    *values_given = nullptr;

  /// Whether the rows that the answers are of stand in a file beside them.
  bool with_rows() const { return order == "tiles"; }
};
/// @param but a condition on it, to end the help with
void add_inside_option(CLI::App& command, Common& common, TileOptions& options, const char* but = "");
/// --order and --index-dtype, of answers in files.
void add_tile_answer_options(CLI::App& command, Common& common, TileOptions& options);
/// --value-dtype, of normals.
void add_value_dtype_option(CLI::App& command, Common& common, TileOptions& options);
/// The first of them that was given, as it is written; null for none.
const char* given_tile_option(const TileOptions& options);
/// The same of --order, --index-dtype and --value-dtype alone.
const char* given_answer_option(const TileOptions& options);
/// @throws InvalidArgument where one was given for an index that is no tiles
void refuse_tile_options(const TileOptions& options, const std::string& index);

/// True for a folder: files and streams are no tiles.
bool is_tiles(const std::string& path);

/// @throws InvalidArgument where an option of reading files was given for a folder. `member` is what it is
/// called; empty for `input_format` where another input is a file
void refuse_reading_options(const std::string& folder, const Source& source, const std::string& member,
                            const std::string& input_format);
/// --index-dtype of answers without row numbers, unless --order writes some. @throws InvalidArgument
void refuse_unused_index_dtype(const TileOptions& options, const char* answer);

/// make_execution(), of a process that gives memory back.
Execution tile_execution(const Common& common);
/// The same call where tiles are made: on the CPU, wherever they are searched.
Execution tile_making(const Execution& execution);

/// Opens what is a stream; @throws InvalidArgument for what tiles cannot be made of.
void open_clouds(const Common& common, std::vector<Source>& clouds, const std::string& input_format);
std::vector<std::filesystem::path> paths_of(const std::vector<Source>& clouds);

/// Builds a folder from files, a line on stderr or JSON on stdout included.
void build_tiles(const Common& common, std::vector<Source>& clouds, const std::string& input_format,
                 const std::string& folder, const PointTilesParameters& parameters);

/// What commands over every point of a cloud, in memory or through tiles, have in common.
struct CloudOptions {
  std::vector<std::string> clouds;
  Source points;  ///< how each of them is read
  std::string input_format;
  IndexOptions index;
  TileOptions tiles;
  std::optional<std::int64_t> tile_points;

  std::vector<Source> sources() const;
};

/// POINTS of commands that also work on a folder of tiles, or on several files as one cloud.
void add_clouds_argument(CLI::App& command, Common& common, std::vector<std::string>& clouds,
                         const std::string& text);
/// --tile-points and the options of reading and running, which end a list.
void add_cloud_options(CLI::App& command, Common& common, CloudOptions& options);
/// Why these go through tiles: an option asks for it, they are several, or a folder of them; empty where they
/// need not. @throws InvalidArgument
std::string why_tiles(const CloudOptions& options);
/// Whether what does not fit in memory may go through tiles: nothing was asked for that they lack.
bool may_take_tiles(const IndexOptions& options);
/// What to do about a lack of memory: `rest`, and before it what keeps tiles away.
/// @param in_files whether the answer goes where tiles can leave it
std::string or_tiles(const IndexOptions& options, bool in_files, const std::string& rest);
/// @throws InvalidArgument for what an index in memory takes and tiles would ignore
void refuse_tree_options(const IndexOptions& options);

/// What tiles of these are built by, their formats where those were named.
PointTilesParameters with_formats(PointTilesParameters parameters, const std::vector<Source>& clouds);

/// Options of an answer in files.
TileAnswerOptions answer_options(const TileOptions& options);
/// tile_execution() with what the limit on memory leaves.
Execution limited_execution(const Common& common);

/// The note that an interrupted run has left something to go on with.
void note_resumption(const Common& common, const std::string& output);

/// Tiles of files, in a folder beside an answer that goes away with it, unless what has failed is to be gone
/// on with.
class TilesBeside {
 public:
  /// @param suffix of the folder's name, after the answer's and the command's: another command's work on an
  /// answer of the same name has tiles of its own
  TilesBeside(const Common& common, const std::string& output, const std::string& suffix,
              std::vector<Source>& clouds, const std::string& input_format,
              const PointTilesParameters& parameters);
  TilesBeside(const TilesBeside&) = delete;
  TilesBeside& operator=(const TilesBeside&) = delete;
  ~TilesBeside();

  /// The tiles, those of an interrupted run where they are there. `why` ends the note that says so.
  PointTiles build(const Execution& execution, const std::string& why);
  /// The folder stays. @return what to tell the user, to end a message with
  std::string keep();
  /// The same where the tiles are those of an interrupted run; empty where they are not.
  std::string keep_older() { return older_ ? keep() : ""; }

 private:
  bool is_usable() const;

  const Common& common_;
  std::filesystem::path folder_;
  std::vector<std::filesystem::path> paths_;
  PointTilesParameters parameters_;
  std::vector<TemporaryFileNote> notes_;
  bool built_ = false;
  bool older_ = false;
  bool keep_ = false;
};

/// Runs work(execution) under a progress bar; a failure that can be gone on with keeps the tiles beside.
/// Those of a run before outlive every failure, and go only where the command is cancelled.
template <class Work>
auto run_with_tiles(const Common& common, const std::vector<TilesBeside*>& beside, const Work& work) {
  const PatientScope patient;
  try {
    return run_cancellable(common, limited_execution(common), [&](const Execution& execution) {
      auto answer = work(execution);
      outputs_in_place();
      return answer;
    });
  } catch (const IoError& error) {
    std::string text = error.what();
    for (TilesBeside* tiles : beside) text += tiles->keep();
    throw IoError(text);
  } catch (const Cancelled&) {
    throw;
  } catch (const OutOfMemory& error) {
    std::string text = error.what();
    for (TilesBeside* tiles : beside) text += tiles->keep_older();
    throw OutOfMemory(text);
  } catch (...) {
    for (TilesBeside* tiles : beside) (void)tiles->keep_older();
    throw;
  }
}

/// What find(tiles, execution) answers of a folder of tiles, or of files through tiles beside `output`.
template <class Find>
auto answer_from_tiles(const Common& common, const CloudOptions& options, const std::string& output,
                       const PointTilesParameters& parameters, const std::string& why, const Find& find) {
  if (is_tiles(options.clouds.front())) {
    const PointTiles tiles = PointTiles::open(options.clouds.front());
    note_resumption(common, output);
    return run_with_tiles(common, {}, [&](const Execution& execution) { return find(tiles, execution); });
  }
  std::vector<Source> clouds = options.sources();
  TilesBeside beside(common, output, ".kith-tiles", clouds, options.input_format, parameters);
  return run_with_tiles(common, {&beside}, [&](const Execution& execution) {
    return find(beside.build(execution, why), execution);
  });
}

/// What a command has to say of neighbours in files.
void deliver_tiles(const Common& common, const ResultOptions& result, const TileSearchOptions& options,
                   const TileAnswer& answer);
/// Notes of any answer from tiles: rows with NaN, tiles that an interrupted run had done, --statistics.
void note_tiles(const Common& common, const TileStatistics& statistics);

/// All nearest neighbours of tiles, into files.
void join_tiles(const Common& common, const PointTiles& tiles, const ResultOptions& result,
                const TileSearchOptions& options, const TileOptions& how);
/// The same of files, through tiles beside the answer. `why` ends the note that says so.
void join_through_tiles(const Common& common, std::vector<Source>& clouds, const std::string& input_format,
                        const PointTilesParameters& parameters, const ResultOptions& result,
                        const TileSearchOptions& options, const TileOptions& how, const std::string& why);

/// Queries in files, in a folder of tiles of their own or through one beside the answer, which `why` is the
/// reason of.
void search_tiles(const Common& common, const PointTiles& tiles, Source queries,
                  const std::string& input_format, const ResultOptions& result,
                  const TileSearchOptions& options, const TileOptions& how, const std::string& why);
/// Both in files that do not fit in memory, through tiles beside the answer.
void search_through_tiles(const Common& common, Source base, Source queries, const ResultOptions& result,
                          const TileSearchOptions& options, const std::string& why);
/// Queries of any kind that `kith search` and `kith knn` ask a folder; see search.cpp.
void search_folder(const Common& common, const std::string& folder, Source queries, std::string input_format,
                   const ResultOptions& result, const TileSearchOptions& options, const TileOptions& how);
/// Whether an answer may be that of tiles: npy files.
bool takes_tile_answer(const ResultOptions& result);

/// What kith info says of a folder.
nlohmann::ordered_json describe_tiles(const std::string& path);

nlohmann::json to_json(const TileStatistics& statistics);
std::string describe(const TileStatistics& statistics);

}  // namespace kith::cli
