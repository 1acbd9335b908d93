#include "tiles.hpp"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>
#include <malloc.h>
#include <nlohmann/json.hpp>

#include "interrupt.hpp"
#include "point_tiles/tuning.hpp"
#include "run.hpp"
#include "stream.hpp"
#include "units.hpp"
#include "unpacked.hpp"

namespace kith::cli {
namespace {

namespace fs = std::filesystem;

std::string range(const std::vector<std::int64_t>& sizes) {
  if (sizes.empty()) return "none";
  const auto [least, most] = std::minmax_element(sizes.begin(), sizes.end());
  return fmt::format("{} to {} points each", format_count(*least), format_count(*most));
}

// glibc maps large blocks, and unmaps them when they are freed; but what counts as large it raises to the
// largest that was freed, and those below leave holes. Tiles of many sizes come and go: at a limit of 128 MiB
// that was a peak of 189 MiB instead of 129, for the same time.
void give_memory_back() {
#ifdef M_MMAP_THRESHOLD
  constexpr int large = 256 << 10;
  (void)::mallopt(M_MMAP_THRESHOLD, large);
#endif
}

}  // namespace

void add_clouds_argument(CLI::App& command, Common& common, std::vector<std::string>& clouds,
                         const std::string& text) {
  common.file(
      command
          .add_option("POINTS", clouds, text + "; several files are one cloud; or a folder of point tiles")
          ->type_name("FILE")
          ->required());
}

std::vector<Source> CloudOptions::sources() const {
  std::vector<Source> all;
  for (const std::string& path : clouds) {
    all.push_back(points);
    all.back().path = path;
  }
  return all;
}

void add_cloud_options(CLI::App& command, Common& common, CloudOptions& options) {
  options.points.default_member = "train";
  add_tile_points_option(command, options.tile_points);
  add_member_option(command, "--member", options.points, "to read");
  add_input_format_option(command, common, options.input_format, {"POINTS"}, dataset_formats());
  add_execution_options(command, common);
  add_statistics_option(command, common);
}

std::string why_tiles(const CloudOptions& options) {
  const std::vector<std::string>& clouds = options.clouds;
  if (clouds.size() == 1 && is_tiles(clouds.front())) {
    refuse_reading_options(clouds.front(), options.points, "--member", options.input_format);
    if (!options.tile_points) return "tiles";
    throw InvalidArgument("--tile-points is for files that go through tiles; these tiles have been made");
  }
  for (const std::string& cloud : clouds) {
    if (clouds.size() == 1 || !is_tiles(cloud)) continue;
    throw InvalidArgument(
        fmt::format("'{}' is a folder of point tiles, and {} clouds are named; name it alone, or build tiles "
                    "of all the files",
                    cloud, clouds.size()));
  }
  if (clouds.size() > 1) return fmt::format("{} files are one cloud", clouds.size());
  return given_tile_option(options.tiles) != nullptr || options.tile_points
             ? "an option of point tiles was given"
             : "";
}

bool may_take_tiles(const IndexOptions& options) {
  return options.index == "auto" && !options.leaf_size;
}

std::string or_tiles(const IndexOptions& options, bool in_files, const std::string& rest) {
  constexpr const char* then = "so that it goes through point tiles";
  if (!may_take_tiles(options)) {
    return fmt::format("leave {} out, {}, or {}", options.leaf_size ? "--leaf-size" : "--index", then, rest);
  }
  return in_files ? rest : fmt::format("name an npy file with -o, {}, or {}", then, rest);
}

void refuse_tree_options(const IndexOptions& options) {
  if (options.index == "auto" && !options.leaf_size) return;
  throw InvalidArgument(fmt::format("{} is for an index in memory, point tiles would ignore it; use --inside",
                                    options.leaf_size ? "--leaf-size" : "--index"));
}

PointTilesParameters with_formats(PointTilesParameters parameters, const std::vector<Source>& clouds) {
  parameters.formats.clear();
  for (const Source& cloud : clouds) parameters.formats.push_back(cloud.format);
  return parameters;
}

TileAnswerOptions answer_options(const TileOptions& options) {
  TileAnswerOptions answer;
  answer.order = options.with_rows() ? AnswerOrder::tiles : AnswerOrder::input;
  answer.index_width = options.index_dtype == "u32" ? IndexWidth::u32 : IndexWidth::i64;
  answer.values = options.value_dtype == "f32" ? ValueWidth::f32 : ValueWidth::f64;
  answer.named_as_given = true;  // as in memory
  return answer;
}

Execution limited_execution(const Common& common) {
  Execution execution = tile_execution(common);
  execution.memory_limit = MemoryPlan(common).left();
  return execution;
}

std::vector<fs::path> paths_of(const std::vector<Source>& clouds) {
  std::vector<fs::path> paths;
  for (const Source& cloud : clouds) paths.emplace_back(cloud.path);
  return paths;
}

void open_clouds(const Common& common, std::vector<Source>& clouds, const std::string& input_format) {
  std::vector<Source*> sources;
  for (Source& cloud : clouds) sources.push_back(&cloud);
  open_inputs(common, sources, input_format);
  for (const Source& cloud : clouds) {
    if (!cloud.member.empty()) {
      throw InvalidArgument(
          "point tiles are made from whole files; leave out the member, or convert it (kith convert)");
    }
  }
}

Execution tile_execution(const Common& common) {
  give_memory_back();
  return make_execution(common);
}

Execution tile_making(const Execution& execution) {
  Execution making = execution;
  making.devices = {Device{}};
  making.device_memory_limit = 0;
  return making;
}

void add_tile_points_option(CLI::App& command, std::optional<std::int64_t>& tile_points) {
  command
      .add_option("--tile-points", tile_points,
                  "About how many points a tile has, and at most half of what one may have [default: "
                  "1048576, fewer where "
                  "--memory-limit is small]")
      ->type_name("N")
      ->group("Point tiles");
}

PointTilesParameters tile_parameters(const std::optional<std::int64_t>& tile_points) {
  if (tile_points && *tile_points < point_tiles::tuning::least_tile) {
    throw InvalidArgument(fmt::format("--tile-points {}: use {} or more, or leave it out", *tile_points,
                                      point_tiles::tuning::least_tile));
  }
  return {tile_points.value_or(0)};
}

void add_inside_option(CLI::App& command, Common& common, TileOptions& options, const char* but) {
  auto* option =
      command
          .add_option("--inside", options.inside,
                      fmt::format("What a tile is searched with; it never changes the answer{}", but))
          ->type_name("TYPE")
          ->capture_default_str()
          ->group("Point tiles");
  std::vector<std::pair<std::string, std::string>> choices;
  for (const IndexType& type : Indexes::types) {
    if (type.guarantee == Guarantee::exact) choices.emplace_back(type.name, type.summary);
  }
  common.choice(option, choices);
  options.inside_given = option;
}

void add_tile_answer_options(CLI::App& command, Common& common, TileOptions& options) {
  auto* order = command.add_option("--order", options.order, "Where the answer of a row stands")
                    ->type_name("ORDER")
                    ->capture_default_str()
                    ->group("Point tiles");
  common.choice(
      order,
      {{"input", "that of row i is the i-th"},
       {"tiles", "as tiles come, with the rows' numbers beside (.rows.npy); spares a pass over the answer"}});
  options.order_given = order;
  auto* dtype = command.add_option("--index-dtype", options.index_dtype, "How row numbers are written")
                    ->type_name("TYPE")
                    ->capture_default_str()
                    ->group("Point tiles");
  common.choice(dtype, {{"i64", "-1 for none"}, {"u32", "half the bytes; 4294967295 for none"}});
  options.dtype_given = dtype;
}

void add_value_dtype_option(CLI::App& command, Common& common, TileOptions& options) {
  auto* dtype =
      command.add_option("--value-dtype", options.value_dtype, "How normals are written in npy files")
          ->type_name("TYPE")
          ->capture_default_str()
          ->group("Point tiles");
  common.choice(dtype, {{"f64", "as they were found"}, {"f32", "rounded to nearest, half the bytes"}});
  options.values_given = dtype;
}

const char* given_answer_option(const TileOptions& options) {
  const auto given = [](const CLI::Option* option) { return option != nullptr && option->count() > 0; };
  if (given(options.order_given)) return "--order";
  if (given(options.values_given)) return "--value-dtype";
  return given(options.dtype_given) ? "--index-dtype" : nullptr;
}

const char* given_tile_option(const TileOptions& options) {
  if (options.inside_given != nullptr && options.inside_given->count() > 0) return "--inside";
  return given_answer_option(options);
}

void refuse_tile_options(const TileOptions& options, const std::string& index) {
  if (const char* option = given_tile_option(options)) {
    throw InvalidArgument(
        fmt::format("{0} is for point tiles, {1} would ignore it; leave {0} out, or build tiles (kith build "
                    "--index point_tiles)",
                    option, index));
  }
}

void refuse_reading_options(const std::string& folder, const Source& source, const std::string& member,
                            const std::string& input_format) {
  if (source.member.empty() && input_format.empty()) return;
  throw InvalidArgument(fmt::format("{} is for files, '{}' is a folder; leave it out",
                                    source.member.empty() ? "--input-format" : member, folder));
}

void refuse_unused_index_dtype(const TileOptions& options, const char* answer) {
  if (options.dtype_given->count() == 0 || options.with_rows()) return;
  throw InvalidArgument(fmt::format(
      "--index-dtype: {} in the order of the input have no row numbers beside them; leave it out, or "
      "ask for --order tiles",
      answer));
}

bool is_tiles(const std::string& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

void build_tiles(const Common& common, std::vector<Source>& clouds, const std::string& input_format,
                 const std::string& folder, const PointTilesParameters& parameters) {
  if (folder == "-" || is_standard_output(folder)) {
    throw InvalidArgument("point tiles are a folder and cannot go to standard output; name one with -o");
  }
  std::vector<std::string*> named;
  for (Source& cloud : clouds) named.push_back(&cloud.path);
  const UnpackedClouds unpacked(common, named, folder, input_format);
  open_clouds(common, clouds, input_format);
  note_resumption(common, folder);
  const std::vector<fs::path> paths = paths_of(clouds);
  PointTilesParameters how = with_formats(parameters, clouds);
  how.sources = unpacked.sources_of(paths);
  const PatientScope patient;
  const Execution making =
      common.device == "auto" ? tile_making(limited_execution(common)) : limited_execution(common);
  const PointTiles tiles = run_cancellable(common, making, [&](const Execution& execution) {
    PointTiles built = PointTiles::build(folder, paths, how, execution);
    outputs_in_place();
    return built;
  });
  if (common.json) {
    print_json({{"file", folder},
                {"index", PointTiles::type_name},
                {"rows", tiles.rows()},
                {"dim", tiles.dim()},
                {"dtype", name(tiles.dtype())},
                {"tiles", tiles.tiles()},
                {"tile_points", tiles.tile_points()},
                {"bytes", tiles.bytes()}});
    return;
  }
  note(common, fmt::format("wrote {}: {} of {} x {} {}, {}, {}", folder, PointTiles::type_name,
                           plural(tiles.rows(), "row"), tiles.dim(), name(tiles.dtype()),
                           plural(tiles.tiles(), "tile"), format_bytes(static_cast<double>(tiles.bytes()))));
}

bool takes_tile_answer(const ResultOptions& result) {
  return !result.output.empty() && result.format.empty() && !result.is_table() && !writes_to_stream() &&
         format_of_extension(result.output).value_or(FileFormat::npy) == FileFormat::npy;
}

nlohmann::ordered_json describe_tiles(const std::string& path) {
  const PointTiles tiles = PointTiles::open(path);
  nlohmann::ordered_json object = {{"file", path},
                                   {"format", PointTiles::type_name},
                                   {"dtype", name(tiles.dtype())},
                                   {"rows", tiles.rows()},
                                   {"dim", tiles.dim()},
                                   {"bytes", tiles.bytes()}};
  const std::vector<double> bounds = tiles.bounds();
  const auto corner = [&](std::size_t first) {
    std::string text;
    for (std::size_t j = 0; j < bounds.size() / 2; ++j) {
      text += (j == 0 ? "" : " ") + format_number(bounds[first + j]);
    }
    return text.empty() ? std::string("none") : text;
  };
  object["details"] = {
      {"tiles", fmt::format("{}, {}", format_count(tiles.tiles()), range(tiles.tile_sizes()))},
      {"tile points", format_count(tiles.tile_points())},
      {"NaN rows", format_count(tiles.nan_rows())},
      {"lower", corner(0)},
      {"upper", corner(bounds.size() / 2)}};
  return object;
}

nlohmann::json to_json(const TileStatistics& s) {
  return {{"nan_rows", s.nan_rows},
          {"nan_queries", s.nan_queries},
          {"tiles", s.tiles},
          {"tile_bytes", s.tile_bytes},
          {"bytes_read", s.bytes_read},
          {"bytes_direct", s.bytes_direct},
          {"reader", s.reader},
          {"tiles_read_again", s.tiles_read_again},
          {"read_seconds", s.read_seconds},
          {"waited_seconds", s.waited_seconds},
          {"device", s.device},
          {"device_seconds", s.device_seconds},
          {"crossed", s.crossed},
          {"visits", s.visits},
          {"postponed", s.postponed},
          {"resumed_tiles", s.resumed_tiles},
          {"seconds", s.seconds}};
}

std::string describe(const TileStatistics& s) {
  std::string text;
  const auto line = [&](std::string_view what, const std::string& value) {
    text += fmt::format("  {:<16}{}\n", what, value);
  };
  line("index", std::string(PointTiles::type_name));
  line("tiles",
       fmt::format("{}, {}", format_count(s.tiles), format_bytes(static_cast<double>(s.tile_bytes))));
  line("read", fmt::format("{}, {} again", format_bytes(static_cast<double>(s.bytes_read)),
                           plural(s.tiles_read_again, "tile")));
  const auto direct = format_bytes(static_cast<double>(s.bytes_direct));
  line("reader",
       fmt::format("{}, {} past the page cache; {:.3f} s at work, the search waited for {:.3f} s of them",
                   s.reader, direct, s.read_seconds, s.waited_seconds));
  if (s.device != "cpu") {
    line("device", fmt::format("{}, with something to do for {:.3f} s", s.device, s.device_seconds));
  }
  line("crossed",
       fmt::format("{} ({:.3g} % of the queries), {}", format_count(s.crossed),
                   s.queries > 0 ? 100 * static_cast<double>(s.crossed) / static_cast<double>(s.queries) : 0,
                   plural(s.visits, "visit")));
  line("postponed", format_count(s.postponed));
  line("NaN rows", format_count(s.nan_rows));
  line("NaN queries", format_count(s.nan_queries));
  line("search time", fmt::format("{:.3f} s", s.seconds));
  return text;
}

}  // namespace kith::cli
