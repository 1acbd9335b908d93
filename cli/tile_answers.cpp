// What is done with point tiles at the command line: searches of folders, and of files through them.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "core/positioned_file.hpp"
#include "index_file.hpp"
#include "io/format.hpp"
#include "point_tiles/folder.hpp"
#include "point_tiles/partition.hpp"
#include "point_tiles/work_folder.hpp"
#include "stream.hpp"
#include "tiles.hpp"
#include "units.hpp"

namespace kith::cli {
namespace {

namespace fs = std::filesystem;

void check_answer(const ResultOptions& result) {
  if (result.output.empty()) {
    throw InvalidArgument("the answer of tiles goes to files; name one with -o");
  }
  if (result.is_table()) {
    throw InvalidArgument(fmt::format(
        "the answer of tiles is written as npy, not as the table '{}'; give -o a name without extension",
        result.output));
  }
  const auto format =
      parse_format(result.format).value_or(format_of_extension(result.output).value_or(FileFormat::npy));
  if (format != FileFormat::npy) {
    throw InvalidArgument(fmt::format(
        "the answer of tiles is written as npy, not {}; give -o a name without extension", name(format)));
  }
  if (is_standard_output(result.output)) {
    throw InvalidArgument(
        "the answer of tiles is more than one file and cannot go to standard output; name one with -o");
  }
}

// The library knows a limit, but not the option that sets it.
template <class Call>
auto named_limit(const Call& call) {
  try {
    return call();
  } catch (const OutOfMemory& error) {
    std::string text = error.what();
    constexpr std::string_view remedy = "raise the limit";
    constexpr std::string_view on_gpus = " on GPU memory";
    if (const auto at = text.find(remedy);
        at != std::string::npos && !text.substr(at + remedy.size()).starts_with(on_gpus)) {
      text.insert(at + remedy.size(), " (--memory-limit)");
    }
    throw OutOfMemory(text);
  }
}

}  // namespace

namespace {

// What a removal that was cut short has left: some of the files that tiles consist of, and nothing else.
bool is_half_removed(const fs::path& folder) {
  std::error_code error;
  if (!fs::is_directory(fs::symlink_status(folder, error))) return false;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (name != point_tiles::manifest_name && !name.starts_with("segment-")) return false;
  }
  const fs::path file = folder / point_tiles::manifest_name;
  if (!fs::exists(file, error)) return true;
  std::ifstream in(file, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  try {
    const point_tiles::Manifest manifest = point_tiles::parse_manifest(text, file.string());
    return std::ranges::any_of(manifest.segments, [&](const point_tiles::Segment& segment) {
      return !fs::exists(folder / segment.file, error);
    });
  } catch (const IoError&) {
    return false;  // damaged, or of another version: whoever opens it says so
  }
}

}  // namespace

void note_resumption(const Common& common, const std::string& output) {
  const fs::path work = point_tiles::WorkFolder::place_of(output);
  std::error_code ignored;
  if (!fs::exists(work, ignored)) return;
  note(common, fmt::format("'{}' is there from a run that was interrupted", work.string()));
}

TilesBeside::TilesBeside(const Common& common, const std::string& output, const std::string& suffix,
                         std::vector<Source>& clouds, const std::string& input_format,
                         const PointTilesParameters& parameters)
    : common_(common), folder_(behind_links(output)) {
  folder_ += "." + common.command + suffix;
  open_clouds(common, clouds, input_format);
  paths_ = paths_of(clouds);
  parameters_ = with_formats(parameters, clouds);
  note_resumption(common, folder_.string());
}

TilesBeside::~TilesBeside() {
  std::error_code ignored;
  if (!built_ || keep_) return;
  fs::remove(folder_ / point_tiles::manifest_name, ignored);  // first: what is left is then no tiles
  fs::remove_all(folder_, ignored);
}

PointTiles TilesBeside::build(const Execution& execution, const std::string& why) {
  if (is_half_removed(folder_)) {
    fs::remove_all(folder_);
    note(common_, fmt::format("removed what was left of the tiles in '{}'", folder_.string()));
  }
  const bool there = is_usable();
  PointTiles tiles = named_limit([&] {
    return there ? PointTiles::open(folder_)
                 : point_tiles::build_behind(folder_, paths_, parameters_, tile_making(execution));
  });
  built_ = true;
  older_ = there;
  notes_.emplace_back(folder_);
  std::error_code ignored;
  // They get their name at any moment.
  for (const fs::path& place : {point_tiles::WorkFolder::place_of(folder_) / "tiles", folder_}) {
    for (const auto& entry : fs::directory_iterator(place, ignored)) {
      notes_.emplace_back(folder_ / entry.path().filename());
    }
  }
  // Only now: a limit that not even tiles fit into is told by the error alone.
  note(common_,
       fmt::format("{}: through tiles in {}{}", why, folder_.string(), there ? ", which were there" : ""));
  return tiles;
}

// Tiles of an interrupted run. @throws IoError where the folder is there, and is something else
bool TilesBeside::is_usable() const {
  std::error_code ignored;
  if (!fs::exists(folder_, ignored)) return false;
  try {
    if (PointTiles::is_built_from(folder_, paths_, parameters_)) return true;
  } catch (const IoError& error) {
    throw IoError(fmt::format("{}: to have that done, remove '{}' and run the same again", error.what(),
                              folder_.string()));
  }
  throw IoError(fmt::format("'{}' is in the way: it is not of these files as they are now; remove it",
                            folder_.string()));
}

std::string TilesBeside::keep() {
  if (!built_) return "";
  keep_ = true;
  std::error_code ignored;
  if (!fs::exists(folder_, ignored)) return "";  // they never became safe, and the error says what is left
  return fmt::format("; the tiles stay in '{}': run the same again to go on, or remove it", folder_.string());
}

void note_tiles(const Common& common, const TileStatistics& statistics) {
  if (statistics.resumed_tiles > 0) {
    note(common, fmt::format("{} of {} had been done by a run that was interrupted",
                             format_count(statistics.resumed_tiles), plural(statistics.tiles, "tile")));
  }
  if (common.statistics) {
    fmt::print(stderr, "statistics:\n{}", describe(statistics));
  } else if (statistics.nan_rows > 0) {
    note(common, fmt::format("{} with NaN can never be a neighbour", plural(statistics.nan_rows, "row")));
  }
}

void deliver_tiles(const Common& common, const ResultOptions& result, const TileSearchOptions& options,
                   const TileAnswer& answer) {
  const TileStatistics& statistics = answer.statistics;
  std::vector<std::string> files;
  std::string list;
  for (const fs::path& file : answer.files) {
    files.push_back(file.string());
    list += (list.empty() ? "" : ", ") + file.string();
  }
  if (common.json) {
    print_json({{"queries", statistics.queries},
                {"k", result.k},
                {"metric", name(options.metric)},
                {"index", {{"name", PointTiles::type_name}, {"inside", options.inside}}},
                {"statistics", to_json(statistics)},
                {"files", files}});
    return;
  }
  note(common,
       fmt::format("wrote {}: {} x {} in {:.2f} s", list, plural(statistics.queries, "query", "queries"),
                   plural(result.k, "neighbour"), statistics.seconds));
  note_tiles(common, statistics);
}

void join_tiles(const Common& common, const PointTiles& tiles, const ResultOptions& result,
                const TileSearchOptions& options, const TileOptions& how) {
  check_answer(result);
  note_resumption(common, io::neighbor_files(result.output, FileFormat::npy).front().string());
  const TileAnswer answer = run_with_tiles(common, {}, [&](const Execution& execution) {
    return tiles.all_knn(result.output, result.k, options, answer_options(how), execution);
  });
  deliver_tiles(common, result, options, answer);
}

void join_through_tiles(const Common& common, std::vector<Source>& clouds, const std::string& input_format,
                        const PointTilesParameters& parameters, const ResultOptions& result,
                        const TileSearchOptions& options, const TileOptions& how, const std::string& why) {
  check_answer(result);
  TilesBeside beside(common, result.output, ".kith-tiles", clouds, input_format, parameters);
  const TileAnswer answer = run_with_tiles(common, {&beside}, [&](const Execution& execution) {
    return beside.build(execution, why)
        .all_knn(result.output, result.k, options, answer_options(how), execution);
  });
  deliver_tiles(common, result, options, answer);
}

void search_tiles(const Common& common, const PointTiles& tiles, Source queries,
                  const std::string& input_format, const ResultOptions& result,
                  const TileSearchOptions& options, const TileOptions& how, const std::string& why) {
  check_answer(result);
  const auto search = [&](const PointTiles& asked, const Execution& execution) {
    return tiles.search_tiles(result.output, asked, result.k, options, answer_options(how), execution);
  };
  if (is_tiles(queries.path)) {
    const PointTiles asked = PointTiles::open(queries.path);
    note_resumption(common, io::neighbor_files(result.output, FileFormat::npy).front().string());
    deliver_tiles(common, result, options, run_with_tiles(common, {}, [&](const Execution& execution) {
                    return search(asked, execution);
                  }));
    return;
  }
  std::vector<Source> clouds = {std::move(queries)};
  TilesBeside beside(common, result.output, ".kith-queries", clouds, input_format, {});
  deliver_tiles(common, result, options, run_with_tiles(common, {&beside}, [&](const Execution& execution) {
                  return search(beside.build(execution, why), execution);
                }));
}

void search_through_tiles(const Common& common, Source base, Source queries, const ResultOptions& result,
                          const TileSearchOptions& options, const std::string& why) {
  check_answer(result);
  const bool own = same_rows(base, queries);
  std::vector<Source> rows = {std::move(base)};
  TilesBeside tiles(common, result.output, ".kith-tiles", rows, "", {});
  if (own) {
    TileSearchOptions with_self = options;
    with_self.include_self = true;
    deliver_tiles(
        common, result, options, run_with_tiles(common, {&tiles}, [&](const Execution& execution) {
          return tiles.build(execution, why).all_knn(result.output, result.k, with_self, {}, execution);
        }));
    return;
  }
  std::vector<Source> asked = {std::move(queries)};
  TilesBeside of_queries(common, result.output, ".kith-queries", asked, "", {});
  deliver_tiles(common, result, options,
                run_with_tiles(common, {&tiles, &of_queries}, [&](const Execution& execution) {
                  const PointTiles built = tiles.build(execution, why);
                  return built.search_tiles(result.output, of_queries.build(execution, "and the queries"),
                                            result.k, options, {}, execution);
                }));
}

void search_folder(const Common& common, const std::string& folder, Source queries, std::string input_format,
                   const ResultOptions& result, const TileSearchOptions& options, const TileOptions& how) {
  const PointTiles tiles = PointTiles::open(folder);
  const auto through_queries = [&](const std::string& why) {
    if (result.max_queries >= 0) {
      throw InvalidArgument(
          "--max-queries is for queries in memory; leave it out, or take some of them first (kith convert "
          "--rows)");
    }
    search_tiles(common, tiles, queries, input_format, result, options, how, why);
  };
  if (is_tiles(queries.path)) {
    refuse_reading_options(queries.path, queries, "--query-member", input_format);
    return through_queries("");
  }
  if (given_answer_option(how) != nullptr) {
    return through_queries("an option of answers from tiles was given");
  }
  open_inputs(common, {&queries}, input_format);
  queries.max_rows = result.max_queries;
  const Size query_size = peek(queries);
  MemoryPlan plan(common);
  plan.add("queries", query_size.bytes, query_size.mapped);
  MemoryPlan with_answer = plan;
  with_answer.add("answer", query_size.rows * (static_cast<double>(result.k) * 16 + 12));
  try {
    with_answer.check();
  } catch (const OutOfMemory&) {
    if (!takes_tile_answer(result) || result.max_queries >= 0) throw;
    input_format.clear();  // found by now
    return through_queries("the queries and their answers do not fit in memory");
  }
  Dataset asked = load(common, queries);
  if (asked.dtype() != tiles.dtype()) {
    plan.add("queries as " + std::string(name(tiles.dtype())),
             query_size.rows * query_size.row_elements * static_cast<double>(size_of(tiles.dtype())));
    asked = as_the_index(common, asked, tiles.dtype(), "queries", "searched");
  }
  check_ids(result.ids, tiles.rows(), asked.rows());
  TileStatistics statistics;
  const Neighbors answer = run_search(common, tile_execution(common), [&](const Execution& given) {
    Execution left = given;
    left.memory_limit = plan.left();
    auto [found, what] = tiles.search_with_statistics(asked, result.k, options, left);
    statistics = what;
    return std::move(found);
  });
  deliver(common, result, answer, options.metric);
  if (common.statistics && !common.json) fmt::print(stderr, "tiles:\n{}", describe(statistics));
}

}  // namespace kith::cli
