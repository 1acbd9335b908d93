// kith ladder: the searches Kith began with, rung by rung, beside the engine on this machine.
#include <algorithm>
#include <memory>
#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commands.hpp"
#include "interrupt.hpp"
#include "ladder_cases.hpp"
#include "ladder_result.hpp"
#include "measure.hpp"
#include "progress.hpp"
#include "published.hpp"
#include "stream.hpp"
#include "units.hpp"
#include "unpacked.hpp"

namespace kith::cli {
namespace {

struct LadderOptions {
  LadderCases cases;
  std::vector<std::string> rungs;
  std::string device = "auto";
  std::int64_t repeat = 7;
  bool copies = false;
  bool list = false;
  std::string output;
};

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
  ladder::ClimbOptions climbing;
  climbing.chosen = ladder::parse_rungs(options.rungs);
  if (options.list) return list_rungs(common);
  options.output = output_path(common, options.output);
  check_result_folder(options.output);
  const bool tables = !common.json && !is_standard_output(options.output);
  std::optional<UnpackedClouds> unpacked;
  if (options.cases.given()) {
    std::string& base = options.cases.base.path;
    std::string& queries = options.cases.queries.path;
    if (!options.output.empty()) refuse_overwriting({options.output}, {base, queries});
    unpacked.emplace(common, std::vector<std::string*>{&base, &queries}, options.output,
                     options.cases.input_format);
    give_rows(common, options.cases, cases.front());
  } else {
    for (const ladder::Case& c : cases) check_memory(common, c);
  }
  choose_gpus(options.device, climbing);
  const Execution execution = execution_of(options, climbing, common);
  climbing.threads = resolve_threads(execution);
  climbing.device_memory_limit = execution.device_memory_limit;
  climbing.repeat = static_cast<int>(options.repeat);
  climbing.copies = options.copies;
  climbing.cancelled = [] { return must_stop(); };

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
    stop_if_interrupted();
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
    write_result(options.output, out);
    outputs_in_place();
    note(common, fmt::format("wrote {}", shown_output(options.output)));
  }
  // A search that is not exact is a fault of this program, whatever its time.
  if (!wrong.empty()) throw std::logic_error("answers differ from the engine's:" + wrong);
  if (!below.empty()) throw std::logic_error("recall is below what the rung must reach:" + below);
}

}  // namespace

void add_ladder(CLI::App& app, Common& common) {
  auto options = std::make_shared<LadderOptions>();
  options->cases.base.default_member = "train";
  options->cases.queries.default_member = "test";
  CLI::App& command =
      add_command(app, common, "ladder", "Time the searches Kith began with, next to the engine",
                  [options, &common] { run(*options, common); });
  add_ladder_cases(command, common, options->cases);
  command
      .add_option("--rungs", options->rungs,
                  "Run only these, however long they take: numbers, ranges and names, such as 1,4-8,engine")
      ->type_name("RUNG,...")
      ->delimiter(',')
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
          "matrices of distances shrink, and rungs that need more are left out. The graph of --case graph "
          "and its codes, which its rungs share, are made before with what is free. 'none' leaves it to what "
          "is free. Refused without a GPU, but for --device auto")
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
      "the nearest rows that they find, shown as recall, must reach what is said of the rung, but for rows "
      "of yours.",
      "A time is the median of the search alone: data in place, index built. Rungs that do not fit a case, "
      "or "
      "would take more than 10 s on one core, are left out, with the reason, unless --rungs names them. "
      "Without a GPU only the rungs on the processor run."};
  common.about(command).examples = {
      {"kith ladder", "All rungs on the reports' cases."},
      {"kith ladder --case 3,1024,65536 --rungs 1-10,engine --include-copies", "One case, some rungs."},
      {"kith ladder --case tiles", "Two layers, a tree or brute force in leaves of many sizes."},
      {"kith ladder --case graph:96,1000,20000,10", "BANG and its parts on a small graph, with recall."},
      {"kith ladder --case graph --base base.u8bin --queries queries.u8bin -k 10",
       "The same on rows of bytes of your own."},
      {"kith ladder --case all -o ladder.json", "For kith report."}};
}

}  // namespace kith::cli
