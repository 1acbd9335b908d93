// kith outliers: drops, or marks, the points that are far from their neighbours.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commands.hpp"
#include "input.hpp"
#include "interrupt.hpp"
#include "json_arrays.hpp"
#include "point_output.hpp"
#include "point_tree/memory.hpp"
#include "run.hpp"
#include "stream.hpp"
#include "tiles.hpp"
#include "tree.hpp"
#include "units.hpp"
#include "unpacked.hpp"

namespace kith::cli {
namespace {

struct Options : CloudOptions {
  std::optional<std::int64_t> k;
  double ratio = 2;
  std::string metric = "euclidean";
  bool mark = false;
  std::string output;
  std::string format;
};

FileFormat output_format(const Options& options) {
  if (const auto named = parse_format(options.format)) return *named;
  return format_of_extension(options.output).value_or(FileFormat::npy);
}

void check(const Common& common, Options& options) {
  check_index_options(options.index);
  if (!(options.ratio >= 0) || std::isinf(options.ratio)) {
    throw InvalidArgument(fmt::format("--ratio {}: use a number of 0 or more", options.ratio));
  }
  if (options.output.empty()) {
    if (options.mark && common.json) return;
    throw InvalidArgument(
        "-o (--output) is missing: name the file for the remaining points (--mark --json needs none)");
  }
  options.output = output_path(common, options.output);
  refuse_overwriting({options.output}, {options.clouds.begin(), options.clouds.end()});
  if (options.mark) {
    if (!options.format.empty() && options.format != "npy") {
      throw InvalidArgument(
          fmt::format("--format {}: marks are written as npy; leave it out", options.format));
    }
    check_output(options.output, options.format, {{"npy", ""}}, true);
    return;
  }
  if (is_output_folder(options.output)) {
    if (options.format.empty()) return;
    throw InvalidArgument(fmt::format(
        "--format {}: in the folder '{}' every file has the format of its input; leave it out, or name "
        "a file",
        options.format, options.output));
  }
  check_output(options.output, options.format, dataset_formats(), true);
}

// Whether points go with their attributes: into a folder, or between files of one such format.
bool keeps_attributes(const Options& options, const CloudFiles& clouds) {
  if (options.mark || options.output.empty()) return false;
  if (is_output_folder(options.output) || is_laz(options.output)) return true;
  return keeps_attributes(clouds, output_format(options));
}

// Formats of point clouds hold x, y and z, as f32 or f64.
bool is_point_cloud(FileFormat format) {
  return format == FileFormat::ply || format == FileFormat::pcd || format == FileFormat::xyz ||
         format == FileFormat::las;
}

void check_dim(const Options& options, std::int64_t dim) {
  const FileFormat format = output_format(options);
  if (options.mark || dim == 3 || !is_point_cloud(format)) return;
  throw InvalidArgument(fmt::format("{} holds points of dimension 3, '{}' has {}; write .npy", name(format),
                                    shown(options.points.path), dim));
}

Dataset rows_of(const Dataset& points, const std::vector<std::int64_t>& rows) {
  Dataset out = Dataset::allocate(points.dtype(), static_cast<std::int64_t>(rows.size()), points.dim());
  const auto bytes = static_cast<std::size_t>(points.dim()) * size_of(points.dtype());
  auto* to = static_cast<std::byte*>(out.mutable_data());
  for (const std::int64_t row : rows) {
    std::memcpy(to, points.view().row(row), bytes);
    to += bytes;
  }
  return out;
}

void write_kept(const Common& common, const Options& options, const Dataset& points, const Outliers& found,
                const std::vector<PointTarget>& targets) {
  if (!targets.empty()) {
    io::PointChanges changes;
    changes.dropped = [&](std::int64_t first, std::span<std::uint8_t> flags) {
      for (std::uint8_t& flag : flags) flag = found.outlier[static_cast<std::size_t>(first++)] ? 1 : 0;
    };
    write_targets(common, targets, changes);
    return;
  }
  std::vector<std::int64_t> kept;
  for (std::size_t i = 0; i < found.outlier.size(); ++i) {
    if (!found.outlier[i]) kept.push_back(static_cast<std::int64_t>(i));
  }
  const CancellableScope scope;
  const FileFormat format = output_format(options);
  Dataset left = rows_of(points, kept);
  if (is_point_cloud(format)) left = as_floats(common, left);
  write_dataset(options.output, left, {format, must_stop});
  outputs_in_place();
  if (format == FileFormat::las && !writes_to_stream()) {
    for (const auto& [key, value] : inspect(options.output).details) {
      if (key == "scale") note(common, fmt::format("LAS holds scaled integers; the scale is {}", value));
    }
  }
  note_what_is_lost(common, options.points, options.output);
}

// What was found, wherever the flags lie.
struct Summary {
  std::int64_t points = 0;
  std::int64_t removed = 0;
  std::int64_t alone = 0;  ///< of them, without neighbours or with a NaN
  double mean = 0, deviation = 0, threshold = 0;
};

Summary summary_of(const Outliers& found) {
  Summary summary{
      static_cast<std::int64_t>(found.outlier.size()), 0, 0, found.mean, found.deviation, found.threshold};
  for (std::size_t i = 0; i < found.outlier.size(); ++i) {
    summary.removed += found.outlier[i] ? 1 : 0;
    summary.alone += found.outlier[i] && std::isnan(found.mean_distance[i]) ? 1 : 0;
  }
  return summary;
}

// How many points were outliers, and why: for being far from their neighbours, or for having none.
void note_reasons(const Common& common, const Options& options, const Summary& found) {
  std::string reasons;
  if (found.removed > found.alone) {
    reasons = fmt::format(
        "{} whose neighbours are farther than {} on average (mean of all points {}, standard "
        "deviation {}, ratio {})",
        format_count(found.removed - found.alone), format_number(found.threshold), format_number(found.mean),
        format_number(found.deviation), format_number(options.ratio));
  }
  if (found.alone > 0) {
    reasons += fmt::format("{}{} without neighbours or with a NaN", reasons.empty() ? "" : ", ",
                           format_count(found.alone));
  }
  note(common,
       fmt::format("{} {} of {}{}{}", options.mark ? "marked" : "removed", format_count(found.removed),
                   plural(found.points, "point"), reasons.empty() ? "" : ": ", reasons));
  note(common, fmt::format("wrote {}: {}", shown_output(options.output),
                           plural(options.mark ? found.points : found.points - found.removed,
                                  options.mark ? "flag" : "point")));
}

nlohmann::json to_json(const Options& options, const Summary& found, Metric metric) {
  return {{"rows", found.points},        {"outliers", found.removed},    {"metric", name(metric)},
          {"mean", found.mean},          {"deviation", found.deviation}, {"ratio", options.ratio},
          {"threshold", found.threshold}};
}

// Through tiles points are written as npy, or as they are in their files, or as x, y and z of PLY, PCD and
// text.
void check_tile_output(const Options& options) {
  const bool folder = is_output_folder(options.output);
  const FileFormat format = folder || options.output.empty() ? FileFormat::las : output_format(options);
  if (options.output.empty() || writes_to_stream()) {
    throw InvalidArgument("from tiles flags and points are written to files; name one with -o");
  }
  if (options.mark || folder || format == FileFormat::npy || format == FileFormat::las ||
      format == FileFormat::ply || format == FileFormat::pcd || format == FileFormat::xyz) {
    return;
  }
  throw InvalidArgument(fmt::format(
      "cannot write '{}': from tiles points are written as npy, ply, pcd, las or xyz; name one of "
      "these, and convert it "
      "(kith convert)",
      options.output));
}

// From tiles, in a folder or made of files for the while; `why` is then the reason.
void run_on_tiles(const Common& common, Options& options, const CloudFiles& clouds, const Neighborhood& near,
                  Metric metric, const std::string& why) {
  refuse_tree_options(options.index);
  check_tile_output(options);
  const bool array =
      options.mark || (!is_output_folder(options.output) && output_format(options) == FileFormat::npy);
  if (!array && !is_tiles(clouds.named.front())) plan_targets(clouds, options.output, output_format(options));
  TileSearchOptions search;
  search.metric = metric;
  search.inside = options.tiles.inside;
  TileOutlierFiles files;
  (options.mark ? files.outlier : files.kept) = options.output;
  const TileOutliers answer = answer_from_tiles(
      common, options, options.output, tile_parameters(options.tile_points), why,
      [&](const PointTiles& tiles, const Execution& execution) {
        if (array) return tiles.outliers(files, near, options.ratio, search, execution);
        check_dim(options, tiles.dim());
        return outliers_with_points(common, {clouds, options.output, output_format(options)}, tiles, near,
                                    options.ratio, search, execution);
      });
  const Summary found{answer.statistics.queries, answer.outliers, answer.alone, answer.mean,
                      answer.deviation,          answer.threshold};
  if (common.json) {
    nlohmann::json object = to_json(options, found, metric);
    object["index"] = {{"name", PointTiles::type_name}, {"inside", options.tiles.inside}};
    object["statistics"] = kith::cli::to_json(answer.statistics);
    object["file"] = options.output;
    print_json(object);
    return;
  }
  note_reasons(common, options, found);
  note_tiles(common, answer.statistics);
}

void run(const Common& common, Options& options) {
  const OutputFolder folder(options.output);
  check(common, options);
  const Neighborhood near = neighborhood(options.index, options.k);
  const Metric metric = parse_tree_metric(options.metric);
  CloudFiles clouds{options.clouds, {}, named_formats(options.clouds, options.input_format)};
  const UnpackedClouds unpacked(common, options.clouds, options.output, options.input_format);
  clouds.readable = options.clouds;
  if (const std::string why = why_tiles(options); !why.empty()) {
    return run_on_tiles(common, options, clouds, near, metric, why);
  }
  options.points.path = options.clouds.front();
  const Execution execution = make_execution(common);
  open_inputs(common, {&options.points}, options.input_format);
  if (clouds.named == clouds.readable) clouds.named = {options.points.path};
  clouds.readable = {options.points.path};
  std::vector<PointTarget> targets;
  if (keeps_attributes(options, clouds)) {
    targets = plan_targets(clouds, options.output, output_format(options));
  }
  IndexUsed index;
  Dataset points;
  const bool in_files = !options.output.empty() && !writes_to_stream();
  const auto in_memory = [&](bool& on_gpu) {
    const Size size = peek(options.points);
    MemoryPlan plan(common, or_tiles(options.index, in_files, "use fewer rows (kith convert --rows)"));
    plan.add("points", size.bytes, size.mapped);
    const double flags = size.rows * static_cast<double>(point_tree::outliers_bytes_a_row);
    if (!options.mark && targets.empty()) {
      // Without the tree, but with a copy of those that are left, and their numbers.
      MemoryPlan writing = plan;
      writing.add("mean distances", flags);
      writing.add("points left", size.bytes + size.rows * 8);
      writing.check();
    }
    check_with_tree(plan, options.index, shape_of(options.points, size), "mean distances", flags);
    points = load(common, options.points);
    if (!options.output.empty()) check_dim(options, points.dim());
    on_gpu = plan.on_gpu();
    return run_cancellable(common, execution, [&](const Execution& how) {
      Execution left = how;
      const AnyIndex tree = build_tree(options.index, points, metric, plan, left);
      index = used(tree);
      return tree.point_tree()->outliers(near, options.ratio, left);
    });
  };
  const std::optional<Outliers> in_memory_found =
      unless_too_large(in_memory, [&] { return may_take_tiles(options.index) && in_files; });
  if (!in_memory_found) {
    check_tile_output(options);
    points = Dataset();
    options.clouds = {options.points.path};  // what has been opened, its format found
    options.input_format.clear();
    return run_on_tiles(common, options, clouds, near, metric, "the cloud and its tree do not fit in memory");
  }
  const Outliers& found = *in_memory_found;
  const Summary summary = summary_of(found);
  if (!options.mark) {
    write_kept(common, options, points, found, targets);
  } else if (!options.output.empty()) {
    const CancellableScope scope;
    write_array(options.output, found.outlier, {FileFormat::npy, must_stop});
    outputs_in_place();
  }
  if (common.json) {
    nlohmann::json object = to_json(options, summary, metric);
    object["index"] = kith::cli::to_json(index);
    if (!options.output.empty()) object["file"] = options.output;
    std::vector<JsonMember> flags;
    if (options.mark && options.output.empty()) {
      flags.push_back(array_member("outlier", points.rows(), [&](std::int64_t i) {
        return static_cast<bool>(found.outlier[static_cast<std::size_t>(i)]);
      }));
    }
    print_json(object, flags);
    return;
  }
  note_reasons(common, options, summary);
}

}  // namespace

void add_outliers(CLI::App& app, Common& common) {
  auto options = std::make_shared<Options>();
  CLI::App& command = add_command(app, common, "outliers",
                                  "Remove the points that are far from their neighbours, or mark them",
                                  [options, &common] { run(common, *options); });
  add_clouds_argument(command, common, options->clouds, "A file of points or vectors");
  common.file(
      command
          .add_option("-o,--output", options->output,
                      "The file for the remaining points, written whole or not at all; the extension "
                      "chooses the format. Or a folder (out/), in which every LAS, LAZ or PLY file gets one "
                      "of its name. With --mark: an .npy of bool")
          ->type_name("FILE")
          ->group("Answer"));
  auto formats = dataset_formats();
  for (auto& [format, meaning] : formats) meaning.clear();
  common.choice(
      command.add_option("--format", options->format, "Format of the output, whatever its extension")
          ->type_name("FORMAT")
          ->group("Answer"),
      formats);
  command
      .add_flag(
          "--mark", options->mark,
          "Write a bool for every point, true for outliers, instead of the remaining points; with --json and "
          "without -o as JSON")
      ->group("Answer");
  add_neighborhood_options(command, options->index, options->k);
  command
      .add_option("--ratio", options->ratio,
                  "Standard deviations above the mean of all points that make an outlier")
      ->type_name("X")
      ->capture_default_str()
      ->group("Search");
  add_tree_metric_option(command, common, options->metric);
  add_tree_index_options(command, common, options->index);
  add_inside_option(command, common, options->tiles);
  add_cloud_options(command, common, *options);
  About& about = common.about(command);
  about.details = {
      "Statistical outlier removal (Rusu et al. 2008): a point is an outlier if its mean distance to its "
      "neighbours, itself excluded, is more than RATIO standard deviations above the mean of all points. So "
      "are points without a neighbour within the radius, and points with a NaN.",
      "From LAS or LAZ to LAS or LAZ, and from PLY to PLY, the remaining points keep all their attributes, "
      "and the "
      "file its version, scale, offset and records; of a PLY with faces or other elements only the vertices "
      "remain. Other formats keep coordinates only; a note says what is lost.",
      "LAZ, COPC and E57 are read, and LAZ is written, by the Python that has laspy and lazrs, or pye57 "
      "(KITH_PYTHON "
      "names it): they are unpacked beside the output for the while.",
      "A folder that kith build --index point_tiles made, several files, which are one cloud, and a file "
      "that does not fit into --memory-limit with its tree are answered through point tiles: the same bits. "
      "Of several files with attributes each gets a file in a folder (-o clean/)."};
  about.examples = {
      {"kith outliers scan.las -o clean.las", "By the 20 nearest neighbours, ratio 2."},
      {"kith outliers scan.ply -k 8 --ratio 3 -o clean.ply", "Milder."},
      {"kith outliers scan.ply --radius 0.3 --mark -o noise.npy", "A bool for every point, for NumPy."}};
}

}  // namespace kith::cli
