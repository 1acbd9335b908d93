// kith normals: the direction of the surface at every point, and how curved it is there.
#include <algorithm>
#include <atomic>
#include <charconv>
#include <cmath>
#include <memory>
#include <optional>
#include <span>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commands.hpp"
#include "core/aligned_buffer.hpp"
#include "core/atomic_file.hpp"
#include "core/parallel.hpp"
#include "core/stream.hpp"
#include "input.hpp"
#include "interrupt.hpp"
#include "io/format.hpp"
#include "io/table_file.hpp"
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
  std::string viewpoint;
  std::string output;
  std::string format;
};

std::optional<std::vector<double>> parse_viewpoint(const std::string& text) {
  if (text.empty()) return std::nullopt;
  std::vector<double> values;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (true) {
    double value = 0;
    const auto [after, error] = std::from_chars(at, end, value);
    if (error != std::errc{} || !std::isfinite(value) || (after != end && *after != ',')) {
      throw InvalidArgument(
          fmt::format("--viewpoint '{}': write coordinates with commas between, for example 0,0,1.8", text));
    }
    values.push_back(value);
    if (after == end) return values;
    at = after + 1;
  }
}

std::vector<std::pair<std::string, std::string>> formats_with_normals() {
  return {{"ply", "points, normals and curvature"},
          {"pcd", "the same"},
          {"las", "the same, of LAS and LAZ files"},
          {"npy", "normals and curvature alone"}};
}

// The format of the output, refused here before anything is read.
FileFormat check_format(const std::string& output, const std::string& named) {
  if (is_output_folder(output)) {
    if (named.empty()) return FileFormat::las;  // each file's own
    throw InvalidArgument(fmt::format(
        "--format {}: in the folder '{}' every file has the format of its input; leave it out, or name "
        "a file",
        named, output));
  }
  check_output(output, named, is_stream(output) ? formats_with_normals() : dataset_formats(), true);
  const FileFormat format =
      parse_format(named).value_or(format_of_extension(output).value_or(FileFormat::npy));
  for (const auto& [known, meaning] : formats_with_normals()) {
    if (name(format) == known) return format;
  }
  throw InvalidArgument(
      fmt::format("cannot write '{}': {} cannot hold normals; write .ply, .pcd, .las, .laz or .npy", output,
                  name(format)));
}

void check_dim(const Options& options, FileFormat format, std::int64_t dim) {
  if (dim != 2 && dim != 3) {
    throw InvalidArgument(fmt::format("'{}' has dimension {}; normals are for points of dimension 2 or 3",
                                      shown(options.points.path), dim));
  }
  if (dim == 2 && format != FileFormat::npy) {
    throw InvalidArgument(fmt::format("{} holds points of dimension 3, '{}' has 2; write .npy", name(format),
                                      shown(options.points.path)));
  }
}

// @return what was written, to tell
std::vector<PointTarget> write(const Common& common, const Options& options, FileFormat format,
                               const Dataset& points, Dataset table,
                               const std::vector<PointTarget>& targets) {
  if (format == FileFormat::npy) {  // a stream: see run()
    const CancellableScope scope;
    AtomicFile out(options.output, must_stop);
    io::write_npy(out, table);
    out.commit();
    outputs_in_place();
    return {};
  }
  // Directions need no more than f32; that is also what readers of these formats expect.
  if (targets.front().way != PointTarget::Way::coordinates) {
    const auto values = io::stream_rows(table);
    io::PointChanges changes;
    changes.values = values.get();
    write_targets(common, targets, changes);
    return targets;
  }
  const CancellableScope scope;
  const Dataset narrow = convert(table, Dtype::f32, Rounding::nearest);
  table = Dataset();
  write_points(options.output, as_floats(common, points), {normal_names(format), narrow},
               {format, must_stop});
  outputs_in_place();
  note_what_is_lost(common, options.points, options.output);
  return {};
}

using Viewpoint = std::optional<std::vector<double>>;

// From tiles, in a folder or made of files for the while; `why` is then the reason.
void run_on_tiles(const Common& common, Options& options, const CloudFiles& clouds, FileFormat format,
                  const Neighborhood& near, const Viewpoint& viewpoint, const std::string& why) {
  refuse_tree_options(options.index);
  if (writes_to_stream()) {
    throw InvalidArgument(
        fmt::format("from tiles normals are written to files, not to '{}'; name one with -o",
                    shown_output(options.output)));
  }
  if (const char* given = given_answer_option(options.tiles); given != nullptr && format != FileFormat::npy) {
    throw InvalidArgument(fmt::format(
        "{} is for an answer as npy, files of points have the order of the input; leave it out", given));
  }
  if (format != FileFormat::npy && !is_tiles(clouds.named.front())) {
    plan_targets(clouds, options.output, format);
  }
  TileSearchOptions search;
  search.metric = Metric::euclidean;
  search.inside = options.tiles.inside;
  const auto find = [&](const PointTiles& tiles, const Execution& execution) {
    if (format == FileFormat::npy) {
      return tiles.normals(options.output, near, viewpoint, search, answer_options(options.tiles), execution);
    }
    check_dim(options, format, tiles.dim());
    return normals_with_points(common, {clouds, options.output, format}, tiles, near, viewpoint, search,
                               execution);
  };
  const TileAnswer answer =
      answer_from_tiles(common, options, options.output, tile_parameters(options.tile_points), why, find);
  nlohmann::json files = nlohmann::json::array();
  std::string list;
  for (const auto& file : answer.files) {
    files.push_back(file.string());
    list += (list.empty() ? "" : ", ") + file.string();
  }
  if (common.json) {
    print_json({{"files", files},
                {"rows", answer.statistics.queries},
                {"index", {{"name", PointTiles::type_name}, {"inside", options.tiles.inside}}},
                {"statistics", to_json(answer.statistics)}});
    return;
  }
  note(common, fmt::format("wrote {}: normals and curvature of {} in {:.2f} s", list,
                           plural(answer.statistics.queries, "point"), answer.statistics.seconds));
  note_tiles(common, answer.statistics);
}

// How many rows have a normal. Any thread counts.
class Determined {
 public:
  void begin() { counted_ = with_normal_ = 0; }
  void count(const NormalsView& out, std::span<const std::int64_t> rows) {
    with_normal_ += std::count_if(rows.begin(), rows.end(), [&](std::int64_t row) { return has(out, row); });
    counted_ += static_cast<std::int64_t>(rows.size());
  }
  void count_all(const NormalsView& out, const Execution& execution) {
    constexpr std::int64_t block = 1 << 16;
    parallel_for(execution, (out.rows + block - 1) / block, [&](std::int64_t b) {
      const std::int64_t last = std::min(out.rows, (b + 1) * block);
      std::int64_t here = 0;
      for (std::int64_t row = b * block; row < last; ++row) here += has(out, row) ? 1 : 0;
      with_normal_ += here;
    });
    counted_ = out.rows;
  }
  std::int64_t counted() const { return counted_; }
  std::int64_t with_normal() const { return with_normal_; }

 private:
  static bool has(const NormalsView& out, std::int64_t row) {
    return !std::isnan(out.curvature[row * out.curvature_stride()]);
  }
  std::atomic<std::int64_t> counted_{0}, with_normal_{0};
};

void run(const Common& common, Options& options) {
  check_index_options(options.index);
  const Neighborhood near = neighborhood(options.index, options.k);
  const auto viewpoint = parse_viewpoint(options.viewpoint);
  const OutputFolder folder(options.output);
  options.output = output_path(common, options.output);
  const FileFormat format = check_format(options.output, options.format);
  if (format == FileFormat::npy) refuse_unused_index_dtype(options.tiles, "normals");
  std::vector<std::filesystem::path> outputs = {options.output};
  if (options.tiles.with_rows()) outputs.push_back(io::rows_file(options.output));
  refuse_overwriting(outputs, {options.clouds.begin(), options.clouds.end()});
  CloudFiles clouds{options.clouds, {}, named_formats(options.clouds, options.input_format)};
  const UnpackedClouds unpacked(common, options.clouds, options.output, options.input_format);
  clouds.readable = options.clouds;
  if (const std::string why = why_tiles(options); !why.empty()) {
    return run_on_tiles(common, options, clouds, format, near, viewpoint, why);
  }
  options.points.path = options.clouds.front();
  const Execution execution = make_execution(common);
  open_inputs(common, {&options.points}, options.input_format);
  if (clouds.named == clouds.readable) clouds.named = {options.points.path};
  clouds.readable = {options.points.path};
  std::vector<PointTarget> targets;
  if (format != FileFormat::npy) targets = plan_targets(clouds, options.output, format);
  IndexUsed index;
  Dataset points;
  std::shared_ptr<io::TableFile> file;  // that is written meanwhile
  Determined determined;
  const auto in_memory = [&](bool& on_gpu) {
    file.reset();
    determined.begin();
    const Size size = peek(options.points);
    MemoryPlan plan(common,
                    or_tiles(options.index, !writes_to_stream(), "use fewer rows (kith convert --rows)"));
    plan.add("points", size.bytes, size.mapped);
    if (plan.on_gpu()) {  // of what it finds a copy becomes the table
      MemoryPlan writing = plan;
      writing.add("normals", size.rows * 4 * 8);
      writing.add("table", size.rows * 4 * 8);
      writing.check();
    }
    const DatasetView shape = shape_of(options.points, size);
    check_with_tree(plan, options.index, shape, "normals",
                    size.rows * static_cast<double>(point_tree::normals_bytes_a_row(shape.dtype, shape.dim)));
    points = load(common, options.points);
    check_dim(options, format, points.dim());
    if (viewpoint && static_cast<std::int64_t>(viewpoint->size()) != points.dim()) {
      throw InvalidArgument(fmt::format("--viewpoint '{}' has {}, the points have {}", options.viewpoint,
                                        plural(static_cast<std::int64_t>(viewpoint->size()), "coordinate"),
                                        points.dim()));
    }
    on_gpu = plan.on_gpu();
    return run_cancellable(common, execution, [&](const Execution& how) {
      Execution left = how;
      const AnyIndex tree = build_tree(options.index, points, Metric::euclidean, plan, left);
      index = used(tree);
      // [rows, dim + 1]: the normal and the curvature of each point.
      const std::int64_t dim = points.dim();
      NormalsView out{nullptr, nullptr, points.rows(), dim};
      out.stride = dim + 1;
      std::shared_ptr<void> held;
      if (format == FileFormat::npy && !is_stream(options.output)) {
        file = std::make_shared<io::TableFile>(options.output, points.rows(), dim + 1, must_stop);
        out.normals = file->values();
        out.finished = [&](std::span<const std::int64_t> rows) {
          determined.count(out, rows);
          file->finished(rows);
        };
      } else {
        const auto values = std::make_shared<AlignedBuffer<double>>(points.rows() * (dim + 1));
        out.normals = values->data();
        held = values;
      }
      out.curvature = out.normals + dim;
      tree.point_tree()->normals_into(out, near, viewpoint, left, points.view());
      if (determined.counted() == 0) determined.count_all(out, left);
      if (file != nullptr) {
        file->close();
        return Dataset();
      }
      return Dataset::adopt(DatasetView(out.normals, Dtype::f64, points.rows(), dim + 1, dim + 1), held);
    });
  };
  std::optional<Dataset> found =
      unless_too_large(in_memory, [&] { return may_take_tiles(options.index) && !writes_to_stream(); });
  if (!found) {
    file.reset();
    points = Dataset();
    options.clouds = {options.points.path};  // what has been opened, its format found
    options.input_format.clear();
    return run_on_tiles(common, options, clouds, format, near, viewpoint,
                        "the cloud, its tree and the normals do not fit in memory");
  }
  const std::int64_t without = points.rows() - determined.with_normal();
  if (file != nullptr) {
    const CancellableScope scope;
    file->commit();
    outputs_in_place();
  } else {
    targets = write(common, options, format, points, *std::move(found), targets);
  }
  const std::string name = targets.empty() ? options.output : targets.front().path.string();
  if (common.json) {
    print_json(nlohmann::json{{"file", name},
                              {"rows", points.rows()},
                              {"dim", points.dim()},
                              {"index", to_json(index)},
                              {"without_normal", without}});
    return;
  }
  note(common, fmt::format("wrote {}: normals and curvature of {}", shown_output(name),
                           plural(points.rows(), "point")));
  if (without > 0) {
    note(common, fmt::format("{} without a normal (NaN), for want of {} neighbours or of coordinates",
                             plural(without, "point"), points.dim()));
  }
}

}  // namespace

void add_normals(CLI::App& app, Common& common) {
  auto options = std::make_shared<Options>();
  CLI::App& command =
      add_command(app, common, "normals", "Estimate the normal and the curvature at every point",
                  [options, &common] { run(common, *options); });
  add_clouds_argument(command, common, options->clouds, "The points, of 2 or 3 dimensions");
  common.file(
      command
          .add_option(
              "-o,--output", options->output,
              "The file to write, whole or not at all; its extension chooses the format: .ply, "
              ".pcd, .las, .laz or .npy. Or a folder (out/), in which every LAS, LAZ or PLY file gets one "
              "of its name")
          ->type_name("FILE")
          ->required()
          ->group("Answer"));
  common.choice(
      command.add_option("--format", options->format, "Format of the output, whatever its extension")
          ->type_name("FORMAT")
          ->group("Answer"),
      formats_with_normals());
  add_neighborhood_options(command, options->index, options->k);
  command
      .add_option(
          "--viewpoint", options->viewpoint,
          "Turn every normal towards this point, where the scanner stood [default: the normal's largest "
          "component is positive]")
      ->type_name("X,Y,Z")
      ->group("Search");
  add_tree_index_options(command, common, options->index);
  add_inside_option(command, common, options->tiles);
  add_tile_answer_options(command, common, options->tiles);
  add_value_dtype_option(command, common, options->tiles);
  add_cloud_options(command, common, *options);
  About& about = common.about(command);
  about.details = {
      "A normal is the direction in which a point's neighbours, itself included, spread the least (Hoppe et "
      "al. 1992); the curvature is that direction's share of their spread (Pauly et al. 2002), from 0 in a "
      "plane to 1/3. Distances are euclidean; a radius is in the units of the coordinates.",
      "From LAS or LAZ to LAS or LAZ, and from PLY to PLY, points keep all attributes they have, and files "
      "all "
      "their records. LAS points get NormalX, NormalY, NormalZ and Curvature as extra bytes (as of PDAL and "
      "CloudCompare), PLY vertices the properties nx, ny, nz and curvature, as float; what is called the "
      "same in "
      "the input gives way. From other formats PLY files get x, y and z in their own precision and these "
      "properties, PCD files the fields normal_x, normal_y, normal_z and curvature. npy files hold the "
      "normals "
      "and the curvature alone, [rows, 4] of float64 ([rows, 3] in two dimensions), from tiles of float32 "
      "with "
      "--value-dtype f32. The points stay in "
      "order; a "
      "normal that does not exist is NaN.",
      "LAZ, COPC and E57 are read, and LAZ is written, by the Python that has laspy and lazrs, or pye57 "
      "(KITH_PYTHON "
      "names it): they are unpacked beside the output for the while.",
      "A folder that kith build --index point_tiles made, several files, which are one cloud, and a file "
      "that does not fit into --memory-limit with its tree are answered through point tiles: the same bits. "
      "Of "
      "several files with attributes each gets a file in a folder."};
  about.examples = {
      {"kith normals scan.las -o scan.ply", "From the 20 nearest points of each."},
      {"kith normals scan.laz -k 16 -o with-normals.laz", "All attributes of the scan, and normals."},
      {"kith normals a.laz b.laz -k 16 -o normals/", "As one cloud: normals/a.laz and normals/b.laz."},
      {"kith normals scan.pcd -k 30 --radius 0.2 --viewpoint 0,0,1.8 -o normals.pcd",
       "From up to 30 points within 20 cm; towards a scanner that stood at 0, 0, 1.8."},
      {"kith normals scan.ply -k 16 -o normals.npy", "An array [points, 4] for NumPy."},
      {"kith normals county.tiles -k 16 -o normals.npy --memory-limit 2GiB",
       "Of point tiles, within 2 GiB."}};
}

}  // namespace kith::cli
