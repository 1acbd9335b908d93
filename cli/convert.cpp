// kith convert: another format, another element type, or a part of the rows.
#include <charconv>
#include <filesystem>
#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commands.hpp"
#include "input.hpp"
#include "interrupt.hpp"
#include "io/format.hpp"
#include "result.hpp"
#include "stream.hpp"
#include "units.hpp"
#include "unpacked.hpp"

namespace kith::cli {
namespace {

struct Options {
  Source input;
  std::string output;
  std::string input_format;
  std::string format;
  std::string dtype;
  std::string rows;
  bool round = false;
};

// "first:count", "first:" or ":count".
void parse_rows(const std::string& text, Source& source) {
  const auto wrong = [&] {
    return InvalidArgument(
        fmt::format("--rows '{}': write first:count, for example 0:1000, 5000: (from row 5000 on) or :1000 "
                    "(the first 1000)",
                    text));
  };
  const auto number = [&](std::string_view part, std::int64_t otherwise) {
    if (part.empty()) return otherwise;
    std::int64_t value = -1;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), value);
    if (error != std::errc{} || end != part.data() + part.size() || value < 0) throw wrong();
    return value;
  };
  const auto colon = text.find(':');
  if (colon == std::string::npos) throw wrong();
  source.first_row = number(std::string_view(text).substr(0, colon), 0);
  source.max_rows = number(std::string_view(text).substr(colon + 1), -1);
}

bool holds_results(const Options& options) {
  const FileFormat format =
      options.input.format ? *options.input.format : format_of_input(options.input.path);
  return format == FileFormat::ivecs || format == FileFormat::ibin || format == FileFormat::json ||
         format == FileFormat::table || options.input.path.ends_with(".indices.npy") ||
         options.input.member == "neighbors";
}

// Numbers of results in memory; a tree of JSON is many times its text.
void check_memory(const Common& common, const Source& source) {
  const std::string& path = source.path;
  std::error_code no_file;
  const auto file = std::filesystem::file_size(path, no_file);
  if (no_file) return;  // a pair of files, named without .indices.npy
  const auto bytes = static_cast<double>(file);
  MemoryPlan plan(common, "convert to a binary format where there is more memory");
  if ((source.format ? *source.format : guess_format(path)) == FileFormat::json) {
    plan.add("JSON", 9 * bytes);
    plan.check();
  }
  const FileInfo info = inspect(path, source.format);
  plan.add("results", static_cast<double>(info.rows) * static_cast<double>(info.dim) * 16);
  plan.check();
}

void convert_results(const Common& common, const Options& options) {
  if (!options.dtype.empty() || options.round || !options.rows.empty()) {
    throw InvalidArgument(fmt::format(
        "'{}' holds search results: --dtype, --round and --rows are for vectors", shown(options.input.path)));
  }
  check_output(options.output, options.format, result_formats(), false);
  // Distances in a second file are read along.
  std::vector<std::string> inputs = {options.input.path};
  for (const auto& file : result_files(options.input.path, options.input_format))
    inputs.push_back(file.string());
  refuse_overwriting(result_files(options.output, options.format), inputs);
  check_memory(common, options.input);
  const Neighbors neighbors = read_neighbors(options.input.path, options.input.format, must_stop);
  std::vector<std::string> files;
  {
    const CancellableScope scope;
    for (const auto& file :
         write_neighbors(options.output, neighbors, {parse_format(options.format), must_stop})) {
      files.push_back(shown_output(file.string()));
    }
    outputs_in_place();
  }
  if (common.json) {
    print_json(nlohmann::json{{"files", files}, {"queries", neighbors.queries}, {"k", neighbors.k}});
  } else {
    note(common,
         fmt::format("wrote {}: {} x {}", fmt::join(files, " and "),
                     plural(neighbors.queries, "query", "queries"), plural(neighbors.k, "neighbour")));
  }
}

void run(const Common& common, Options& options) {
  options.output = output_path(common, options.output);
  refuse_overwriting({options.output}, {options.input.path});
  const UnpackedClouds unpacked(common, {&options.input.path}, options.output, options.input_format);
  open_inputs(common, {&options.input}, options.input_format);
  if (holds_results(options)) {
    convert_results(common, options);
    return;
  }
  check_output(options.output, options.format, dataset_formats(), true);
  refuse_overwriting({options.output}, {options.input.path});
  if (options.round && options.dtype.empty())
    throw InvalidArgument("--round needs --dtype: it says how to convert");
  if (!options.rows.empty()) parse_rows(options.rows, options.input);
  MemoryPlan plan(common, "convert some of the rows at a time (--rows)");
  const Size size = peek(options.input);
  plan.add("rows", size.bytes, size.mapped);
  if (!options.dtype.empty() && size.row_elements > 0) {
    plan.add("converted",
             size.rows * size.row_elements * static_cast<double>(size_of(parse_dtype(options.dtype))));
  }
  plan.check();
  Dataset data = load(common, options.input);
  const Dtype stored = data.dtype();
  if (!options.dtype.empty()) {
    try {
      data = convert(data, parse_dtype(options.dtype), options.round ? Rounding::nearest : Rounding::exact);
    } catch (const InvalidArgument& error) {
      const std::string text = error.what();
      const bool inexact = text.find("round to nearest") != std::string::npos;
      throw InvalidArgument(text + (inexact ? " (--round)" : ""));
    }
  }
  {
    const CancellableScope scope;
    write_dataset(options.output, data, {parse_format(options.format), must_stop});
    outputs_in_place();
  }
  if (common.json) {
    print_json(nlohmann::json{
        {"file", options.output}, {"rows", data.rows()}, {"dim", data.dim()}, {"dtype", name(data.dtype())}});
    return;
  }
  note(common, fmt::format("wrote {}: {} x {} {}{}", shown_output(options.output), plural(data.rows(), "row"),
                           data.dim(), name(data.dtype()),
                           stored == data.dtype() ? "" : fmt::format(" (was {})", name(stored))));
}

}  // namespace

void add_convert(CLI::App& app, Common& common) {
  auto options = std::make_shared<Options>();
  options->input.default_member = "train";
  CLI::App& command =
      add_command(app, common, "convert", "Write a file's rows in another format or element type",
                  [options, &common] { run(common, *options); });
  add_file_argument(command, common, "IN", options->input.path,
                    "The file to read: vectors, points or search results");
  add_file_argument(command, common, "OUT", options->output,
                    "The file to write; its extension chooses the format");
  common.choice(
      command.add_option("--dtype", options->dtype, "Convert to this element type [default: as stored]")
          ->type_name("DTYPE")
          ->group("Conversion"),
      {{"f32", ""}, {"f16", ""}, {"bf16", ""}, {"i8", ""}, {"u8", ""}, {"f64", ""}});
  command
      .add_flag(
          "--round", options->round,
          "Round values --dtype cannot hold exactly, ties to even, instead of refusing them; values out of "
          "range, and NaN in integers, are refused all the same")
      ->group("Conversion");
  command
      .add_option("--rows", options->rows,
                  "Only these rows: 1000:500 is 500 rows from row 1000 on, :500 the first 500")
      ->type_name("FIRST:COUNT")
      ->group("Conversion");
  command.add_option("--member", options->input.member, "HDF5 input: the dataset to read [default: train]")
      ->type_name("NAME")
      ->group("Formats");
  const auto all_formats = vector_and_result_formats();
  add_input_format_option(command, common, options->input_format, {"IN"}, all_formats);
  common.choice(command.add_option("--format", options->format, "Format of OUT, whatever its extension")
                    ->type_name("FORMAT")
                    ->group("Formats"),
                all_formats);
  command
      .add_option(
          "--memory-limit", common.memory_limit,
          "Refuse to start when the rows need more than this, for example 4GiB; 'none' leaves it to the "
          "machine's memory")
      ->type_name("SIZE")
      ->capture_default_str()
      ->group("Execution");
  common.about(command).details = {
      "Nothing is rounded without --round: a value that the new type cannot hold is an error that names its "
      "row and column. Only LAS, which holds scaled integers, rounds by itself: coordinates that "
      "no scale keeps bit by bit become multiples of the finest one that spans them. Search results (ivecs, "
      "ibin, JSON, tables, .indices.npy) are converted to the "
      "result formats of kith knn."};
  common.about(command).examples = {
      {"kith convert base.fvecs base.npy", "The same vectors for NumPy."},
      {"kith convert scan.las part.ply --rows 0:100000", "The first 100,000 points."},
      {"kith convert base.npy base.fvecs --dtype f32 --round", "float64 rows as float32, rounded."},
      {"kith convert glove.hdf5 queries.fvecs --member test", "One member of an ann-benchmarks file."},
      {"kith convert truth.ivecs truth.txt", "Search results as a table."}};
}

}  // namespace kith::cli
