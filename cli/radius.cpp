// kith radius: all rows within a distance of every query, or their number.
#include <filesystem>
#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commands.hpp"
#include "index_file.hpp"
#include "input.hpp"
#include "io/format.hpp"
#include "radius_result.hpp"
#include "result.hpp"
#include "run.hpp"
#include "shards.hpp"
#include "stream.hpp"
#include "tiles.hpp"
#include "tree.hpp"
#include "units.hpp"
#include "unpacked.hpp"

namespace kith::cli {
namespace {

struct Options {
  Source points;
  Source queries;
  std::string input_format;
  IndexOptions index;
  std::string metric = "euclidean";
  std::int64_t max_queries = -1;
  std::optional<std::int64_t> max_neighbors;
  bool unsorted = false;
  bool count = false;
  std::string output;
  TileOptions tiles;
};

namespace fs = std::filesystem;

void check(const Options& options) {
  check_index_options(options.index);
  if (options.max_queries < -1) {
    throw InvalidArgument(fmt::format("--max-queries {}: use 0 or more", options.max_queries));
  }
  if (options.max_neighbors && *options.max_neighbors < 1) {
    throw InvalidArgument(
        fmt::format("--max-neighbors {}: use 1 or more, or leave it out for all", *options.max_neighbors));
  }
  if (options.max_neighbors && options.unsorted) {
    throw InvalidArgument("--max-neighbors takes the nearest, which are then sorted; leave out --unsorted");
  }
  if (options.count && (options.max_neighbors || options.unsorted)) {
    throw InvalidArgument(fmt::format("--count gives numbers only; leave out {}",
                                      options.max_neighbors ? "--max-neighbors" : "--unsorted"));
  }
}

void check_output_files(const Common& common, Options& options) {
  if (options.output.empty()) return;
  options.output = output_path(common, options.output);
  if (writes_to_stream() && !options.count) {
    throw InvalidArgument(
        fmt::format("cannot write to '{}': the answer is three files (offsets, indices, distances), and this "
                    "is one stream; name a file, or use --json without -o",
                    shown_output(options.output)));
  }
  check_output(options.output, {}, {{"npy", ""}}, false);
  std::vector<std::filesystem::path> files = {counts_file(options.output)};
  if (!options.count) files = io::radius_files(options.output);
  if (options.tiles.with_rows()) files.push_back(io::rows_file(files.front()));
  refuse_overwriting(files, {options.points.path, options.queries.path});
}

// Queries in tiles: an answer in files.
void run_into_files(const Common& common, const Options& options, const PointTiles& tiles,
                    const PointTiles& queries, const TileSearchOptions& search,
                    const RadiusOptions& how_many) {
  if (options.output.empty() || options.max_queries >= 0 || writes_to_stream()) {
    throw InvalidArgument(
        "of queries in tiles all are answered, into files; name them with -o, and leave out --max-queries");
  }
  const double radius = options.index.radius.value_or(0);
  const fs::path output = options.count ? fs::path(counts_file(options.output)) : fs::path(options.output);
  note_resumption(common, options.count ? output.string() : io::radius_files(output).front().string());
  const TileAnswer answer = run_with_tiles(common, {}, [&](const Execution& execution) {
    const TileAnswerOptions how = answer_options(options.tiles);
    return options.count ? tiles.count_within(output, queries, radius, search, how, execution)
                         : tiles.radius_search(output, queries, radius, how_many, search, how, execution);
  });
  nlohmann::json files = nlohmann::json::array();
  std::string list;
  for (const fs::path& file : answer.files) {
    files.push_back(file.string());
    list += (list.empty() ? "" : ", ") + file.string();
  }
  if (common.json) {
    nlohmann::json object = {{"queries", answer.statistics.queries},
                             {"radius", radius},
                             {"metric", name(search.metric)},
                             {"index", {{"name", PointTiles::type_name}, {"inside", search.inside}}},
                             {"statistics", to_json(answer.statistics)},
                             {"files", files}};
    if (!options.count) object["neighbors"] = answer.neighbors;
    print_json(object);
    return;
  }
  note(common, fmt::format("wrote {}: {}{}", list, plural(answer.statistics.queries, "query", "queries"),
                           options.count ? "" : ", " + plural(answer.neighbors, "neighbour")));
  note_tiles(common, answer.statistics);
}

// What a folder answers in memory: numbers, or rows.
template <class Count, class Find>
void answer_in_memory(const Common& common, const Options& options, const Execution& execution,
                      const MemoryPlan& plan, Metric metric, std::string_view name, const Count& count,
                      const Find& find) {
  RadiusResult result{options.index.radius.value_or(0), metric, {}, options.output};
  result.index.name = name;
  const auto with_limit = [&](const auto& call) {
    return run_cancellable(common, execution, [&](const Execution& given) {
      Execution left = given;
      left.memory_limit = plan.left();
      return call(left);
    });
  };
  if (options.count) {
    deliver_counts(common, result, with_limit(count));
  } else {
    deliver_rows(common, result, with_limit(find));
  }
}

// Among point tiles: queries in a file are answered in memory, those in a folder into files.
void run_on_tiles(const Common& common, Options& options, Metric metric) {
  refuse_tree_options(options.index);
  refuse_reading_options(options.points.path, options.points, "--base-member", "");
  if (options.count) refuse_unused_index_dtype(options.tiles, "counts");
  const PointTiles tiles = PointTiles::open(options.points.path);
  TileSearchOptions search;
  search.metric = metric;
  search.inside = options.tiles.inside;
  const RadiusOptions how_many{!options.unsorted, options.max_neighbors.value_or(0)};
  if (is_tiles(options.queries.path)) {
    refuse_reading_options(options.queries.path, options.queries, "--query-member", options.input_format);
    std::error_code ignored;
    const bool own = fs::equivalent(options.points.path, options.queries.path, ignored);
    run_into_files(common, options, tiles, own ? tiles : PointTiles::open(options.queries.path), search,
                   how_many);
    return;
  }
  if (const char* given = given_answer_option(options.tiles)) {
    throw InvalidArgument(fmt::format(
        "{} is for queries in tiles, whose answer goes to files; leave it out, or build tiles of the "
        "queries (kith build --index point_tiles)",
        given));
  }
  open_inputs(common, {&options.queries}, options.input_format);
  options.queries.max_rows = options.max_queries;
  const Size size = peek(options.queries);
  MemoryPlan plan(common);
  plan.add("queries", size.bytes, size.mapped);
  plan.check();
  Dataset queries = load(common, options.queries);
  if (queries.dtype() != tiles.dtype()) {
    plan.add("queries as " + std::string(name(tiles.dtype())),
             size.rows * size.row_elements * static_cast<double>(size_of(tiles.dtype())));
    plan.check();
    queries = as_the_index(common, queries, tiles.dtype(), "queries", "searched");
  }
  const double radius = options.index.radius.value_or(0);
  answer_in_memory(
      common, options, tile_execution(common), plan, metric, PointTiles::type_name,
      [&](const Execution& left) { return tiles.count_within(queries, radius, search, left); },
      [&](const Execution& left) { return tiles.radius_search(queries, radius, how_many, search, left); });
}

// Among shards of trees, in units of their metric.
void run_on_shards(const Common& common, Options& options, Metric metric) {
  refuse_tile_options(options.tiles, "shards");
  refuse_reading_options(options.points.path, options.points, "--base-member", "");
  if (options.index.index != "auto" || options.index.leaf_size) {
    throw InvalidArgument(fmt::format("{} is for an index in memory, shards have theirs; leave it out",
                                      options.index.leaf_size ? "--leaf-size" : "--index"));
  }
  const Sharded shards = Sharded::open(options.points.path);
  if (shards.metric() != metric) {
    throw InvalidArgument(fmt::format(
        "the metric of the shards '{0}' is {1}, the radius is in units of {2}; give --metric {1} and "
        "a radius in its units",
        options.points.path, name(shards.metric()), name(metric)));
  }
  options.queries.max_rows = options.max_queries;
  MemoryPlan plan(common);
  const Dataset queries = load_queries(common, shards, options.queries, options.input_format, 8, plan);
  const double radius = options.index.radius.value_or(0);
  const RadiusOptions how_many{!options.unsorted, options.max_neighbors.value_or(0)};
  answer_in_memory(
      common, options, make_execution(common), plan, metric, shards.index_type().name,
      [&](const Execution& left) { return shards.count_within(queries, radius, left); },
      [&](const Execution& left) { return shards.radius_search(queries, radius, how_many, left); });
}

void run(const Common& common, Options& options) {
  check(options);
  check_output_files(common, options);
  const Metric metric = parse_tree_metric(options.metric);
  const UnpackedClouds unpacked(common, {&options.points.path, &options.queries.path}, options.output,
                                options.input_format);
  if (is_shards(options.points.path)) return run_on_shards(common, options, metric);
  if (is_tiles(options.points.path)) return run_on_tiles(common, options, metric);
  refuse_tile_options(options.tiles, "an index in memory");
  const Execution execution = make_execution(common);
  open_inputs(common, {&options.points, &options.queries}, options.input_format);
  options.queries.max_rows = options.max_queries;
  // How many rows are near is known only when they are found; the search counts them against what is left.
  BaseAndQueries data = load_base_and_queries(common, options.points, options.queries, 8);
  const double radius = options.index.radius.value_or(0);
  RadiusResult result{radius, metric, {}, options.output};
  const auto search = [&](auto&& find) {
    return run_cancellable(common, execution, [&](const Execution& how) {
      Execution left = how;
      const AnyIndex tree = build_tree(options.index, data.base, metric, data.plan, left);
      result.index = used(tree);
      return find(*tree.point_tree(), left);
    });
  };
  if (options.count) {
    const auto counts = search([&](const PointTree& tree, const Execution& how) {
      return tree.count_within(data.view, radius, how);
    });
    deliver_counts(common, result, counts);
    return;
  }
  const RadiusOptions how_many{!options.unsorted, options.max_neighbors.value_or(0)};
  const RadiusNeighbors answer = search([&](const PointTree& tree, const Execution& how) {
    return tree.radius_search(data.view, radius, how_many, how);
  });
  deliver_rows(common, result, answer);
}

}  // namespace

void add_radius(CLI::App& app, Common& common) {
  auto options = std::make_shared<Options>();
  options->points.default_member = "train";
  options->queries.default_member = "test";
  CLI::App& command =
      add_command(app, common, "radius", "Find all rows of POINTS within a radius of every row of QUERIES",
                  [options, &common] { run(common, *options); });
  add_file_argument(command, common, "POINTS", options->points.path,
                    "The rows to search in: a file of points or vectors, or a folder of point tiles or of "
                    "shards of trees");
  add_file_argument(
      command, common, "QUERIES", options->queries.path,
      "The rows to search for; may be the same file or folder: every row then finds itself, too");
  command
      .add_option(
          "-r,--radius", options->index.radius,
          "Largest distance, inclusive, in units of the metric: metres for euclidean where coordinates "
          "are in metres")
      ->type_name("R")
      ->required()
      ->group("Search");
  command
      .add_option("--max-neighbors", options->max_neighbors,
                  "Return only the N nearest rows of a query [default: all]")
      ->type_name("N")
      ->group("Search");
  command.add_option("--max-queries", options->max_queries, "Only the first N queries")
      ->type_name("N")
      ->group("Search");
  command
      .add_flag("--unsorted", options->unsorted,
                "Skip sorting: the rows of a query come in no particular order")
      ->group("Search");
  command.add_flag("--count", options->count, "Count the rows within the radius, and return only that")
      ->group("Search");
  add_tree_metric_option(command, common, options->metric);
  add_tree_index_options(command, common, options->index);
  add_inside_option(command, common, options->tiles,
                    ". brute_force is for the nearest rows: it needs --max-neighbors");
  add_tile_answer_options(command, common, options->tiles);
  common.file(command
                  .add_option("-o,--output", options->output,
                              "Write OUT.offsets.npy, OUT.indices.npy and OUT.distances.npy, all or none, "
                              "instead of showing the first; with --count write OUT.counts.npy, or OUT if it "
                              "ends in .npy")
                  ->type_name("OUT")
                  ->group("Answer"));
  add_member_option(command, "--base-member", options->points, "with the points");
  add_member_option(command, "--query-member", options->queries, "with the queries");
  add_input_format_option(command, common, options->input_format, {"POINTS", "QUERIES"}, dataset_formats());
  add_execution_options(command, common);
  add_statistics_option(command, common);
  About& about = common.about(command);
  about.details = {
      "The answer is compressed sparse rows: the neighbours of query i are entries offsets[i] to "
      "offsets[i + 1] - 1 of indices and distances, nearest first, ties to the lower row. The metric is "
      "euclidean unless another is named: for kith knn it is sqeuclidean, and a radius would be squared.",
      "Rows and queries with a NaN neither have neighbours nor are any.",
      "In point tiles (kith build --index point_tiles) the search keeps to --memory-limit. Queries in a file "
      "are answered in memory, queries in tiles, the same folder among them, into files."};
  about.examples = {
      {"kith radius scan.las scan.las -r 0.5 -o near", "All points within half a metre of every point."},
      {"kith radius scan.ply seeds.ply -r 2 --max-neighbors 100 -o near",
       "At most the 100 nearest points within 2 m of each seed."},
      {"kith radius scan.ply scan.ply -r 0.1 --count -o density.npy",
       "How many points lie around each point."}};
}

}  // namespace kith::cli
