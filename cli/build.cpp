// kith build: makes an index once and saves it.
#include <filesystem>
#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commands.hpp"
#include "input.hpp"
#include "interrupt.hpp"
#include "progress.hpp"
#include "units.hpp"

namespace kith::cli {
namespace {

struct Options {
  Source base;
  std::string output;
  std::string index = "brute_force";
  std::string metric = "sqeuclidean";
  std::string filter = "auto";
};

void run(const Common& common, const Options& options) {
  check_output(options.output, "index", {}, false);
  Execution execution = make_execution(common);
  const Size size = peek(options.base);
  MemoryPlan plan(common);
  plan.add("base", size.bytes, size.mapped);
  plan.check();
  execution.memory_limit = plan.left();
  const Dataset base = load(options.base);

  const BruteForceParameters parameters{parse_metric(options.metric), parse_filter(options.filter)};
  ProgressBar bar(common);
  execution.progress = bar.callback();
  const CancellableScope scope;
  const AnyIndex index = AnyIndex::build(options.index, base, parameters, execution);
  stop_if_interrupted();
  index.save(options.output, execution);
  bar.erase();
  std::error_code no_file;  // a pipe has no size
  const auto size_on_disk = std::filesystem::file_size(options.output, no_file);
  const std::uint64_t file_bytes = no_file ? 0 : size_on_disk;
  if (common.json) {
    print_json(nlohmann::json{{"file", options.output},
                              {"index", index.type()},
                              {"rows", index.rows()},
                              {"dim", index.dim()},
                              {"dtype", name(index.dtype())},
                              {"metric", name(index.metric())},
                              {"bytes", file_bytes}});
    return;
  }
  note(common, fmt::format("wrote {}: {} of {} x {} {}, {}, {}", options.output, index.type(),
                           plural(index.rows(), "row"), index.dim(), name(index.dtype()),
                           name(index.metric()), format_bytes(static_cast<double>(file_bytes))));
}

}  // namespace

void add_build(CLI::App& app, Common& common) {
  auto options = std::make_shared<Options>();
  options->base.default_member = "train";
  CLI::App& command = add_command(app, common, "build", "Build an index over BASE and save it as one file",
                                  [options, &common] { run(common, *options); });
  common.file(
      command.add_option("BASE", options->base.path, "The rows to search in: a file of vectors or points")
          ->type_name("FILE")
          ->required());
  common.file(
      command.add_option("-o,--output", options->output, "The index file, written whole or not at all")
          ->type_name("FILE")
          ->required()
          ->group("Index"));
  std::vector<std::pair<std::string, std::string>> types;
  for (const std::string& type : index_types()) {
    types.emplace_back(type,
                       type == "brute_force" ? "looks at every row through the filter; always exact" : "");
  }
  common.choice(command.add_option("--index", options->index, "Kind of index")->type_name("TYPE"), types)
      ->capture_default_str()
      ->group("Index");
  add_metric_option(command, common, options->metric);
  add_filter_option(command, common, options->filter);
  command
      .add_option("--base-member", options->base.member,
                  "HDF5 files: the dataset with the base [default: train]")
      ->type_name("NAME")
      ->group("Input");
  add_execution_options(command, common);
  common.about(command).details = {
      "The file holds the rows and everything the search needs, with a checksum of each part; kith search "
      "reads it, kith info says what is inside, and every later version of Kith can open it."};
  common.about(command).examples = {
      {"kith build base.fvecs -o base.kith --metric cosine", "Builds and saves."},
      {"kith search base.kith queries.fvecs -k 10 -o answer", "Searches it."}};
}

}  // namespace kith::cli
