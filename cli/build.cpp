// kith build: makes an index once and saves it.
#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commands.hpp"
#include "index_file.hpp"
#include "input.hpp"
#include "interrupt.hpp"
#include "progress.hpp"
#include "stream.hpp"
#include "tiles.hpp"
#include "tree.hpp"
#include "units.hpp"
#include "unpacked.hpp"

namespace kith::cli {
namespace {

struct Options {
  std::vector<std::string> bases;
  Source base;
  std::string input_format;
  std::string output;
  IndexOptions index;
  std::string metric = "sqeuclidean";
  std::string filter = "auto";
  const CLI::Option* metric_given = nullptr;
  std::optional<std::int64_t> tile_points;
};

void build_folder(const Common& common, const Options& options) {
  if (options.index.leaf_size) {
    throw InvalidArgument("--leaf-size is for trees, --index point_tiles would ignore it; leave it out");
  }
  if (options.metric_given->count() > 0) {
    throw InvalidArgument(
        "point tiles have no metric of their own; leave --metric out, and name it when they are searched");
  }
  std::vector<Source> clouds;
  for (const std::string& path : options.bases) {
    clouds.push_back(options.base);
    clouds.back().path = path;
  }
  build_tiles(common, clouds, options.input_format, options.output, tile_parameters(options.tile_points));
}

void run(const Common& common, Options& options) {
  check_index_options(options.index);
  if (options.index.index == PointTiles::type_name) return build_folder(common, options);
  if (options.bases.size() > 1) {
    throw InvalidArgument(fmt::format(
        "{} files; only --index point_tiles is built from several, as one cloud", options.bases.size()));
  }
  if (options.tile_points) {
    throw InvalidArgument(fmt::format(
        "--tile-points is for point tiles, --index {} would ignore it; leave it out", options.index.index));
  }
  options.base.path = options.bases.front();
  options.output = output_path(common, options.output);
  check_index_output(options.output);
  refuse_overwriting({options.output}, {options.base.path});
  const UnpackedClouds unpacked(common, {&options.base.path}, options.output, options.input_format);
  Execution execution = make_execution(common);
  open_inputs(common, {&options.base}, options.input_format);
  const Size size = peek(options.base);
  MemoryPlan plan(common, "build from fewer rows (kith convert --rows), or make shards of them (kith shard)");
  plan.add("base", size.bytes, size.mapped);
  plan.check();
  execution.memory_limit = plan.left();
  const Dataset base = load(common, options.base);

  const Metric metric = parse_metric(options.metric);
  const Filter filter = parse_filter(options.filter);
  // How many queries are to come is not known: many, for the 10 nearest rows.
  const IndexChoice choice = resolve_index(options.index, base.rows(), base.dim(), 0, 10, metric, execution);
  const bool chosen = options.index.index == "auto";
  ProgressBar bar(common);
  execution.progress = bar.callback();
  const CancellableScope scope;
  const AnyIndex index =
      AnyIndex::build(base, make_parameters(choice.index, metric, options.index, filter), execution);
  stop_if_interrupted();
  execution.cancelled = must_stop;
  index.save(options.output, execution);
  outputs_in_place();
  bar.erase();
  if (chosen) note_choice(common, {choice.index, 0, choice.reason});
  std::error_code no_file;  // a stream has no size
  const auto size_on_disk = std::filesystem::file_size(options.output, no_file);
  const std::uint64_t file_bytes = no_file || writes_to_stream() ? 0 : size_on_disk;
  if (common.json) {
    nlohmann::json object = {{"file", options.output},       {"index", index.type()},
                             {"rows", index.rows()},         {"dim", index.dim()},
                             {"dtype", name(index.dtype())}, {"metric", name(index.metric())},
                             {"bytes", file_bytes}};
    if (chosen) object["reason"] = choice.reason;
    if (const PointTree* tree = index.point_tree()) object["leaf_size"] = tree->leaf_size();
    if (const auto* graph = index.get_if<Vamana>()) object["recall_curve"] = to_json(graph->recall_curve());
    print_json(object);
    return;
  }
  note(common,
       fmt::format("wrote {}: {} of {} x {} {}, {}{}", shown_output(options.output), index.type(),
                   plural(index.rows(), "row"), index.dim(), name(index.dtype()), name(index.metric()),
                   file_bytes > 0 ? ", " + format_bytes(static_cast<double>(file_bytes)) : ""));
}

}  // namespace

void add_build(CLI::App& app, Common& common) {
  auto options = std::make_shared<Options>();
  options->base.default_member = "train";
  CLI::App& command = add_command(app, common, "build", "Build an index over BASE and save it",
                                  [options, &common] { run(common, *options); });
  common.file(command
                  .add_option("BASE", options->bases,
                              "The rows to search in: a file of vectors or points; with --index point_tiles "
                              "one or more, which are one cloud")
                  ->type_name("FILE")
                  ->required());
  add_index_output_option(command, common, options->output, "The index file, or the folder of point tiles");
  options->index.index = "brute_force";
  add_any_index_options(command, common, options->index, true);
  add_graph_options(command, options->index);
  add_metric_option(command, common, options->metric);
  options->metric_given = command.get_option("--metric");
  add_tile_points_option(command, options->tile_points);
  add_filter_option(command, common, options->filter);
  options->index.filter = command.get_option("--filter");
  add_member_option(command, "--base-member", options->base, "with the base");
  add_input_format_option(command, common, options->input_format, {"BASE"}, dataset_formats());
  add_execution_options(command, common);
  common.about(command).details = {
      "The file holds the rows and everything that a search needs, with a checksum of each part; kith search "
      "reads it, kith info says what it contains, and every later version of Kith can open it. --index auto "
      "expects many queries.",
      "--index point_tiles divides a cloud of any size among tiles in a folder, reading it once and writing "
      "it once, within "
      "--memory-limit; kith all-knn and kith search then search it tile by tile. Files are read in blocks; "
      "only HDF5 and compressed PCD files are held whole, one at a time."};
  common.about(command).examples = {
      {"kith build base.fvecs -o base.kith --metric cosine", "Builds and saves."},
      {"kith build scan.ply -o scan.kith --index kd_tree --metric euclidean", "A tree over points."},
      {"kith build base.fvecs -o graph.kith --index vamana", "A graph, with its recall measured."},
      {"kith build north.npy south.npy -o county.tiles --index point_tiles --memory-limit 2GiB",
       "A folder of tiles of a cloud that need not fit in memory."},
      {"kith search base.kith queries.fvecs -k 10 -o answer", "Searches it."}};
}

}  // namespace kith::cli
