// kith codes: encodes rows in fewer bits, and says what that costs and what is left of their distances.
#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commands.hpp"
#include "core/atomic_file.hpp"
#include "input.hpp"
#include "interrupt.hpp"
#include "run.hpp"
#include "stream.hpp"
#include "units.hpp"
#include "unpacked.hpp"

namespace kith::cli {
namespace {

struct Options {
  Source base;
  Source queries;
  std::string input_format;
  std::string kind = "rabitq";
  std::string metric = "sqeuclidean";
  std::optional<std::int64_t> bits;
  std::optional<std::int64_t> subspaces;
  bool rotate = false;
  std::optional<std::int64_t> iterations;
  std::optional<std::int64_t> training_rows;
  std::optional<std::uint64_t> seed;
  std::int64_t k = 10;
  const CLI::Option* k_given = nullptr;
  std::int64_t max_queries = -1;
  std::string output;
  std::string codes;
};

// What the kind does not know is refused by name.
CodesParameters parameters_of(const Options& options) {
  const CodeKind kind = parse_code_kind(options.kind);
  const Metric metric = parse_metric(options.metric);
  const auto refuse = [&](bool given, const char* option, const char* whose) {
    if (!given) return;
    throw InvalidArgument(
        fmt::format("{} is for {} codes, not for {}; leave it out", option, whose, name(kind)));
  };
  if (kind == CodeKind::pq) {
    refuse(options.bits.has_value(), "--bits", "scalar and rabitq");
  } else {
    refuse(options.subspaces.has_value(), "--subspaces", "pq");
    refuse(options.rotate, "--rotate", "pq");
    refuse(options.iterations.has_value(), "--iterations", "pq");
    refuse(options.training_rows.has_value(), "--training-rows", "pq");
  }
  if (kind == CodeKind::scalar) {
    refuse(options.seed.has_value(), "--seed", "rabitq and pq");
    ScalarCodesParameters scalar{.metric = metric};
    scalar.bits = options.bits.value_or(scalar.bits);
    return scalar;
  }
  if (kind == CodeKind::rabitq) {
    RabitqParameters rabitq{.metric = metric};
    rabitq.bits = options.bits.value_or(rabitq.bits);
    rabitq.seed = options.seed.value_or(rabitq.seed);
    return rabitq;
  }
  PqParameters pq{.metric = metric, .rotate = options.rotate};
  pq.subspaces = options.subspaces.value_or(pq.subspaces);
  pq.iterations = options.iterations.value_or(pq.iterations);
  pq.training_rows = options.training_rows.value_or(pq.training_rows);
  pq.seed = options.seed.value_or(pq.seed);
  return pq;
}

void check(const Common& common, Options& options) {
  if (options.k < 1) throw InvalidArgument(fmt::format("-k {}: use 1 or more", options.k));
  if (options.max_queries < -1)
    throw InvalidArgument(fmt::format("--max-queries {}: use 0 or more", options.max_queries));
  std::vector<std::filesystem::path> outputs;
  std::vector<std::string> inputs = {options.base.path};
  if (!options.queries.path.empty()) inputs.push_back(options.queries.path);
  if (!options.output.empty()) {
    options.output = output_path(common, options.output);
    check_output(options.output, "index", {}, false);
    const auto told = format_of_extension(options.output);
    if (told && *told != FileFormat::index) {
      throw InvalidArgument(fmt::format(
          "cannot write a quantizer to '{}': its extension is that of {} files; use .kith or no extension",
          options.output, name(*told)));
    }
    outputs.emplace_back(options.output);
  }
  if (!options.codes.empty()) {
    options.codes = output_path(common, options.codes);
    check_output(options.codes, "", dataset_formats(), true);
    outputs.emplace_back(options.codes);
  }
  if (options.output == options.codes && !options.output.empty()) {
    throw InvalidArgument(fmt::format("'{}' is named for both the quantizer and the codes; name two files",
                                      shown_output(options.output)));
  }
  refuse_overwriting(outputs, inputs);
}

struct Result {
  Quantizer quantizer;
  double train_seconds = 0;
  Dataset codes;
  double error = 0;
  double encode_seconds = 0;
  std::optional<double> recall;
};

double since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

Result measure(const Options& options, const CodesParameters& parameters, const BaseAndQueries& data,
               const Execution& execution) {
  auto start = std::chrono::steady_clock::now();
  Result result = {.quantizer = Quantizer::train(data.base, parameters, execution),
                   .train_seconds = since(start),
                   .codes = {},
                   .recall = {}};
  const Quantizer& quantizer = result.quantizer;
  start = std::chrono::steady_clock::now();
  result.codes = quantizer.encode(data.base, execution);
  result.encode_seconds = since(start);
  result.error = quantizer.reconstruction_error(data.base, result.codes, execution);
  if (!options.queries.path.empty() && data.view.rows > 0) {
    const Neighbors found = quantizer.search(data.view, result.codes, options.k, execution);
    const Neighbors exact =
        knn(data.base, data.view, options.k, {quantizer.metric(), Filter::automatic}, execution);
    result.recall = evaluate(found, exact).recall;
  }
  return result;
}

void add_parameters(nlohmann::json& object, const CodesParameters& parameters) {
  if (const auto* scalar = std::get_if<ScalarCodesParameters>(&parameters)) object["bits"] = scalar->bits;
  if (const auto* rabitq = std::get_if<RabitqParameters>(&parameters)) {
    object["bits"] = rabitq->bits;
    object["seed"] = rabitq->seed;
  }
  if (const auto* pq = std::get_if<PqParameters>(&parameters)) {
    object["subspaces"] = pq->subspaces;
    object["rotate"] = pq->rotate;
    object["iterations"] = pq->iterations;
    object["training_rows"] = pq->training_rows;
    object["seed"] = pq->seed;
  }
}

std::string described(const Quantizer& quantizer) {
  const CodesParameters& parameters = quantizer.parameters();
  if (const auto* scalar = std::get_if<ScalarCodesParameters>(&parameters))
    return fmt::format("scalar, {} bits a value", scalar->bits);
  if (const auto* rabitq = std::get_if<RabitqParameters>(&parameters))
    return fmt::format("rabitq, {} a dimension", plural(rabitq->bits, "bit"));
  const auto& pq = std::get<PqParameters>(parameters);
  return fmt::format("pq, {}{}", plural(pq.subspaces, "subspace"), pq.rotate ? ", rotated" : "");
}

void print_result(const Common& common, const Options& options, const BaseAndQueries& data,
                  const Result& result) {
  const Quantizer& quantizer = result.quantizer;
  const auto rows = static_cast<double>(data.base.rows());
  const double row_bytes =
      static_cast<double>(data.base.dim()) * static_cast<double>(size_of(data.base.dtype()));
  const auto code_bytes = static_cast<double>(quantizer.code_bytes());
  if (common.json) {
    nlohmann::json object = {{"rows", data.base.rows()},
                             {"dim", data.base.dim()},
                             {"dtype", name(data.base.dtype())},
                             {"kind", name(quantizer.kind())},
                             {"metric", name(quantizer.metric())},
                             {"code_bytes", quantizer.code_bytes()},
                             {"row_bytes", row_bytes},
                             {"codes_bytes", code_bytes * rows},
                             {"quantizer_bytes", quantizer.memory_bytes()},
                             {"reconstruction_error", result.error},
                             {"train_seconds", result.train_seconds},
                             {"encode_seconds", result.encode_seconds}};
    add_parameters(object, quantizer.parameters());
    if (result.recall) {
      object["recall"] = *result.recall;
      object["k"] = options.k;
      object["queries"] = data.view.rows;
    }
    if (!options.output.empty()) object["file"] = options.output;
    if (!options.codes.empty()) object["codes_file"] = options.codes;
    print_json(object);
    return;
  }
  const auto line = [](const std::string& what, const std::string& value) {
    print(fmt::format("{:<22}{}\n", what, value));
  };
  line("rows", fmt::format("{} x {} {}, {}", format_count(data.base.rows()), data.base.dim(),
                           name(data.base.dtype()), name(quantizer.metric())));
  line("codes", described(quantizer));
  line("bytes a row", fmt::format("{} instead of {}: {:.3g} times fewer", quantizer.code_bytes(), row_bytes,
                                  row_bytes / code_bytes));
  line("memory", fmt::format("{} of codes, {} of the quantizer", format_bytes(code_bytes * rows),
                             format_bytes(static_cast<double>(quantizer.memory_bytes()))));
  line("reconstruction error", fmt::format("{:.6f}", result.error));
  if (result.recall) {
    line(fmt::format("recall@{}", options.k), fmt::format("{:.4f}, {}, by codes alone", *result.recall,
                                                          plural(data.view.rows, "query", "queries")));
  }
}

void run(const Common& common, Options& options) {
  check(common, options);
  const CodesParameters parameters = parameters_of(options);
  Execution execution = make_execution(common);
  const bool asked = !options.queries.path.empty();
  if (const bool k = options.k_given->count() > 0; !asked && (k || options.max_queries >= 0)) {
    throw InvalidArgument(
        fmt::format("{} without --queries: name the queries, or leave it out", k ? "-k" : "--max-queries"));
  }
  const UnpackedClouds unpacked(common, {&options.base.path, &options.queries.path}, options.output,
                                options.input_format);
  std::vector<Source*> sources = {&options.base};
  if (asked) sources.push_back(&options.queries);
  open_inputs(common, sources, options.input_format);
  // Without queries none of the base's own rows are asked.
  Source queries = asked ? options.queries : options.base;
  queries.max_rows = asked ? options.max_queries : 0;
  BaseAndQueries data = load_base_and_queries(
      common, options.base, queries, 24 * static_cast<double>(options.k),
      asked ? "encode fewer rows (kith convert --rows), or rank them for fewer queries (--max-queries)"
            : "encode fewer rows (kith convert --rows)");
  if (data.base.rows() == 0) {
    throw InvalidArgument(fmt::format("'{}' has no rows to train on", shown(options.base.path)));
  }
  // Codes, where rows have at most one byte a value more.
  data.plan.add("codes", static_cast<double>(data.base.rows()) * (static_cast<double>(data.base.dim()) + 44));
  data.plan.check();
  execution.memory_limit = data.plan.left();

  const Result result = run_cancellable(
      common, execution, [&](const Execution& how) { return measure(options, parameters, data, how); });
  const CancellableScope scope;
  Execution saving;
  saving.cancelled = must_stop;
  CommitTogether both;
  if (!options.output.empty()) result.quantizer.save(options.output, saving);
  if (!options.codes.empty()) write_dataset(options.codes, result.codes, {std::nullopt, must_stop});
  both.commit();
  outputs_in_place();
  print_result(common, options, data, result);
  if (!options.output.empty())
    note(common, fmt::format("wrote {}: the quantizer", shown_output(options.output)));
  if (!options.codes.empty()) {
    note(common, fmt::format("wrote {}: {} of {} u8", shown_output(options.codes),
                             plural(result.codes.rows(), "code"), result.codes.dim()));
  }
}

}  // namespace

void add_codes(CLI::App& app, Common& common) {
  auto options = std::make_shared<Options>();
  options->base.default_member = "train";
  options->queries.default_member = "test";
  CLI::App& command =
      add_command(app, common, "codes", "Encode the rows of BASE in fewer bits, and say what that costs",
                  [options, &common] { run(common, *options); });
  add_file_argument(command, common, "BASE", options->base.path, "The rows: a file of vectors or points");
  common.choice(command.add_option("--kind", options->kind, "How rows become codes")
                    ->type_name("KIND")
                    ->capture_default_str()
                    ->group("Codes"),
                {{"scalar", "every value rounded on one scale, to 8 or 4 bits"},
                 {"rabitq", "the direction, rotated at random, to 1 to 8 bits a dimension"},
                 {"pq", "parts of the row, a byte each: the nearest of 256 centroids"}});
  const auto number = [&](const char* option, auto& value, const char* what, const char* type = "N") {
    return command.add_option(option, value, what)->type_name(type)->group("Codes");
  };
  number("--bits", options->bits, "rabitq: a dimension, 1 to 8 [default: 4]; scalar: 8 or 4 [default: 8]");
  number("--subspaces", options->subspaces,
         "pq: parts, and bytes a row [default: one for every 4 dimensions]");
  command.add_flag("--rotate", options->rotate, "pq: rotate rows at random first")->group("Codes");
  number("--iterations", options->iterations, "pq: of k-means, at most [default: 20]");
  number("--training-rows", options->training_rows,
         "pq: rows that centroids are found from [default: 65536]");
  from_zero(
      number("--seed", options->seed, "rabitq and pq: of rotation and first centroids [default: 0]", "S"));
  common.choice(command.add_option("--metric", options->metric, "What estimates are of")
                    ->type_name("METRIC")
                    ->capture_default_str()
                    ->group("Codes"),
                {{"sqeuclidean", "sum of (q_i - x_i)^2"},
                 {"inner_product", "-(sum of q_i x_i): the largest product comes first"}});
  common.file(command
                  .add_option("--queries", options->queries.path,
                              "Rank the codes for these rows, and give the recall against the exact answer")
                  ->type_name("FILE")
                  ->group("Recall"));
  options->k_given = command.add_option("-k,--neighbors", options->k, "Recall of the K nearest")
                         ->type_name("K")
                         ->capture_default_str()
                         ->group("Recall");
  command.add_option("--max-queries", options->max_queries, "Only the first N queries")
      ->type_name("N")
      ->group("Recall");
  common.file(command.add_option("-o,--output", options->output, "Save the quantizer, as .kith")
                  ->type_name("FILE")
                  ->group("Output"));
  common.file(
      command
          .add_option("--codes", options->codes, "Write the codes, u8 rows, in any format that holds them")
          ->type_name("FILE")
          ->group("Output"));
  add_member_option(command, "--base-member", options->base, "with the base");
  add_member_option(command, "--query-member", options->queries, "with the queries");
  add_input_format_option(command, common, options->input_format, {"BASE", "--queries"}, dataset_formats());
  add_execution_options(command, common);
  About& about = common.about(command);
  about.details = {
      "Trains a quantizer on BASE, encodes all rows and prints bytes, reconstruction error and, with "
      "--queries, "
      "what ranking by codes alone finds of the exact neighbours. Codes are the same bits for any number of "
      "threads. On the CPU only."};
  about.paragraphs = {
      {"Reconstruction error",
       "sum of |x - decoded x|^2 over that of |x - mean|^2: 0 is exact, 1 as good as the mean "
       "alone."}};
  about.examples = {
      {"kith codes base.fvecs --bits 4 --queries queries.fvecs",
       "RaBitQ, 4 bits a dimension, and its recall."},
      {"kith codes base.fvecs --kind pq --subspaces 16 -o pq.kith --codes codes.npy",
       "Product quantization: 16 bytes a row, kept."},
      {"kith codes base.npy --kind scalar --bits 4 --json", "Two values a byte, for a program."}};
}

}  // namespace kith::cli
