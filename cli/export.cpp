// kith export: a saved graph or product quantizer as a file of another library.
#include <filesystem>
#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commands.hpp"
#include "core/stream.hpp"
#include "graphs.hpp"
#include "input.hpp"
#include "interrupt.hpp"
#include "run.hpp"
#include "stream.hpp"

namespace kith::cli {
namespace {

namespace fs = std::filesystem;

struct Options {
  std::string index;
  std::string format;
  std::string output;
};

// What an index file says it holds.
std::string type_of(const Options& options) {
  const FileInfo info = inspect(options.index);
  if (info.format == FileFormat::index) {
    for (const auto& [key, value] : info.details) {
      if (key == "index") return value;
    }
  }
  throw IoError(fmt::format("'{}' is {}, not an index; make one with kith build --index vamana",
                            shown(options.index), name(info.format)));
}

void check_fit(const Options& options, const std::string& type) {
  const bool quantizer = type == "quantizer";
  if (!quantizer && type != Vamana::index_type.name) {
    throw InvalidArgument(
        fmt::format("'{}' holds an index of type {}; other libraries' formats are for graphs (kith build "
                    "--index vamana) and "
                    "product quantizers (kith codes --kind pq)",
                    shown(options.index), type));
  }
  if (quantizer == (options.format == pq_format)) return;
  throw InvalidArgument(quantizer
                            ? fmt::format("'{}' holds a quantizer, which {} is not for; use --format {}",
                                          shown(options.index), options.format, pq_format)
                            : fmt::format("'{}' holds a graph, which {} is not for; use --format diskann, "
                                          "diskann-disk, hnswlib or faiss",
                                          shown(options.index), options.format));
}

void run(const Common& common, Options& options) {
  options.output = output_path(common, options.output);
  check_output(options.output, options.format, graph_formats(false), false);
  const bool two_files = options.format == name(GraphFormat::diskann) || options.format == pq_format;
  if (two_files && is_stream(options.output)) {
    throw InvalidArgument(
        fmt::format("cannot write to '{}': {} may be two files, and this is one stream; name a file",
                    shown_output(options.output), options.format));
  }
  std::vector<fs::path> outputs = {options.output};
  if (two_files) {
    outputs.emplace_back(options.output + (options.format == pq_format ? "_rotation_matrix.bin" : ".data"));
  }
  refuse_overwriting(outputs, {options.index});
  open_input(common, options.index);
  check_fit(options, type_of(options));
  Execution execution = make_execution(common);
  MemoryPlan plan(common, "export it where there is more memory");
  plan.add("index", static_cast<double>(inspect(options.index).bytes), shown(options.index) == options.index);
  plan.check();
  execution.memory_limit = plan.left();
  const auto files = run_cancellable(common, execution, [&](const Execution& asked) {
    Execution how = asked;
    how.cancelled = must_stop;
    auto written = options.format == pq_format
                       ? export_pq(Quantizer::load(options.index, how), options.output, how)
                       : export_graph(Vamana::load(options.index, how), options.output,
                                      parse_graph_format(options.format), how);
    outputs_in_place();
    return written;
  });
  std::vector<std::string> names;
  for (const fs::path& file : files) names.push_back(shown_output(file.string()));
  if (common.json) {
    print_json({{"files", names}, {"format", options.format}});
  } else {
    note(common, fmt::format("wrote {}", fmt::join(names, " and ")));
  }
}

}  // namespace

void add_export(CLI::App& app, Common& common) {
  auto options = std::make_shared<Options>();
  CLI::App& command = add_command(app, common, "export", "Write a saved graph as a file of another library",
                                  [options, &common] { run(common, *options); });
  add_file_argument(command, common, "INDEX", options->index,
                    "The file of a graph (kith build --index vamana, kith import) or a quantizer (kith codes "
                    "--kind pq)");
  common.choice(command.add_option("--format", options->format, "Whose file to write")
                    ->type_name("FORMAT")
                    ->required()
                    ->group("Output"),
                graph_formats(false));
  common.file(
      command
          .add_option(
              "-o,--output", options->output,
              "The file to write; diskann also writes FILE.data, diskann-pq a rotation where there is "
              "one")
          ->type_name("FILE")
          ->required()
          ->group("Output"));
  add_execution_options(command, common);
  common.about(command).details = {
      "Every row becomes a node, equal rows a chain of them. hnswlib and faiss get float32; the layers of an "
      "imported "
      "HNSW graph come with it, other graphs have one. DiskANN's index on disk is the file P_disk.index "
      "alone: it is "
      "searched together with P_pq_pivots.bin and P_pq_compressed.bin (kith codes --kind pq --codes "
      "codes.u8bin)."};
  common.about(command).examples = {
      {"kith export graph.kith --format hnswlib -o index.bin",
       "hnswlib.Index('l2', dim).load_index('index.bin')."},
      {"kith export graph.kith --format faiss -o hnsw.faiss", "faiss.read_index('hnsw.faiss')."},
      {"kith export pq.kith --format diskann-pq -o ann_pq_pivots.bin", "A quantizer for DiskANN."}};
}

}  // namespace kith::cli
