// kith devices: where searches can run, and what work takes there.
#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commands.hpp"
#include "kith/calibration.hpp"
#include "run.hpp"
#include "units.hpp"

namespace kith::cli {
namespace {

struct Options {
  bool calibrate = false;
};

bool is_of(const Calibration& calibration, const DeviceInfo& info) {
  return calibration.device == info.device.kind && calibration.model == info.description &&
         calibration.cores == info.cores;
}

// What measured it.
std::string measured_by(const Calibration& c) {
  const std::string& set = c.instruction_set;
  return c.device == Device::Kind::cpu ? fmt::format("{}, {}", set, plural(c.threads, "thread")) : set;
}

void list_devices(const Common& common) {
  const auto list = devices();
  std::string problem;
  const auto calibrations = known_calibrations(&problem);
  if (common.json) {
    nlohmann::json array = nlohmann::json::array();
    for (const DeviceInfo& info : list) {
      nlohmann::json its = nlohmann::json::array();
      for (const Calibration& c : calibrations) {
        if (is_of(c, info)) its.push_back(nlohmann::json::parse(to_json(c)));
      }
      array.push_back({{"device", name(info.device)},
                       {"description", info.description},
                       {"memory_bytes", info.memory_bytes},
                       {"cores", info.cores},
                       {"instruction_sets", info.instruction_sets},
                       {"usable", info.usable},
                       {"note", info.note},
                       {"calibrations", std::move(its)}});
    }
    nlohmann::json object = {{"devices", array}};
    if (!problem.empty()) object["calibration_problem"] = problem;
    print_json(object);
    return;
  }
  print(fmt::format("{:<8} {:<10} {:>6}  {}\n", "device", "memory", "cores", "model"));
  for (const DeviceInfo& info : list) {
    print(fmt::format("{:<8} {:<10} {:>6}  {}\n", name(info.device),
                      format_bytes(static_cast<double>(info.memory_bytes)), info.cores, info.description));
    if (!info.instruction_sets.empty()) {
      print(fmt::format("{:<8} kernel paths, best first: {}\n", "", info.instruction_sets));
    }
    if (!info.usable) print(fmt::format("{:<8} not usable: {}\n", "", info.note));
    for (const Calibration& c : calibrations) {
      if (!is_of(c, info)) continue;
      print(fmt::format("{:<8} calibrated {}: {}\n", "", c.date, measured_by(c)));
    }
  }
  if (!problem.empty()) note(common, problem + "; choices go by built-in figures");
}

// What the names of named() stand for.
std::string_view meaning(std::string_view name) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 16> meanings = {
      {{"int8", "a multiply-add of 8-bit codes"},
       {"int7", "of 7-bit codes"},
       {"fp16", "of float16 codes"},
       {"fp32", "of float32 codes"},
       {"exact_value", "an exact distance, a value"},
       {"exact_row", "and its row"},
       {"directions", "finding directions, a cube of the dimension"},
       {"projection", "a coordinate along one, a value"},
       {"scan_few", "one query, brute force, a row of 3 values"},
       {"scan", "a query of many, brute force, 3 values"},
       {"scan_values", "the same, 256 values"},
       {"tree_build", "building a k-d tree, a point"},
       {"tree_search", "a query of many in it"},
       {"graph_build", "building a graph, a row of 128 values"},
       {"graph_search", "a query of many in it"},
       {"launch", "a search with next to nothing to do"}}};
  const auto* const found =
      std::find_if(meanings.begin(), meanings.end(), [&](const auto& m) { return m.first == name; });
  return found == meanings.end() ? name : found->second;
}

void show(const Calibration& c) {
  const bool cpu = c.device == Device::Kind::cpu;
  print(fmt::format("{}, {}, {} {}\n", c.model, measured_by(c), c.cores, cpu ? "cores" : "multiprocessors"));
  if (cpu) print(fmt::format("  {:<46} {:>10.4g} GB/s\n", "reading memory", c.bandwidth / 1e9));
  for (const auto& [name, time] : named(c.times, c.device)) {
    print(fmt::format("  {:<46} {:>10.4g} ns\n", meaning(name), time));
  }
}

void run_calibration(const Common& common) {
  const std::filesystem::path file = calibration_file();
  const Calibration done = run_cancellable(common, make_execution(common),
                                           [&](const Execution& how) { return calibrate(file, how); });
  if (common.json) {
    print_json({{"file", file.string()}, {"calibration", nlohmann::json::parse(to_json(done))}});
    return;
  }
  show(done);
  note(common, fmt::format("kept in '{}'; automatic choices on this machine go by it", file.string()));
}

}  // namespace

void add_devices(CLI::App& app, Common& common) {
  auto options = std::make_shared<Options>();
  CLI::App& command = add_command(
      app, common, "devices", "List the processors and GPUs Kith can use",
      [options, &common] { options->calibrate ? run_calibration(common) : list_devices(common); });
  CLI::Option* calibrate = command.add_flag(
      "--calibrate", options->calibrate,
      "Measure what work takes on this processor, some ten seconds on two cores, or on a GPU, and keep it: "
      "which filter, and with --index auto which index, is quickest is then chosen by its figures in place "
      "of built-in ones. Best when nothing else runs");
  common
      .choice(command.add_option("--device", common.device, "With --calibrate: what to measure")
                  ->type_name("DEVICE"),
              {{"cpu", "the processor"}, {"cuda", "GPU 0; cuda:1 names another"}}, false)
      ->capture_default_str()
      ->needs(calibrate);
  command
      .add_option("--threads", common.threads,
                  "With --calibrate: threads to measure with; 0 means one per core this process may use")
      ->type_name("N")
      ->capture_default_str()
      ->needs(calibrate);
  common.about(command).details = {
      "The first column is what --device takes. The processor's kernel path is chosen at run time; the "
      "environment variable KITH_INSTRUCTION_SET forces another one of those listed.",
      "A calibration is of one instruction set, the one in use, and one number of threads, or of one model "
      "of GPU. It is kept in ~/.cache/kith/calibration.json ($XDG_CACHE_HOME), or in the file that the "
      "environment variable KITH_CALIBRATION names; KITH_CALIBRATION=off leaves it aside. Exact answers do "
      "not depend on it."};
  common.about(command).examples = {
      {"kith devices", "Shows them as a table."},
      {"kith devices --json", "Shows them to a program."},
      {"kith devices --calibrate", "Measures the processor, so that choices suit it."},
      {"kith devices --calibrate --device cuda", "Measures the first GPU."}};
}

}  // namespace kith::cli
