// kith knn: one-shot search, nothing is saved.
#include <algorithm>
#include <charconv>
#include <memory>
#include <optional>
#include <string>
#include <system_error>

#include <fmt/format.h>

#include "commands.hpp"
#include "input.hpp"
#include "point_tree/memory.hpp"
#include "result.hpp"
#include "shards.hpp"
#include "stream.hpp"
#include "tiles.hpp"
#include "tree.hpp"
#include "tune.hpp"
#include "unpacked.hpp"

namespace kith::cli {
namespace {

struct Options {
  Source base;
  Source queries;
  std::string input_format;
  std::string metric = "sqeuclidean";
  std::string filter = "auto";
  std::string directions = "auto";
  std::string lists = "auto";
  IndexOptions index;
  ResultOptions result;
  std::string allowed;
  TileOptions tiles;
};

bool asks_for_more(const Options& options) {
  const SearchOptions& asked = options.index.approximate;
  return asked.recall || asked.list_size || asked.beam_width || asked.rerank ||
         !options.index.tuning.empty() || !options.allowed.empty() || options.filter != "auto" ||
         options.directions != "auto" || options.lists != "auto";
}

TileSearchOptions tile_search(const Options& options, Metric metric) {
  TileSearchOptions how;
  how.metric = metric;
  how.inside = options.tiles.inside;
  how.radius = options.index.radius_or_all();
  return how;
}

void run_on_tiles(const Common& common, Options& options) {
  refuse_tree_options(options.index);
  refuse_reading_options(options.base.path, options.base, "--base-member", "");
  if (asks_for_more(options)) {
    throw InvalidArgument(
        "point tiles are searched exactly, among all rows; leave out --recall, --list-size, --beam-width, "
        "--rerank, --tune, --allowed, --filter, --directions and --lists");
  }
  search_folder(common, options.base.path, options.queries, options.input_format, options.result,
                tile_search(options, parse_tree_metric(options.metric)), options.tiles);
}

// What does not fit in memory goes through tiles, where nothing is asked for that they lack.
bool may_go_through_tiles(const Options& options) {
  return may_take_tiles(options.index) && !asks_for_more(options) && options.result.max_queries < 0 &&
         is_tree_metric(parse_metric(options.metric)) && takes_tile_answer(options.result) &&
         inspect(options.base.path, options.base.format).element_type ==
             inspect(options.queries.path, options.queries.format).element_type;
}

// Trees are of no use among many dimensions.
std::string inside_for(const Options& options) {
  constexpr std::int64_t few = 8;
  const bool tree = inspect(options.base.path, options.base.format).dim <= few || options.index.radius;
  return std::string(tree ? KdTree::index_type.name : BruteForce::index_type.name);
}

// --directions and --lists are options of brute force.
void ask_for_brute_force(Options& options) {
  if (options.directions == "auto" && options.lists == "auto") return;
  if (options.index.index == "auto") options.index.index = BruteForce::index_type.name;
  if (options.index.index != BruteForce::index_type.name) {
    throw InvalidArgument(
        fmt::format("{} is for brute_force, --index {} would ignore it; leave one of them out",
                    options.directions == "auto" ? "--lists" : "--directions", options.index.index));
  }
}

std::optional<std::int64_t> lists_asked(const std::string& text) {
  if (text == "auto") return std::nullopt;
  std::int64_t lists = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), lists);
  if (error != std::errc() || end != text.data() + text.size() || lists < 0)
    throw InvalidArgument(fmt::format("--lists {}: use auto, 0 for none, or how many", text));
  return lists;
}

// Refuses what does not fit together: by what the search will take, before it begins.
void check_with_answer(const Options& options, const std::string& index, const BaseAndQueries& data,
                       const Execution& execution) {
  const std::int64_t k = options.result.k;
  const std::int64_t queries = data.view.rows;
  const DatasetView base = data.base;
  if (has_leaves(index)) {
    IndexOptions tree = options.index;
    tree.index = index;
    check_with_tree(data.plan, tree, base, "answer",
                    static_cast<double>(point_tree::nearest_bytes(base, queries, k, execution)));
    return;
  }
  MemoryPlan with_answer = data.plan;
  with_answer.add("answer", static_cast<double>(queries) * static_cast<double>(k) *
                                static_cast<double>(8 + size_of(distance_dtype(base.dtype))));
  with_answer.check();
}

void run(const Common& common, Options& options) {
  check_result_options(common, options.result,
                       {options.base.path, options.queries.path, options.allowed, options.index.tuning},
                       options.tiles.with_rows());
  ask_for_brute_force(options);
  check_index_options(options.index);
  const UnpackedClouds unpacked(common, {&options.base.path, &options.queries.path}, options.result.output,
                                options.input_format);
  if (is_shards(options.base.path)) {
    throw InvalidArgument(fmt::format(
        "'{}' is a folder of shards, whose index and metric were fixed when it was built; use kith search",
        options.base.path));
  }
  if (is_tiles(options.base.path)) return run_on_tiles(common, options);
  refuse_tile_options(options.tiles, "an index in memory");
  const Execution execution = make_execution(common);
  open_inputs(common, {&options.base, &options.queries}, options.input_format);
  options.queries.max_rows = options.result.max_queries;
  BruteForceParameters parameters{parse_metric(options.metric), parse_filter(options.filter)};
  if (options.directions != "auto") parameters.directions = options.directions == "on";
  parameters.lists = lists_asked(options.lists);
  IndexUsed index;
  const auto in_memory = [&](bool& on_gpu) {
    BaseAndQueries data = load_base_and_queries(common, options.base, options.queries,
                                                12 * static_cast<double>(options.result.k));
    check_ids(options.result.ids, data.base.rows(), data.view.rows);
    const std::optional<RowSet> allowed = read_allowed(common, options.allowed, data.base.rows());
    Execution within = execution;
    within.memory_limit = data.plan.left();
    const IndexChoice choice =
        resolve_index(options.index, data.base.rows(), data.base.dim(),
                      std::max<std::int64_t>(data.view.rows, 1), options.result.k, parameters.metric, within);
    check_with_answer(options, choice.index, data, execution);
    index = {choice.index, 0, options.index.index == "auto" ? choice.reason : ""};
    on_gpu = data.plan.on_gpu();
    return run_search(common, within, [&](const Execution& how) {
      if (choice.index == BruteForce::index_type.name)
        return knn(data.base, data.view, options.result.k, parameters, how,
                   {.allowed = allowed ? &*allowed : nullptr});
      IndexOptions tree = options.index;
      tree.index = choice.index;
      Execution left = how;
      const AnyIndex built = with_tuning(
          common, build_tree(tree, data.base, parameters.metric, data.plan, left), options.index.tuning);
      index.leaf_size = used(built).leaf_size;
      SearchOptions asked = options.index.search();
      asked.allowed = allowed ? &*allowed : nullptr;
      if (built.index_type().guarantee == Guarantee::exact) asked.recall.reset();  // 1, which it is
      return built.search(data.view, options.result.k, left, asked);
    });
  };
  const std::optional<Neighbors> answer =
      unless_too_large(in_memory, [&] { return may_go_through_tiles(options); });
  if (!answer) {
    options.tiles.inside = inside_for(options);
    search_through_tiles(common, options.base, options.queries, options.result,
                         tile_search(options, parse_metric(options.metric)),
                         "the base, the queries and the answer do not fit in memory");
    return;
  }
  deliver(common, options.result, *answer, parameters.metric, &index);
}

}  // namespace

void add_knn(CLI::App& app, Common& common) {
  auto options = std::make_shared<Options>();
  options->base.default_member = "train";
  options->queries.default_member = "test";
  CLI::App& command =
      add_command(app, common, "knn", "Find the nearest rows of BASE for every row of QUERIES",
                  [options, &common] { run(common, *options); });
  add_file_argument(command, common, "BASE", options->base.path,
                    "The rows to search in: a file of vectors or points, or a folder of point tiles");
  add_file_argument(command, common, "QUERIES", options->queries.path,
                    "The rows to search for; may be the same file: every row then finds itself first");
  add_result_options(command, common, options->result);
  add_metric_option(command, common, options->metric);
  add_any_index_options(command, common, options->index);
  add_radius_option(
      command, options->index,
      "Only rows at most this far, in units of the metric (squared for sqeuclidean); with trees");
  add_approximate_options(command, options->index);
  add_tuning_option(command, common, options->index.tuning);
  add_allowed_option(command, common, options->allowed);
  add_filter_option(command, common, options->filter);
  options->index.filter = command.get_option("--filter");
  common
      .choice(command
                  .add_option("--directions", options->directions,
                              "Whether the filter of brute_force may compare leading directions alone, where "
                              "few hold the variance; it changes time and memory, never the answer")
                  ->type_name("WHEN"),
              {{"auto",
                "where they promise to be quicker; on GPUs, where finding them takes some tenths of "
                "a second, by more"},
               {"on", "wherever they promise to be quicker"},
               {"off", "never"}})
      ->capture_default_str()
      ->group("Search");
  command
      .add_option(
          "--lists", options->lists,
          "Lists that brute_force divides the rows into by k-means, so that a query looks only at those "
          "near enough: about so many, 0 for none, or auto, where a sample shows clusters and the "
          "queries repay making them; it changes time and memory, never the answer")
      ->type_name("N|auto")
      ->capture_default_str()
      ->group("Search");
  add_inside_option(command, common, options->tiles);
  add_tile_answer_options(command, common, options->tiles);
  add_member_option(command, "--base-member", options->base, "with the base");
  add_member_option(command, "--query-member", options->queries, "with the queries");
  add_input_format_option(command, common, options->input_format, {"BASE", "QUERIES"}, dataset_formats());
  add_execution_options(command, common);
  add_statistics_option(command, common);
  About& about = common.about(command);
  const std::string tables_in =
      "Columns of Parquet and Arrow files are read, too, by this and every other command that reads vectors: "
      "base.parquet:embedding, or base.parquet where only one column has vectors. The Python that has "
      "pyarrow unpacks them beside the output first: that of KITH_PYTHON, or python3.";
  const std::string different_types =
      "When BASE and QUERIES have different element types, both are converted to the narrowest type that "
      "holds them exactly (f32 or f64), and a note says so.";
  const std::string tables_out =
      "The Python that reads tables also writes the answer where the output is called .parquet or .arrow: a "
      "row a query, with columns "
      "query, indices, ids where --ids names some, and distances.";
  const std::string larger_than_memory =
      "A base that does not fit into --memory-limit with the queries and the answer goes through point tiles "
      "beside the output, and a note says so; a folder that kith build --index point_tiles made is searched "
      "as kith search does. The answer is the same, and is written to files.";
  about.details = {
      "Reads fvecs, bvecs, fbin, u8bin, i8bin, npy, HDF5 (ann-benchmarks), PCD, PLY, LAS and xyz. Without "
      "-o it shows the first answers; with -o it writes all of them. The answer is exact: the same rows and "
      "the same bits whatever the index, the filter, the threads and the device. Ties go to the lower row "
      "number; where a query finds fewer than K rows, the rest is row -1 at an infinite distance.",
      tables_in,
      "--index auto builds a tree where that should be faster: for many queries in low dimension. With "
      "--recall below 1 it builds a graph where even that is faster, and is exact elsewhere. An option that "
      "only one kind of index has (--filter; --radius, --leaf-size; --list-size) selects that kind.",
      "--index vamana is approximate: it finds a stated share of the nearest rows, at their true distances, "
      "and a note says which share. Building its graph takes longer than most searches: keep it with kith "
      "build."};
  about.details.insert(about.details.end(), {different_types, tables_out, larger_than_memory});
  about.examples = {
      {"kith knn base.fvecs queries.fvecs -k 5", "Shows the 5 nearest rows of the first queries."},
      {"kith knn base.fvecs queries.fvecs -k 100 -o answer",
       "Writes answer.indices.npy and answer.distances.npy for NumPy."},
      {"kith knn scan.las scan.las -k 8 --metric euclidean -o graph.hdf5",
       "The 8 nearest points of every point of a laser scan, itself included, in metres."},
      {"kith knn scan.ply scan.ply -k 30 --metric euclidean --radius 0.5 -o near",
       "Of the 30 nearest points of every point, those within half a metre."},
      {"kith knn glove.hdf5 glove.hdf5 --metric cosine -k 10 -o answer.hdf5",
       "An ann-benchmarks file: member test is searched in member train."},
      {"kith knn base.npy queries.npy -k 10 --allowed in-stock.npy -o answer",
       "The nearest of some rows: in-stock.npy is an array of bool, a flag for each row of base.npy."},
      {"kith knn products.parquet:embedding queries.npy -k 10 -o answer",
       "A column of vectors in a Parquet file."},
      {"kith knn base.npy queries.npy --max-queries 3 --json",
       "Everything about three queries, for a program."},
      {"kith knn products.parquet:embedding queries.npy -k 10 --ids products.parquet:sku -o answer.parquet",
       "The answer as a table, with the products' own numbers."}};
}

}  // namespace kith::cli
