// kith insert: further rows into a saved graph.
#include <filesystem>
#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commands.hpp"
#include "index_file.hpp"
#include "interrupt.hpp"
#include "progress.hpp"
#include "stream.hpp"
#include "units.hpp"
#include "unpacked.hpp"

namespace kith::cli {
namespace {

struct Options {
  std::string index;
  Source rows;
  std::string input_format;
  std::string output;
};

void run(const Common& common, Options& options) {
  options.output = output_path(common, options.output);
  check_index_output(options.output);
  refuse_overwriting({options.output}, {options.index, options.rows.path});
  const UnpackedClouds unpacked(common, {&options.rows.path}, options.output, options.input_format);
  const FileInfo info = open_index(common, options.index, options.rows, options.input_format);
  const Size size = peek(options.rows);
  MemoryPlan plan(common, "insert fewer rows at a time, or build the index anew");
  plan.add("index", static_cast<double>(info.bytes), shown(options.index) == options.index);
  plan.add("rows", size.bytes, size.mapped);
  plan.check();
  Dataset rows = load(common, options.rows);
  Execution execution = make_execution(common);
  execution.memory_limit = plan.left();
  ProgressBar bar(common);
  execution.progress = bar.callback();
  const CancellableScope scope;
  const AnyIndex any = AnyIndex::load(options.index, execution);
  const Vamana& index = graph_of(any, options.index, "takes further rows; build the others anew");
  plan.add("codes and graph", static_cast<double>(index.memory_bytes()));
  execution.memory_limit = plan.left();
  rows = as_the_index(common, rows, index.dtype(), "rows", "inserted");
  const Vamana more = index.insert(rows, execution);
  stop_if_interrupted();
  execution.cancelled = must_stop;
  more.save(options.output, execution);
  outputs_in_place();
  bar.erase();
  if (common.json) {
    print_json({{"file", options.output},
                {"index", Vamana::index_type.name},
                {"rows", more.rows()},
                {"inserted", more.rows() - index.rows()},
                {"dim", more.dim()},
                {"dtype", name(more.dtype())},
                {"metric", name(more.metric())},
                {"recall_curve", to_json(more.recall_curve())}});
    return;
  }
  note(common,
       fmt::format("wrote {}: {} more, now {} of dimension {}", shown_output(options.output),
                   plural(more.rows() - index.rows(), "row"), plural(more.rows(), "row"), more.dim()));
}

}  // namespace

void add_insert(CLI::App& app, Common& common) {
  auto options = std::make_shared<Options>();
  options->rows.default_member = "train";
  CLI::App& command = add_command(app, common, "insert", "Insert further rows into a saved graph",
                                  [options, &common] { run(common, *options); });
  add_file_argument(command, common, "INDEX", options->index, "A graph that kith build --index vamana wrote");
  add_file_argument(command, common, "ROWS", options->rows.path, "The rows to insert, of the same dimension");
  add_index_output_option(command, common, options->output, "The new index file");
  add_member_option(command, "--member", options->rows, "with the rows");
  add_input_format_option(command, common, options->input_format, {"ROWS"}, dataset_formats());
  add_execution_options(command, common);
  common.about(command).details = {
      "Row numbers go on from those of the index. The graph that comes of it is the same for any number of "
      "threads, and its recall is measured again. The codes of the first build are kept: rows of another "
      "kind "
      "than those it was built over, for inner_product also any that are longer, are refused with the advice "
      "to "
      "build anew."};
  common.about(command).examples = {
      {"kith insert graph.kith more.fvecs -o larger.kith", "Writes a graph over both."}};
}

}  // namespace kith::cli
