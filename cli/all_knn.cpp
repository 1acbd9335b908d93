// kith all-knn: the nearest other rows of every row.
#include <memory>

#include <fmt/format.h>

#include "commands.hpp"
#include "input.hpp"
#include "result.hpp"
#include "stream.hpp"
#include "tree.hpp"

namespace kith::cli {
namespace {

struct Options {
  Source points;
  std::string input_format;
  IndexOptions index;
  std::string metric = "euclidean";
  bool include_self = false;
  ResultOptions result;
};

void run(const Common& common, Options& options) {
  check_result_options(common, options.result, {options.points.path});
  check_index_options(options.index);
  const Metric metric = parse_tree_metric(options.metric);
  Execution execution = make_execution(common);
  open_inputs(common, {&options.points}, options.input_format);
  constexpr const char* remedy = "ask for fewer neighbours, or use fewer rows (kith convert --rows)";
  const auto k = static_cast<double>(options.result.k);
  const Size size = peek(options.points);
  MemoryPlan estimate(common, remedy);
  estimate.add("points", size.bytes, size.mapped);
  estimate.add("answer", size.rows * k * 12);
  check_with_tree(estimate, size);

  Dataset points = load(common, options.points);
  IndexUsed index;
  const Neighbors answer = run_search(common, execution, [&](const Execution& how) {
    MemoryPlan plan(common, remedy);
    plan.add("points", size.bytes, size.mapped);
    Execution left = how;
    const AnyIndex tree = build_tree(options.index, points, metric, plan, left);
    points = Dataset();  // the tree has its own copy
    index = used(tree);
    return tree.point_tree()->all_knn(options.result.k, options.include_self, left,
                                      options.index.radius_or_all());
  });
  deliver(common, options.result, answer, metric, &index);
}

}  // namespace

void add_all_knn(CLI::App& app, Common& common) {
  auto options = std::make_shared<Options>();
  options->points.default_member = "train";
  CLI::App& command =
      add_command(app, common, "all-knn", "Find the nearest other rows of every row, by a tree",
                  [options, &common] { run(common, *options); });
  add_file_argument(command, common, "POINTS", options->points.path, "The rows: a file of points or vectors");
  add_result_options(command, common, options->result, false);
  add_tree_metric_option(command, common, options->metric);
  command
      .add_flag(
          "--include-self", options->include_self,
          "Count a row among its own neighbours; it comes first, unless an equal row has a lower number")
      ->group("Search");
  add_radius_option(command, options->index, "Only rows at most this far, in units of the metric");
  add_tree_index_options(command, common, options->index);
  add_member_option(command, "--member", options->points, "to read");
  add_input_format_option(command, common, options->input_format, {"POINTS"}, dataset_formats());
  add_execution_options(command, common);
  add_statistics_option(command, common);
  About& about = common.about(command);
  about.details = {
      "The answer has a line for each row, in the order of the file: the same rows and the same bits as kith "
      "knn POINTS POINTS gives, without the row itself. Rows with a NaN neither have neighbours nor are any; "
      "where fewer than K rows are found, the rest of the line is row -1 at an infinite distance.",
      "Trees support euclidean, sqeuclidean and manhattan. For cosine and inner_product use kith knn with "
      "the file given twice."};
  about.examples = {
      {"kith all-knn scan.las -k 8 -o graph", "Writes graph.indices.npy and graph.distances.npy, in metres."},
      {"kith all-knn scan.ply -k 30 --radius 0.5 -o near",
       "Of the 30 nearest points of every point, those within half a metre."},
      {"kith all-knn scan.ply -k 4 --include-self --json", "Everything, for a program."}};
}

}  // namespace kith::cli
