// kith shard: rows into a folder of several indexes.
#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commands.hpp"
#include "index_file.hpp"
#include "input.hpp"
#include "interrupt.hpp"
#include "kith/sharded.hpp"
#include "run.hpp"
#include "stream.hpp"
#include "tiles.hpp"
#include "tree.hpp"
#include "units.hpp"
#include "unpacked.hpp"

namespace kith::cli {
namespace {

namespace fs = std::filesystem;

struct Options {
  std::vector<std::string> bases;
  Source base;
  std::string input_format;
  std::string output;
  std::int64_t shards = 0;
  IndexOptions index;
  std::string metric = "sqeuclidean";
  std::string filter = "auto";
  std::string partition = "auto";
};

// What only a reader of whole files knows: a format that the file does not tell, a member of an HDF5 file.
bool needs_reader(const Source& source) {
  if (!source.member.empty()) return true;
  if (!source.format) return false;
  try {
    return *source.format != guess_format(source.path);
  } catch (const Error&) {
    return true;
  }
}

Sharded build(const Common& common, const Options& options, std::vector<Source>& sources,
              const ShardedParameters& parameters) {
  MemoryPlan plan(common, "make more shards (-n)");
  std::vector<fs::path> paths;
  for (const Source& source : sources) {
    paths.emplace_back(source.path);
    if (sources.size() > 1 && needs_reader(source)) {
      throw InvalidArgument(
          fmt::format("'{}' does not tell its format, or a member of it is named, and there are {} files; of "
                      "several each must tell its own: convert it first (kith convert)",
                      shown(source.path), sources.size()));
    }
  }
  const PatientScope patient;
  const auto run = [&](const auto& make) {
    return run_cancellable(common, make_execution(common), [&](const Execution& given) {
      Execution execution = given;
      execution.memory_limit = plan.left();
      Sharded made = make(execution);
      outputs_in_place();
      return made;
    });
  };
  if (!needs_reader(sources.front())) {
    return run([&](const Execution& execution) {
      return Sharded::build(options.output, paths, parameters, execution);
    });
  }
  const Size size = peek(sources.front());
  plan.add("base", size.bytes, size.mapped);
  plan.check();
  const Dataset rows = load(common, sources.front());
  return run([&](const Execution& execution) {
    return Sharded::build(options.output, rows.view(), parameters, execution);
  });
}

void run(const Common& common, Options& options) {
  check_index_options(options.index);
  if (options.shards < 1) throw InvalidArgument(fmt::format("-n {}: use 1 or more", options.shards));
  if (options.output == "-" || is_standard_output(options.output)) {
    throw InvalidArgument("shards are a folder and cannot go to standard output; name one with -o");
  }
  const UnpackedClouds unpacked(common, options.bases, options.output, options.input_format);
  std::vector<Source> sources;
  for (const std::string& path : options.bases) {
    sources.push_back(options.base);
    sources.back().path = path;
  }
  std::vector<Source*> opened;
  for (Source& source : sources) opened.push_back(&source);
  open_inputs(common, opened, options.input_format);
  note_resumption(common, options.output);

  Size all;
  for (const Source& source : sources) {
    const Size size = peek(source);
    all.rows += size.rows;
    all.row_elements = size.row_elements;
  }
  const Metric metric = parse_metric(options.metric);
  const auto rows_a_shard = static_cast<std::int64_t>(all.rows) / options.shards;
  // How many queries are to come is not known: many, for the 10 nearest rows.
  const IndexChoice choice =
      resolve_index(options.index, rows_a_shard, static_cast<std::int64_t>(all.row_elements), 0, 10, metric,
                    make_execution(common));
  const Sharded shards =
      build(common, options, sources,
            {make_parameters(choice.index, metric, options.index, parse_filter(options.filter)),
             options.shards, parse_partition(options.partition)});
  const bool chosen = options.index.index == "auto";
  if (chosen) note_choice(common, {choice.index, 0, choice.reason});
  if (common.json) {
    nlohmann::json object = {{"file", options.output},        {"index", shards.index_type().name},
                             {"shards", shards.shards()},     {"partition", name(shards.partition())},
                             {"rows", shards.rows()},         {"dim", shards.dim()},
                             {"dtype", name(shards.dtype())}, {"metric", name(shards.metric())},
                             {"bytes", shards.bytes()}};
    if (chosen) object["reason"] = choice.reason;
    print_json(object);
    return;
  }
  note(common,
       fmt::format("wrote {}: {} of {} by {}, {} x {} {}, {}, {}", options.output,
                   plural(shards.shards(), "shard"), shards.index_type().name, name(shards.partition()),
                   plural(shards.rows(), "row"), shards.dim(), name(shards.dtype()), name(shards.metric()),
                   format_bytes(static_cast<double>(shards.bytes()))));
}

}  // namespace

void add_shard(CLI::App& app, Common& common) {
  auto options = std::make_shared<Options>();
  options->base.default_member = "train";
  CLI::App& command =
      add_command(app, common, "shard", "Divide BASE among several indexes in a folder, searched as one",
                  [options, &common] { run(common, *options); });
  common.file(command
                  .add_option("BASE", options->bases,
                              "The rows to search in: one or more files of vectors or points, which are one "
                              "dataset")
                  ->type_name("FILE")
                  ->required());
  add_index_output_option(command, common, options->output, "The folder of shards");
  command.add_option("-n,--shards", options->shards, "How many, of about equally many rows each")
      ->type_name("N")
      ->required()
      ->group("Index");
  common
      .choice(command.add_option("--partition", options->partition, "How rows are divided among shards")
                  ->type_name("PARTITION"),
              {{"auto", "space for trees, else rows"},
               {"rows", "those of a shard follow each other"},
               {"space",
                "those of a shard lie in one part of space, so that a query needs few shards; up to 16 "
                "dimensions; sqeuclidean, euclidean, manhattan"}})
      ->capture_default_str()
      ->group("Index");
  options->index.index = "brute_force";
  add_any_index_options(command, common, options->index);
  add_graph_options(command, options->index);
  add_metric_option(command, common, options->metric);
  add_filter_option(command, common, options->filter);
  options->index.filter = command.get_option("--filter");
  add_member_option(command, "--base-member", options->base, "with the base");
  add_input_format_option(command, common, options->input_format, {"BASE"}, dataset_formats());
  add_execution_options(command, common);
  common.about(command).details = {
      "One shard after the other is read, built and saved, so that no more than the rows of one are in "
      "memory, or of as many as a quarter of --memory-limit holds where rows are divided by space; "
      "only HDF5 and compressed PCD files, and a file whose format is named, are held whole. The folder "
      "appears "
      "whole or not at all, and replaces an older one of shards; what is killed goes on where it was when "
      "the "
      "same is run again.",
      "kith search, kith radius (trees), kith info and kith verify take the folder. Shards of exact types "
      "give "
      "the answer of one index, bit by bit; graphs each find the share that is asked for, and so do they "
      "together (docs/shards.md). Within --memory-limit a search opens one shard after the other where not "
      "all "
      "have room."};
  common.about(command).examples = {
      {"kith shard base.fbin -n 8 -o base.shards --index vamana", "Eight graphs, built one by one."},
      {"kith search base.shards queries.fbin -k 10 --recall 0.95 -o answer", "Searches them."},
      {"kith shard north.npy south.npy -n 4 -o county.shards --memory-limit 2GiB",
       "Two files as one dataset, in no more memory than that."}};
}

}  // namespace kith::cli
