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
#include "json_arrays.hpp"
#include "run.hpp"
#include "stream.hpp"
#include "tree.hpp"
#include "units.hpp"

namespace kith::cli {
namespace {

struct Options {
  Source points;
  std::string input_format;
  IndexOptions index;
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
  refuse_overwriting({options.output}, {options.points.path});
  if (options.mark) {
    if (!options.format.empty() && options.format != "npy") {
      throw InvalidArgument(
          fmt::format("--format {}: marks are written as npy; leave it out", options.format));
    }
    check_output(options.output, options.format, {{"npy", ""}}, true);
    return;
  }
  check_output(options.output, options.format, dataset_formats(), true);
  if (std::filesystem::path(options.output).extension() == ".laz") {
    throw InvalidArgument(
        fmt::format("cannot write '{}': compressed LAS is not supported; write .las", options.output));
  }
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

// What the file read has beside coordinates and the file written will lack.
void note_what_is_lost(const Common& common, const Source& points, const std::string& output) {
  for (const auto& [key, value] : inspect(points.path, points.format).details) {
    if ((key != "properties" && key != "fields") || value == "x y z") continue;
    note(common, fmt::format("of {} in {} ({}) only x, y and z are written to {}", key, shown(points.path),
                             value, shown_output(output)));
  }
}

void write_kept(const Common& common, const Options& options, const Dataset& points, const Outliers& found) {
  std::vector<std::int64_t> kept;
  for (std::size_t i = 0; i < found.outlier.size(); ++i) {
    if (!found.outlier[i]) kept.push_back(static_cast<std::int64_t>(i));
  }
  const CancellableScope scope;
  const FileFormat format = output_format(options);
  const WriteOptions how{format, must_stop};
  const FileFormat read = options.points.format ? *options.points.format : guess_format(options.points.path);
  if (format == FileFormat::las && read == FileFormat::las) {
    write_las_rows(options.output, options.points.path, kept, how);
    return;
  }
  Dataset left = rows_of(points, kept);
  if (is_point_cloud(format)) left = as_floats(common, left);
  write_dataset(options.output, left, how);
  if (format == FileFormat::las && !writes_to_stream()) {
    for (const auto& [key, value] : inspect(options.output).details) {
      if (key == "scale") note(common, fmt::format("LAS holds scaled integers; the scale is {}", value));
    }
  }
  note_what_is_lost(common, options.points, options.output);
}

// How many points were outliers, and why: for being far from their neighbours, or for having none.
void note_reasons(const Common& common, const Options& options, const Outliers& found, std::int64_t removed) {
  std::int64_t alone = 0;
  for (std::size_t i = 0; i < found.outlier.size(); ++i) {
    alone += found.outlier[i] && std::isnan(found.mean_distance[i]) ? 1 : 0;
  }
  const auto points = static_cast<std::int64_t>(found.outlier.size());
  std::string reasons;
  if (removed > alone) {
    reasons = fmt::format(
        "{} whose neighbours are farther than {} on average (mean of all points {}, standard "
        "deviation {}, ratio {})",
        format_count(removed - alone), format_number(found.threshold), format_number(found.mean),
        format_number(found.deviation), format_number(options.ratio));
  }
  if (alone > 0) {
    reasons += fmt::format("{}{} without neighbours or with a NaN", reasons.empty() ? "" : ", ",
                           format_count(alone));
  }
  note(common, fmt::format("{} {} of {}{}{}", options.mark ? "marked" : "removed", format_count(removed),
                           plural(points, "point"), reasons.empty() ? "" : ": ", reasons));
}

void run(const Common& common, Options& options) {
  check(common, options);
  const Neighborhood near = neighborhood(options.index, options.k);
  const Metric metric = parse_tree_metric(options.metric);
  const Execution execution = make_execution(common);
  open_inputs(common, {&options.points}, options.input_format);
  constexpr const char* remedy = "use fewer rows (kith convert --rows)";
  const Size size = peek(options.points);
  MemoryPlan plan(common, remedy);
  plan.add("points", size.bytes, size.mapped);
  plan.add("mean distances", size.rows * 8);
  // Of those that are left a copy, and their numbers.
  if (!options.mark) plan.add("points left", size.bytes + size.rows * 8);
  check_with_tree(plan, size);

  const Dataset points = load(common, options.points);
  if (!options.output.empty()) check_dim(options, points.dim());
  IndexUsed index;
  const Outliers found = run_cancellable(common, execution, [&](const Execution& how) {
    Execution left = how;
    const AnyIndex tree = build_tree(options.index, points, metric, plan, left);
    index = used(tree);
    return tree.point_tree()->outliers(near, options.ratio, left);
  });
  const auto removed =
      static_cast<std::int64_t>(std::count(found.outlier.begin(), found.outlier.end(), true));
  if (!options.mark) {
    write_kept(common, options, points, found);
  } else if (!options.output.empty()) {
    const CancellableScope scope;
    write_array(options.output, found.outlier, {FileFormat::npy, must_stop});
  }
  if (common.json) {
    nlohmann::json object = {{"rows", points.rows()},        {"outliers", removed},
                             {"metric", name(metric)},       {"mean", found.mean},
                             {"deviation", found.deviation}, {"ratio", options.ratio},
                             {"threshold", found.threshold}, {"index", to_json(index)}};
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
  note_reasons(common, options, found, removed);
  note(common, fmt::format("wrote {}: {}", shown_output(options.output),
                           plural(options.mark ? points.rows() : points.rows() - removed,
                                  options.mark ? "flag" : "point")));
}

}  // namespace

void add_outliers(CLI::App& app, Common& common) {
  auto options = std::make_shared<Options>();
  options->points.default_member = "train";
  CLI::App& command = add_command(app, common, "outliers",
                                  "Remove the points that are far from their neighbours, or mark them",
                                  [options, &common] { run(common, *options); });
  add_file_argument(command, common, "POINTS", options->points.path, "A file of points or vectors");
  common.file(command
                  .add_option("-o,--output", options->output,
                              "The file for the remaining points, written whole or not at all; the extension "
                              "chooses the format. With --mark: an .npy of bool")
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
  add_member_option(command, "--member", options->points, "to read");
  add_input_format_option(command, common, options->input_format, {"POINTS"}, dataset_formats());
  add_execution_options(command, common);
  About& about = common.about(command);
  about.details = {
      "Statistical outlier removal (Rusu et al. 2008): a point is an outlier if its mean distance to its "
      "neighbours, itself excluded, is more than RATIO standard deviations above the mean of all points. So "
      "are points without a neighbour within the radius, and points with a NaN.",
      "From LAS to LAS the remaining points keep all their attributes, and the file its version, scale, "
      "offset and records. Other formats keep coordinates only; a note says what is lost."};
  about.examples = {
      {"kith outliers scan.las -o clean.las", "By the 20 nearest neighbours, ratio 2."},
      {"kith outliers scan.ply -k 8 --ratio 3 -o clean.ply", "Milder."},
      {"kith outliers scan.ply --radius 0.3 --mark -o noise.npy", "A bool for every point, for NumPy."}};
}

}  // namespace kith::cli
