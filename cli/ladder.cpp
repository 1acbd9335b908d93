// kith ladder: the searches Kith began with, rung by rung, beside the engine on this machine.
#include <algorithm>
#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commands.hpp"
#include "input.hpp"
#include "interrupt.hpp"
#include "ladder_result.hpp"
#include "measure.hpp"
#include "progress.hpp"
#include "published.hpp"
#include "stream.hpp"
#include "units.hpp"

namespace kith::cli {
namespace {

struct LadderOptions {
  std::vector<std::string> cases = {"published"};
  std::vector<std::string> rungs;
  std::string device = "auto";
  std::int64_t repeat = 7;
  std::int64_t list_size = ladder::default_list_size;
  bool list_size_named = false;
  bool copies = false;
  bool list = false;
  std::string output;
};

std::vector<ladder::Case> cases_of(const std::vector<std::string>& texts) {
  std::vector<ladder::Case> out;
  const auto add = [&](const std::vector<ladder::Case>& more) {
    out.insert(out.end(), more.begin(), more.end());
  };
  for (const std::string& text : texts) {
    if (text == "published") {
      add(ladder::published_cases());
    } else if (text == "all") {
      add(ladder::all_cases());
    } else if (text == "tiles") {
      add(ladder::tile_cases());
    } else if (text == "graph") {
      out.push_back(ladder::graph_case());
    } else {
      out.push_back(ladder::parse_case(text));
    }
  }
  return out;
}

// Worklists of the cases of graphs.
void set_list_size(std::vector<ladder::Case>& cases, const LadderOptions& options) {
  bool graphs = false;
  for (ladder::Case& c : cases) {
    if (c.list_size == 0) continue;
    graphs = true;
    if (!options.list_size_named) continue;
    if (options.list_size < c.k) {
      throw InvalidArgument(fmt::format("--list-size {}: case {} finds k = {}; use {} or more",
                                        options.list_size, c.name(), c.k, c.k));
    }
    c.list_size = options.list_size;
  }
  if (options.list_size_named && (options.list_size < 1 || options.list_size > 65'536)) {
    throw InvalidArgument(fmt::format("--list-size {}: use 1 to 65536", options.list_size));
  }
  if (options.list_size_named && !graphs) {
    throw InvalidArgument("--list-size is for cases of graphs; name one with --case graph");
  }
}

// The GPUs that take part, and why there are none.
void choose_gpus(const std::string& device, ladder::ClimbOptions& options) {
  options.no_gpus = "--device cpu";
  if (device == "cpu") return;
  if (device != "auto") {
    for (const Device& chosen : parse_devices(device)) options.gpus.push_back(chosen.ordinal);
    return;
  }
  options.no_gpus = "the driver reports none";
  for (const DeviceInfo& info : devices()) {
    if (info.device.kind != Device::Kind::cuda) continue;
    if (info.usable) {
      options.gpus.push_back(info.device.ordinal);
    } else {
      options.no_gpus = info.note;
    }
  }
  if (!options.gpus.empty()) return;
  try {
    (void)parse_devices("all");
  } catch (const DeviceError& error) {  // "no CUDA device: why; use the device cpu"
    options.no_gpus = error.what();
    const auto why = options.no_gpus.find(": ");
    const auto remedy = options.no_gpus.find(';');
    if (why < remedy) options.no_gpus = options.no_gpus.substr(why + 2, remedy - why - 2);
  }
}

// Threads, and the limit on the memory of those GPUs.
Execution execution_of(const LadderOptions& options, const ladder::ClimbOptions& climbing,
                       const Common& common) {
  if (options.device == "cpu" && common.device_memory_limit != "none") {
    throw InvalidArgument(fmt::format(
        "--device-memory-limit {} limits the memory of GPUs, and --device cpu is none; name a GPU",
        common.device_memory_limit));
  }
  Common chosen = common;
  chosen.device = options.device != "auto" ? options.device : climbing.gpus.empty() ? "auto" : "all";
  return make_execution(chosen);
}

void check_memory(const std::vector<ladder::Case>& cases, const Common& common) {
  for (const ladder::Case& c : cases) {
    MemoryPlan plan(common, "name a smaller --case");
    const double row = 4 * static_cast<double>(c.dim);
    plan.add("points", row * static_cast<double>(c.points));
    plan.add("queries", row * static_cast<double>(c.queries));
    // The engine's and a rung's, each with what the list is made from.
    plan.add("answers", 32 * static_cast<double>(c.queries) * static_cast<double>(c.k));
    if (c.list_size > 0) {  // 66 neighbours, the graph's codes, and six product quantizers' one after another
      const double codes = 2 * static_cast<double>(c.dim) + 8 + 16 + 32 + 64;
      plan.add("graph and codes", (4 * 2 * 66 + codes) * static_cast<double>(c.points));
    }
    plan.check();
  }
}

void list_rungs(const Common& common) {
  if (common.json) {
    nlohmann::ordered_json out = nlohmann::ordered_json::array();
    for (const ladder::Rung& rung : ladder::rungs()) {
      out.push_back(
          {{"number", rung.number}, {"id", rung.id}, {"title", rung.title}, {"engine", rung.engine}});
    }
    print_ordered_json({{"rungs", out}});
    return;
  }
  for (const ladder::Rung& rung : ladder::rungs()) {
    print(fmt::format("{:>3}  {:<22}{}\n", rung.number, rung.id, rung.title));
  }
}

void run(LadderOptions options, const Common& common) {
  if (options.repeat < 1 || options.repeat > 10'000) {
    throw InvalidArgument(fmt::format("--repeat {}: use 1 to 10000", options.repeat));
  }
  std::vector<ladder::Case> cases = cases_of(options.cases);
  set_list_size(cases, options);
  ladder::ClimbOptions climbing;
  climbing.chosen = ladder::parse_rungs(options.rungs);
  if (options.list) return list_rungs(common);
  options.output = output_path(common, options.output);
  check_result_folder(options.output);
  const bool tables = !common.json && !is_standard_output(options.output);
  check_memory(cases, common);
  choose_gpus(options.device, climbing);
  const Execution execution = execution_of(options, climbing, common);
  climbing.threads = resolve_threads(execution);
  climbing.device_memory_limit = execution.device_memory_limit;
  climbing.repeat = static_cast<int>(options.repeat);
  climbing.copies = options.copies;
  climbing.cancelled = [] { return interrupted(); };

  const CancellableScope scope;
  const auto machine = ladder::gpu_machine(climbing.gpus);
  const std::string commit = ladder::commit();
  nlohmann::ordered_json out = {{"schema", "kith-ladder/1"},
                                {"kith", version()},
                                {"commit", nullptr},
                                {"date", utc_now()},
                                {"command", published_command_line()},
                                {"repeat", options.repeat},
                                {"include_copies", options.copies},
                                {"machine", describe_machine()},
                                {"cases", nlohmann::ordered_json::array()}};
  if (!commit.empty()) out["commit"] = commit;
  out["machine"]["threads"] = climbing.threads;
  out["machine"]["gpu"] = ladder_gpu_json(machine);
  if (tables) {
    print(fmt::format(
        "{}, {}; {}\n", out["machine"]["cpu"].get<std::string>(), plural(climbing.threads, "thread"),
        machine ? fmt::format("{} x {}, CUDA {}", machine->count, machine->name, machine->driver)
                : "no GPU: " + climbing.no_gpus));
    print(fmt::format("published: {}\n", ladder::published_source));
  }
  std::string wrong;
  std::string below;
  ProgressBar bar(common);
  const auto report = bar.callback();
  for (std::size_t at = 0; at < cases.size(); ++at) {
    climbing.progress = [&, at](const ladder::Rung& /*rung*/, int done, int total) {
      if (!report) return;
      report({"ladder", static_cast<std::int64_t>(at) * total + done,
              static_cast<std::int64_t>(cases.size()) * total});
    };
    const ladder::Climb climb = ladder::climb(cases[at], climbing);
    bar.erase();
    out["cases"].push_back(ladder_case_json(climb, machine));
    if (tables) print(ladder_case_text(climb, machine, options.copies));
    for (const ladder::Step& step : climb.steps) {
      if (step.wrong > 0) wrong += fmt::format(" {} at {};", step.rung->id, climb.sizes.name());
      if (step.below()) {
        below += fmt::format(" {} at {}: {:.4f} in place of {:g};", step.rung->id, climb.sizes.name(),
                             step.recall, step.recall_floor);
      }
    }
  }
  if (common.json) print_ordered_json(out);
  if (!options.output.empty()) {
    write_result(options.output, out.dump(1));
    note(common, fmt::format("wrote {}", shown_output(options.output)));
  }
  // A search that is not exact is a fault of this program, whatever its time.
  if (!wrong.empty()) throw std::logic_error("answers differ from the engine's:" + wrong);
  if (!below.empty()) throw std::logic_error("recall is below what the rung must reach:" + below);
}

}  // namespace

void add_ladder(CLI::App& app, Common& common) {
  auto options = std::make_shared<LadderOptions>();
  CLI::App& command =
      add_command(app, common, "ladder", "Time the searches Kith began with, next to the engine",
                  [options, &common] { run(*options, common); });
  command
      .add_option("--case", options->cases,
                  "Sizes: DIM,QUERIES,POINTS[,K]; or published (those with published figures), all (every "
                  "combination of their sizes), tiles (two layers: best-first search, leaves of 4k to 4M "
                  "points), or graph (walks through a Vamana graph, BANG's parts one by one; "
                  "graph:DIM,QUERIES,POINTS[,K] for other sizes than graph:96,1000,100000,10); may be "
                  "repeated")
      ->type_name("CASE")
      ->allow_extra_args(false)
      ->default_str("published")
      ->group("What runs");
  command
      .add_option("--rungs", options->rungs,
                  "Run only these, however long they take: numbers, ranges and names, such as 1,4-8,engine")
      ->type_name("RUNG,...")
      ->delimiter(',')
      ->group("What runs");
  command
      .add_option("--list-size", options->list_size,
                  "Length of the worklists of --case graph; what recall a rung must reach is said of 64 and "
                  "more")
      ->type_name("L")
      ->capture_default_str()
      ->each([options](const std::string& /*text*/) { options->list_size_named = true; })
      ->group("What runs");
  command.add_flag("--list", options->list, "List the rungs and leave")->group("What runs");
  command.add_option("--repeat", options->repeat, "Timed runs of a rung, after an untimed one")
      ->type_name("N")
      ->capture_default_str()
      ->group("What runs");
  command
      .add_flag("--include-copies", options->copies,
                "Also time each rung from host memory to host memory: allocation, copies, build, search")
      ->group("What runs");
  common
      .choice(command.add_option("--device", options->device, "GPUs that take part")->type_name("DEVICE"),
              {{"auto", "every GPU that can be used"},
               {"cpu", "none: the rungs on the processor alone"},
               {"cuda", "GPU 0; cuda:1 names another, cuda:0,1 several"}},
              false)
      ->capture_default_str()
      ->group("Execution");
  command
      .add_option("--threads", common.threads,
                  "Threads of the engine on the processor; 0 means one per core. The rungs take one")
      ->type_name("N")
      ->capture_default_str()
      ->group("Execution");
  command
      .add_option(
          "--device-memory-limit", common.device_memory_limit,
          "Take no more of each GPU's memory than this, for example 8GiB or 50% of the smallest one's: "
          "matrices of distances shrink, and rungs that need more are left out. 'none' leaves it to "
          "what is free. Refused without a GPU, but for --device auto")
      ->type_name("SIZE")
      ->capture_default_str()
      ->group("Execution");
  common.file(command.add_option("-o,--output", options->output, "Write what was measured to a JSON file")
                  ->type_name("FILE")
                  ->group("Output"));
  common.about(command).details = {
      "From a serial loop through distance matrices, reductions, textures and occupancy to several GPUs, "
      "lists and trees: one idea a rung, the files in benchmarks/ladder. Every answer is compared with the "
      "engine's, indices and distances, ties included; a difference ends the command with status 70.",
      "Walks through a graph (--case graph) may miss rows: their distances must be true, and the share of "
      "the "
      "nearest rows that they find, shown as recall, must reach what is said of the rung.",
      "A time is the median of the search alone: data in place, index built. Rungs that do not fit a case, "
      "or "
      "would take more than 10 s on one core, are left out, with the reason, unless --rungs names them. "
      "Without a GPU only the rungs on the processor run."};
  common.about(command).examples = {
      {"kith ladder", "All rungs on the reports' cases."},
      {"kith ladder --case 3,1024,65536 --rungs 1-10,engine --include-copies", "One case, some rungs."},
      {"kith ladder --case tiles", "Two layers, a tree or brute force in leaves of many sizes."},
      {"kith ladder --case graph:96,1000,20000,10", "BANG and its parts on a small graph, with recall."},
      {"kith ladder --case all -o ladder.json", "For kith report."}};
}

}  // namespace kith::cli
