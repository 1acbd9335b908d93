// kith all-knn: the nearest other rows of every row.
#include <memory>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "commands.hpp"
#include "input.hpp"
#include "point_tree/memory.hpp"
#include "result.hpp"
#include "stream.hpp"
#include "tiles.hpp"
#include "tree.hpp"
#include "unpacked.hpp"

namespace kith::cli {
namespace {

struct Options : CloudOptions {
  std::string metric = "euclidean";
  bool include_self = false;
  ResultOptions result;
};

TileSearchOptions tile_search(const Options& options, Metric metric) {
  return {metric, options.tiles.inside, options.include_self, options.index.radius_or_all()};
}

void through_tiles(const Common& common, const Options& options, Metric metric, const std::string& why) {
  refuse_tree_options(options.index);
  std::vector<Source> clouds = options.sources();
  join_through_tiles(common, clouds, options.input_format, tile_parameters(options.tile_points),
                     options.result, tile_search(options, metric), options.tiles, why);
}

void run(const Common& common, Options& options) {
  check_result_options(common, options.result, options.clouds, options.tiles.with_rows());
  check_index_options(options.index);
  const Metric metric = parse_tree_metric(options.metric);
  const UnpackedClouds unpacked(common, options.clouds, options.result.output, options.input_format);
  if (const std::string why = why_tiles(options); !why.empty()) {
    if (!is_tiles(options.clouds.front())) return through_tiles(common, options, metric, why);
    refuse_tree_options(options.index);
    join_tiles(common, PointTiles::open(options.clouds.front()), options.result, tile_search(options, metric),
               options.tiles);
    return;
  }
  options.points.path = options.clouds.front();
  const Execution execution = make_execution(common);
  open_inputs(common, {&options.points}, options.input_format);
  IndexUsed index;
  const auto in_memory = [&](bool& on_gpu) {
    const Size size = peek(options.points);
    MemoryPlan plan(common, or_tiles(options.index, takes_tile_answer(options.result),
                                     "ask for fewer neighbours, or use fewer rows (kith convert --rows)"));
    plan.add("points", size.bytes, size.mapped);
    const DatasetView shape = shape_of(options.points, size);
    check_with_tree(plan, options.index, shape, "answer",
                    static_cast<double>(point_tree::nearest_bytes(shape, -1, options.result.k, execution)));
    Dataset points = load(common, options.points);
    check_ids(options.result.ids, points.rows(), points.rows());
    on_gpu = plan.on_gpu();
    return run_search(common, execution, [&](const Execution& how) {
      Execution left = how;
      const AnyIndex tree = build_tree(options.index, points, metric, plan, left);
      points = Dataset();  // the tree has its own copy
      index = used(tree);
      return tree.point_tree()->all_knn(options.result.k, options.include_self, left,
                                        options.index.radius_or_all());
    });
  };
  // Tiles leave the answer on disk: where it is to go there, no memory is too small.
  const std::optional<Neighbors> answer = unless_too_large(
      in_memory, [&] { return may_take_tiles(options.index) && takes_tile_answer(options.result); });
  if (!answer) {
    options.clouds = {options.points.path};  // what has been opened, its format found
    options.input_format.clear();
    through_tiles(common, options, metric, "the cloud, its tree and the answer do not fit in memory");
    return;
  }
  deliver(common, options.result, *answer, metric, &index);
}

}  // namespace

void add_all_knn(CLI::App& app, Common& common) {
  auto options = std::make_shared<Options>();
  CLI::App& command =
      add_command(app, common, "all-knn", "Find the nearest other rows of every row, by a tree",
                  [options, &common] { run(common, *options); });
  add_clouds_argument(command, common, options->clouds, "The rows: a file of points or vectors");
  add_result_options(command, common, options->result, false);
  add_tree_metric_option(command, common, options->metric);
  command
      .add_flag(
          "--include-self", options->include_self,
          "Count a row among its own neighbours; it comes first, unless an equal row has a lower number")
      ->group("Search");
  add_radius_option(command, options->index, "Only rows at most this far, in units of the metric");
  add_tree_index_options(command, common, options->index);
  add_inside_option(command, common, options->tiles);
  add_tile_answer_options(command, common, options->tiles);
  add_cloud_options(command, common, *options);
  About& about = common.about(command);
  about.details = {
      "The answer has a line for each row, in the order of the file: the same rows and the same bits as kith "
      "knn POINTS POINTS gives, without the row itself. Rows with a NaN neither have neighbours nor are any; "
      "where fewer than K rows are found, the rest of the line is row -1 at an infinite distance.",
      "A cloud that does not fit into --memory-limit together with its tree and the answer goes through "
      "point tiles beside the "
      "output, and a note says so; a folder that kith build --index point_tiles made is searched where it "
      "is. The answer is "
      "the same, and is written to files.",
      "Trees support euclidean, sqeuclidean and manhattan. For cosine and inner_product use kith knn with "
      "the file given twice."};
  about.examples = {
      {"kith all-knn scan.las -k 8 -o graph", "Writes graph.indices.npy and graph.distances.npy, in metres."},
      {"kith all-knn scan.ply -k 30 --radius 0.5 -o near",
       "Of the 30 nearest points of every point, those within half a metre."},
      {"kith all-knn county.tiles -k 8 -o graph --memory-limit 2GiB", "Of point tiles, within 2 GiB."},
      {"kith all-knn scan.ply -k 4 --include-self --json", "Everything, for a program."}};
}

}  // namespace kith::cli
