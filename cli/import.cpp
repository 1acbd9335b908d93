// kith import: a graph or a product quantizer of another library as an index file.
#include <filesystem>
#include <memory>
#include <numeric>
#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commands.hpp"
#include "core/atomic_file.hpp"
#include "graph_files/graph_file.hpp"
#include "graphs.hpp"
#include "index_file.hpp"
#include "input.hpp"
#include "interrupt.hpp"
#include "run.hpp"
#include "stream.hpp"
#include "units.hpp"
#include "unpacked.hpp"

namespace kith::cli {
namespace {

namespace fs = std::filesystem;

struct Options {
  std::string graph;
  Source vectors;
  std::string input_format;
  std::string format;
  std::string metric;
  std::string dtype;
  std::string labels;
  std::string output;
};

std::optional<Metric> metric_of(const Options& options) {
  if (options.metric.empty()) return std::nullopt;
  return parse_metric(options.metric);
}

std::vector<fs::path> outputs_of(const Options& options) {
  std::vector<fs::path> outputs = {options.output};
  if (!options.labels.empty()) outputs.emplace_back(options.labels);
  return outputs;
}

// Files that nobody named, and that are read.
void refuse_overwriting_beside(const Options& options, const std::vector<fs::path>& files) {
  std::vector<std::string> inputs;
  for (const fs::path& file : files) inputs.push_back(file.string());
  refuse_overwriting(outputs_of(options), inputs);
}

// What is for graphs alone is refused by name.
void import_quantizer(const Common& common, const Options& options) {
  for (const auto& [given, option] :
       {std::pair{!options.vectors.path.empty(), "--vectors"}, {!options.labels.empty(), "--labels"}}) {
    if (!given) continue;
    throw InvalidArgument(fmt::format("'{}' is a product quantizer, {} is for graphs; leave it out",
                                      shown(options.graph), option));
  }
  refuse_overwriting_beside(options, {graph_files::rotation_beside(options.graph)});
  Execution execution = make_execution(common);
  execution.memory_limit = MemoryPlan(common).left();
  const Dtype dtype = options.dtype.empty() ? Dtype::f32 : parse_dtype(options.dtype);
  const CancellableScope scope;
  execution.cancelled = must_stop;
  const Quantizer quantizer =
      import_pq(options.graph, metric_of(options).value_or(Metric::sqeuclidean), dtype, execution);
  quantizer.save(options.output, execution);
  outputs_in_place();
  if (common.json) {
    print_json({{"file", options.output},
                {"format", pq_format},
                {"kind", name(quantizer.kind())},
                {"dim", quantizer.dim()},
                {"dtype", name(quantizer.dtype())},
                {"metric", name(quantizer.metric())},
                {"code_bytes", quantizer.code_bytes()}});
    return;
  }
  note(common,
       fmt::format("wrote {}: the quantizer, pq of {} a row, dimension {} {}", shown_output(options.output),
                   plural(quantizer.code_bytes(), "byte"), quantizer.dim(), name(quantizer.dtype())));
}

void check(const Common& common, Options& options) {
  options.output = output_path(common, options.output);
  check_index_output(options.output);
  if (!options.labels.empty()) {
    options.labels = output_path(common, options.labels);
    check_output(options.labels, "", {{"npy", ""}}, false);
  }
  std::vector<std::string> inputs = {options.graph};
  if (!options.vectors.path.empty()) inputs.push_back(options.vectors.path);
  refuse_overwriting(outputs_of(options), inputs);
  if (options.output == options.labels) {
    throw InvalidArgument(fmt::format("'{}' is named for both the index and the labels; name two files",
                                      shown_output(options.output)));
  }
  if (options.graph == "-" && options.vectors.path == "-") {
    throw InvalidArgument(
        "standard input ('-') can be read only once; name a file for the graph or its rows");
  }
}

void run(const Common& common, Options& options) {
  check(common, options);
  open_input(common, options.graph);
  if (options.format == pq_format || (options.format.empty() && is_pq_pivots(options.graph))) {
    import_quantizer(common, options);
    return;
  }
  const UnpackedClouds unpacked(common, {&options.vectors.path}, options.output, options.input_format);
  GraphImport wanted{.metric = metric_of(options), .any_labels = !options.labels.empty()};
  wanted.format =
      options.format.empty() ? guess_graph_format(options.graph) : parse_graph_format(options.format);
  refuse_overwriting_beside(
      options, graph_files::files_beside(options.graph, *wanted.format, options.vectors.path.empty()));
  if (!options.dtype.empty()) wanted.dtype = parse_dtype(options.dtype);
  Execution execution = make_execution(common);
  MemoryPlan plan(common, "import it where there is more memory");
  if (options.vectors.path.empty()) {
    if (!options.vectors.member.empty() || !options.input_format.empty()) {
      throw InvalidArgument("--vectors-member and --input-format are for --vectors; name that file, too");
    }
  } else {
    open_inputs(common, {&options.vectors}, options.input_format);
    const Size size = peek(options.vectors);
    plan.add("vectors", size.bytes, size.mapped);
    plan.check();
    wanted.vectors = load(common, options.vectors);
  }
  execution.memory_limit = plan.left();
  const ImportedGraph imported = run_cancellable(
      common, execution, [&](const Execution& how) { return import_graph(options.graph, wanted, how); });
  const Vamana& index = imported.index;
  const CancellableScope scope;
  Execution saving;
  saving.cancelled = must_stop;
  CommitTogether both;
  index.save(options.output, saving);
  if (!options.labels.empty()) {
    std::vector<std::int64_t> labels = imported.labels;
    if (labels.empty()) {
      labels.resize(static_cast<std::size_t>(index.rows()));
      std::iota(labels.begin(), labels.end(), std::int64_t{0});
    }
    write_array(options.labels, labels, {FileFormat::npy, must_stop});
  }
  both.commit();
  outputs_in_place();
  if (common.json) {
    nlohmann::json object = {{"file", options.output},
                             {"format", name(imported.format)},
                             {"index", Vamana::index_type.name},
                             {"rows", index.rows()},
                             {"dim", index.dim()},
                             {"dtype", name(index.dtype())},
                             {"metric", name(index.metric())},
                             {"max_degree", index.parameters().max_degree},
                             {"recall_curve", to_json(index.recall_curve())}};
    if (!options.labels.empty()) object["labels"] = options.labels;
    print_json(object);
    return;
  }
  note(common,
       fmt::format("wrote {}: a graph of {}, {} x {} {}, {}, up to {} a row", shown_output(options.output),
                   name(imported.format), plural(index.rows(), "row"), index.dim(), name(index.dtype()),
                   name(index.metric()), plural(index.parameters().max_degree, "neighbour")));
}

}  // namespace

void add_import(CLI::App& app, Common& common) {
  auto options = std::make_shared<Options>();
  options->vectors.default_member = "train";
  CLI::App& command =
      add_command(app, common, "import", "Make an index of a graph that another library built",
                  [options, &common] { run(common, *options); });
  add_file_argument(command, common, "GRAPH", options->graph,
                    "The graph: DiskANN's in memory or on disk, hnswlib's, faiss's IndexHNSWFlat, BANG's "
                    "P_disk.bin; or DiskANN's P_pq_pivots.bin");
  add_index_output_option(command, common, options->output);
  common.choice(command.add_option("--format", options->format, "Whose file it is [default: by its content]")
                    ->type_name("FORMAT")
                    ->group("Graph"),
                graph_formats(true));
  common.file(
      command
          .add_option("--vectors", options->vectors.path,
                      "The rows, in the order of the graph's nodes [default: those in the file, or in "
                      "GRAPH.data]")
          ->type_name("FILE")
          ->group("Graph"));
  common.choice(command
                    .add_option("--metric", options->metric,
                                "Distance to search by [default: what the file says, else sqeuclidean]")
                    ->type_name("METRIC")
                    ->group("Graph"),
                {{"sqeuclidean", ""}, {"euclidean", ""}, {"inner_product", ""}, {"cosine", ""}});
  common.choice(command
                    .add_option("--dtype", options->dtype,
                                "Element type of the rows in the file, where it says none [default: f32]")
                    ->type_name("DTYPE")
                    ->group("Graph"),
                {{"f32", ""}, {"f16", ""}, {"i8", ""}, {"u8", ""}});
  common.file(
      command
          .add_option("--labels", options->labels,
                      "hnswlib: take labels of any values; rows are in their order, and this npy gets the "
                      "label of each")
          ->type_name("FILE")
          ->group("Graph"));
  add_member_option(command, "--vectors-member", options->vectors, "with the rows");
  add_input_format_option(command, common, options->input_format, {"--vectors"}, dataset_formats());
  add_execution_options(command, common);
  About& about = common.about(command);
  about.details = {
      "The graph stays as it is: each row a node with the neighbours it had. Codes are made and recall is "
      "measured as "
      "kith build does it, so that kith search takes --recall; what kith export writes of it again has the "
      "same "
      "neighbours. A walk begins where the other library's begins; of HNSW at nodes of the upper layers, "
      "too."};
  about.examples = {
      {"kith import index.bin -o graph.kith --metric cosine", "A file of hnswlib."},
      {"kith import hnsw.faiss -o graph.kith", "faiss says the metric itself."},
      {"kith import ann -o graph.kith --vectors base.fvecs", "DiskANN's graph over rows of another file."},
      {"kith import ann_pq_pivots.bin -o pq.kith", "The quantizer of a DiskANN index."}};
}

}  // namespace kith::cli
