// kith search: answers queries from a saved index.
#include <filesystem>
#include <memory>

#include <fmt/format.h>

#include "commands.hpp"
#include "index_file.hpp"
#include "input.hpp"
#include "interrupt.hpp"
#include "progress.hpp"
#include "result.hpp"
#include "shards.hpp"
#include "stream.hpp"
#include "tiles.hpp"
#include "tune.hpp"
#include "unpacked.hpp"

namespace kith::cli {
namespace {

struct Options {
  std::string index;
  Source queries;
  std::string input_format;
  ResultOptions result;
  IndexOptions asked;
  std::string allowed;
  TileOptions tiles;
  std::string metric = "euclidean";
  const CLI::Option* metric_given = nullptr;
};

// A folder of tiles keeps no metric, takes no options of graphs, and none of its tiles is held for long.
void search_tiles_of(const Common& common, Options& options) {
  const SearchOptions& asked = options.asked.approximate;
  if (asked.recall || asked.list_size || asked.beam_width || asked.rerank || !options.asked.tuning.empty() ||
      !options.allowed.empty()) {
    throw InvalidArgument(
        "point tiles are searched exactly, among all rows; leave out --recall, --list-size, --beam-width, "
        "--rerank, --tune and --allowed");
  }
  TileSearchOptions how;
  how.metric = parse_tree_metric(options.metric);
  how.inside = options.tiles.inside;
  search_folder(common, options.index, options.queries, options.input_format, options.result, how,
                options.tiles);
}

// Each shard keeps the metric and the kind of index; a tuning is one graph's.
void search_shards_of(const Common& common, Options& options) {
  if (!options.asked.tuning.empty()) {
    throw InvalidArgument(
        "--tune is of one graph, and shards are several, which go by what each has measured of itself; leave "
        "it "
        "out");
  }
  search_shards(common, options.index, options.queries, options.input_format, options.result,
                options.asked.approximate, options.allowed);
}

void run(const Common& common, Options& options) {
  check_result_options(common, options.result,
                       {options.index, options.queries.path, options.allowed, options.asked.tuning},
                       options.tiles.with_rows());
  const UnpackedClouds unpacked(common, {&options.queries.path}, options.result.output, options.input_format);
  if (is_tiles(options.index) && !is_shards(options.index)) return search_tiles_of(common, options);
  refuse_tile_options(options.tiles, is_shards(options.index) ? "shards" : "an index in a file");
  if (options.metric_given->count() > 0) {
    throw InvalidArgument(
        "--metric is for point tiles; the metric of an index in a file was fixed when it was built");
  }
  if (is_shards(options.index)) return search_shards_of(common, options);
  const FileInfo index_info = open_index(common, options.index, options.queries, options.input_format);
  options.queries.max_rows = options.result.max_queries;
  Execution execution = make_execution(common);
  const Size query_size = peek(options.queries);
  MemoryPlan plan(common);
  plan.add("index", static_cast<double>(index_info.bytes), shown(options.index) == options.index);
  plan.add("queries", query_size.bytes, query_size.mapped);
  MemoryPlan with_answer = plan;
  with_answer.add("answer", query_size.rows * static_cast<double>(options.result.k) * 12);
  with_answer.check();

  Dataset queries = load(common, options.queries);
  if (queries.dim() != index_info.dim) {
    throw InvalidArgument(
        fmt::format("the index '{}' has dimension {}, the queries '{}' have {}; they must be the same",
                    shown(options.index), index_info.dim, shown(options.queries.path), queries.dim()));
  }
  Metric metric = Metric::sqeuclidean;
  const Neighbors answer = run_search(common, std::move(execution), [&](const Execution& how) {
    // The codes of brute force are made anew, beside the answer; a tree stays in its file.
    Execution left = how;
    left.memory_limit = with_answer.left();
    const AnyIndex index = with_tuning(common, AnyIndex::load(options.index, left), options.asked.tuning);
    if (index.point_tree() == nullptr) {
      if (plan.on_gpu()) {
        hold_on_device(index, left);
      } else {
        plan.add("codes", static_cast<double>(index.memory_bytes()));
      }
    }
    left.memory_limit = plan.left();
    metric = index.metric();
    if (queries.dtype() != index.dtype()) {
      // The index stays as it is; its type must hold the queries exactly.
      plan.add("queries as " + std::string(name(index.dtype())),
               query_size.rows * query_size.row_elements * static_cast<double>(size_of(index.dtype())));
      left.memory_limit = plan.left();
      queries = as_the_index(common, queries, index.dtype(), "queries", "searched");
    }
    check_ids(options.result.ids, index.rows(), queries.rows());
    const std::optional<RowSet> allowed = read_allowed(common, options.allowed, index.rows());
    SearchOptions asked = options.asked.approximate;
    asked.allowed = allowed ? &*allowed : nullptr;
    return index.search(queries, options.result.k, left, asked);
  });
  deliver(common, options.result, answer, metric);
}

}  // namespace

void add_search(CLI::App& app, Common& common) {
  auto options = std::make_shared<Options>();
  options->queries.default_member = "test";
  CLI::App& command =
      add_command(app, common, "search", "Find the nearest rows of a saved index for every query",
                  [options, &common] { run(common, *options); });
  add_file_argument(command, common, "INDEX", options->index,
                    "The file or folder that kith build or kith shard wrote");
  add_file_argument(command, common, "QUERIES", options->queries.path,
                    "The rows to search for; with point tiles also a folder of them");
  add_result_options(command, common, options->result);
  add_approximate_options(command, options->asked);
  add_tuning_option(command, common, options->asked.tuning);
  add_inside_option(command, common, options->tiles);
  add_tile_answer_options(command, common, options->tiles);
  add_tree_metric_option(command, common, options->metric);
  options->metric_given = command.get_option("--metric");
  command.get_option("--metric")->group("Point tiles");
  add_allowed_option(command, common, options->allowed);
  add_member_option(command, "--query-member", options->queries, "with the queries");
  add_input_format_option(command, common, options->input_format, {"QUERIES"}, dataset_formats());
  add_execution_options(command, common);
  add_statistics_option(command, common);
  common.about(command).details = {
      "The file fixes the metric and the kind of index; only approximate indexes take their options. Queries "
      "of another element type are converted where the index's type holds every value exactly, and refused "
      "otherwise.",
      "A folder of point tiles, which has no metric of its own, is searched tile by tile within "
      "--memory-limit. Queries that do "
      "not fit in memory with their answers go through tiles of their own beside the output, and a note says "
      "so.",
      "Of shards, as many are open at once as --memory-limit has room for; the answer is the best of "
      "theirs."};
  common.about(command).examples = {
      {"kith search base.kith queries.fvecs -k 10", "Shows the first answers."},
      {"kith search base.kith queries.fvecs -k 10 -o answer.ivecs -v",
       "Writes all of them and says what the search did."},
      {"kith search graph.kith queries.fvecs -k 10 --recall 0.99 -o answer",
       "A graph that kith build --index vamana wrote, to a stated recall."},
      {"kith search graph.kith queries.fvecs --recall 0.99 --tune queries.tune -o answer",
       "The same by what kith tune has measured."}};
}

}  // namespace kith::cli
