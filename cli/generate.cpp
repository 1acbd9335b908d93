// kith generate: seeded datasets to try things with.
#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commands.hpp"
#include "input.hpp"
#include "interrupt.hpp"
#include "progress.hpp"
#include "stream.hpp"
#include "units.hpp"

namespace kith::cli {
namespace {

struct Options {
  std::string kind;
  std::string dtype;
  std::string output;
  std::string format;
  GenerateParameters parameters;
  // Which generator each of the special options belongs to, and the option itself.
  std::vector<std::pair<Generator, CLI::Option*>> special;
};

void run(const Common& common, Options& options) {
  options.output = output_path(common, options.output);
  check_output(options.output, options.format, dataset_formats(), true);
  GenerateParameters& p = options.parameters;
  p.generator = parse_generator(options.kind);
  for (const auto& [generator, option] : options.special) {
    if (option->count() > 0 && generator != p.generator) {
      throw InvalidArgument(fmt::format("{} is for '{}', not for '{}'; leave it out", option->get_name(),
                                        name(generator), options.kind));
    }
  }
  const bool terrain = p.generator == Generator::terrain_scan;
  if (p.dim == 0) p.dim = terrain ? 3 : 128;
  p.dtype = options.dtype.empty() ? (terrain ? Dtype::f64 : Dtype::f32) : parse_dtype(options.dtype);
  Execution execution = make_execution(common);
  MemoryPlan plan(common, "generate fewer rows (-n)");
  plan.add("rows",
           static_cast<double>(p.rows) * static_cast<double>(p.dim) * static_cast<double>(size_of(p.dtype)));
  if (p.generator == Generator::clusters) {
    plan.add("centres", static_cast<double>(p.clusters) * static_cast<double>(p.dim) * 8);
  }
  if (p.generator == Generator::low_intrinsic_dimension) {
    plan.add("mapping", static_cast<double>(p.dim) * static_cast<double>(p.intrinsic_dim) * 8);
  }
  plan.check();
  ProgressBar bar(common);
  execution.progress = bar.callback();
  const CancellableScope scope;
  const Dataset data = generate(p, execution);
  stop_if_interrupted();
  bar.erase();
  write_dataset(options.output, data, {parse_format(options.format), must_stop});
  outputs_in_place();
  if (common.json) {
    print_json(nlohmann::json{{"file", options.output},
                              {"kind", options.kind},
                              {"rows", data.rows()},
                              {"dim", data.dim()},
                              {"dtype", name(data.dtype())},
                              {"seed", p.seed}});
    return;
  }
  note(common, fmt::format("wrote {}: {} x {} {}, seed {}", shown_output(options.output),
                           plural(data.rows(), "row"), data.dim(), name(data.dtype()), p.seed));
}

}  // namespace

void add_generate(CLI::App& app, Common& common) {
  auto options = std::make_shared<Options>();
  GenerateParameters& p = options->parameters;
  CLI::App& command =
      add_command(app, common, "generate", "Generate a dataset from a seed, the same on every machine",
                  [options, &common] { run(common, *options); });
  common.choice(command.add_option("KIND", options->kind, "What kind of data")->type_name("KIND")->required(),
                {{"uniform", "every value uniform in [0, 1); u8 and i8: over the whole type"},
                 {"gaussian", "every value standard normal"},
                 {"clusters", "normal clouds of different sizes around normal centres"},
                 {"low_intrinsic_dimension", "few coordinates mapped into many, with a little noise"},
                 {"terrain_scan", "3-d points of an airborne laser scan: hills, trees, roofs, in metres"}});
  command.add_option("-n,--rows", p.rows, "How many rows")->type_name("N")->required()->group("Dataset");
  command.add_option("-d,--dim", p.dim, "Values a row [default: 128; terrain_scan: 3]")
      ->type_name("D")
      ->check([](const std::string& value) {
        return value == "0" ? std::string("0: at least 1 is needed") : std::string();
      })
      ->group("Dataset");
  from_zero(command.add_option("--seed", p.seed, "The same seed gives the same data"))
      ->type_name("S")
      ->capture_default_str()
      ->group("Dataset");
  common.choice(
      command.add_option("--dtype", options->dtype, "Element type [default: f32; terrain_scan: f64]")
          ->type_name("DTYPE")
          ->group("Dataset"),
      {{"f32", ""}, {"f16", ""}, {"bf16", ""}, {"i8", ""}, {"u8", ""}, {"f64", ""}});
  command
      .add_option(
          "--first-row", p.first_row,
          "Skip this many rows: another part of the same dataset, such as queries that are not in the base")
      ->type_name("N")
      ->capture_default_str()
      ->group("Dataset");
  command.add_flag("--normalize", p.normalize, "Scale every row to length 1")->group("Dataset");
  const auto special = [&](Generator generator, CLI::Option* option) {
    option->group("Kinds");
    options->special.emplace_back(generator, option);
  };
  special(Generator::clusters, command.add_option("--clusters", p.clusters, "clusters: how many")
                                   ->type_name("N")
                                   ->capture_default_str());
  special(Generator::clusters,
          command.add_option("--spread", p.spread, "clusters: standard deviation around a centre")
              ->type_name("X")
              ->capture_default_str());
  special(Generator::low_intrinsic_dimension,
          command
              .add_option("--intrinsic-dim", p.intrinsic_dim,
                          "low_intrinsic_dimension: coordinates behind the data")
              ->type_name("N")
              ->capture_default_str());
  special(Generator::low_intrinsic_dimension,
          command.add_option("--noise", p.noise, "low_intrinsic_dimension: standard deviation of the noise")
              ->type_name("X")
              ->capture_default_str());
  special(Generator::terrain_scan,
          command.add_option("--density", p.points_per_square_metre, "terrain_scan: points a square metre")
              ->type_name("X")
              ->capture_default_str());
  special(
      Generator::terrain_scan,
      command.add_flag("--utm", p.utm,
                       "terrain_scan: at coordinates as of a UTM zone (about 500000, 5400000), which float32 "
                       "cannot tell apart"));
  common.file(
      command
          .add_option("-o,--output", options->output, "The file to write; its extension chooses the format")
          ->type_name("FILE")
          ->required()
          ->group("File"));
  auto formats = dataset_formats();
  for (auto& [format, meaning] : formats) meaning.clear();
  common.choice(command.add_option("--format", options->format, "Format of the file, whatever its extension")
                    ->type_name("FORMAT")
                    ->group("File"),
                formats);
  command
      .add_option("--threads", common.threads, "Threads to use; 0 means one per core this process may use")
      ->type_name("N")
      ->capture_default_str()
      ->group("Execution");
  command
      .add_option("--memory-limit", common.memory_limit,
                  "Refuse to start when the rows need more than this, for example 4GiB")
      ->type_name("SIZE")
      ->capture_default_str()
      ->group("Execution");
  common.about(command).details = {
      "Row i depends on the seed, the kind and its options only: more rows, more threads or another machine "
      "change nothing. For u8 and i8 a normal value v becomes round(32 v), u8 plus 128, cut to the type's "
      "range."};
  common.about(command).examples = {
      {"kith generate clusters -n 1000000 -d 96 --seed 7 -o base.fvecs", "A million rows in 100 clusters."},
      {"kith generate clusters -n 1000 -d 96 --seed 7 --first-row 1000000 -o queries.fvecs",
       "A thousand more rows of the same clusters, as queries."},
      {"kith generate terrain_scan -n 500000 --utm -o scan.las", "A laser scan in large coordinates."},
      {"kith generate uniform -n 100000 -d 128 --dtype u8 -o bytes.bvecs", "Bytes."}};
}

}  // namespace kith::cli
