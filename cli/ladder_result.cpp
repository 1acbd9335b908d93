// What kith ladder found, for programs and for people.
#include "ladder_result.hpp"

#include <cmath>
#include <map>
#include <vector>

#include <fmt/format.h>

#include "published.hpp"
#include "units.hpp"

namespace kith::cli {
namespace {

using ladder::Climb;
using ladder::Hardware;
using ladder::Published;
using ladder::Step;
using ordered_json = nlohmann::ordered_json;

ordered_json number_or_null(double value) {
  return std::isfinite(value) ? ordered_json(value) : ordered_json(nullptr);
}
ordered_json text_or_null(const std::string& text) {
  return text.empty() ? ordered_json(nullptr) : ordered_json(text);
}

const char* hardware_name(Hardware hardware) {
  switch (hardware) {
    case Hardware::cpu: return "cpu";
    case Hardware::gpu: return "gpu";
    case Hardware::gpus: return "gpus";
  }
  return "";
}

bool same_case(const Published& p, const ladder::Case& c) {
  return c.list_size == 0 && p.dim == c.dim && p.queries == c.queries && p.points == c.points && p.k == c.k;
}

// The published figure of a rung; null where there is none.
const Published* published_of(const ladder::Case& sizes, int rung) {
  for (const Published& entry : ladder::published()) {
    if (same_case(entry, sizes) && entry.rung == rung) return &entry;
  }
  return nullptr;
}

ordered_json step_json(const Step& step, const ladder::Case& sizes) {
  const bool ran = step.skipped.empty();
  const Published* theirs = published_of(sizes, step.rung->number);
  return {{"number", step.rung->number},
          {"id", step.rung->id},
          {"title", step.rung->title},
          {"device", hardware_name(step.rung->hardware)},
          {"engine", step.rung->engine},
          {"devices", step.devices},
          {"ms", number_or_null(step.ms)},
          {"min_ms", number_or_null(step.min_ms)},
          {"max_ms", number_or_null(step.max_ms)},
          {"runs", step.runs},
          {"ms_with_copies", number_or_null(step.ms_with_copies)},
          {"build_ms", number_or_null(step.build_ms)},
          {"checked", ran ? ordered_json(step.wrong == 0 && !step.below()) : ordered_json(nullptr)},
          {"wrong", step.wrong},
          {"recall", number_or_null(step.recall)},
          {"recall_floor", number_or_null(step.recall_floor)},
          {"skipped", text_or_null(step.skipped)},
          {"fallback", text_or_null(step.fallback)},
          {"published_ms", theirs != nullptr ? ordered_json(theirs->ms) : ordered_json(nullptr)},
          {"published_what", theirs != nullptr ? ordered_json(theirs->what) : ordered_json(nullptr)},
          {"published_source",
           theirs != nullptr ? ordered_json(ladder::published_source) : ordered_json(nullptr)}};
}

std::optional<ladder::Floor> floor_of(const ladder::Case& c,
                                      const std::optional<ladder::GpuMachine>& machine) {
  if (!machine) return {};
  return ladder::float32_floor({c.dim, c.queries, c.points, c.k, nullptr, nullptr}, *machine);
}

// --- text

// Three digits, and thousandths of a millisecond at most.
std::string milliseconds(double value) {
  if (!std::isfinite(value)) return "";
  if (value >= 1000) return format_count(static_cast<std::int64_t>(std::llround(value)));
  return fmt::format("{:.{}f}", value, value >= 100 ? 1 : (value >= 10 ? 2 : 3));
}

std::string milliseconds(const std::vector<double>& values) {
  std::string out;
  for (const double value : values) {
    out += (out.empty() ? "" : " / ") + (value >= 1000 ? milliseconds(value) : fmt::format("{:g}", value));
  }
  return out;
}

// "2-10, 16": numbers that follow one another as ranges.
std::string ranges(const std::vector<int>& numbers) {
  std::string out;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t last = i;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    out += (out.empty() ? "" : ", ") + std::to_string(numbers[i]);
    if (last > i) out += (last > i + 1 ? "-" : ", ") + std::to_string(numbers[last]);
    i = last + 1;
  }
  return out;
}

std::string row(const Step& step, const ladder::Case& sizes, bool copies) {
  const Published* theirs = published_of(sizes, step.rung->number);
  const std::string where = step.rung->hardware == Hardware::cpu   ? "CPU"
                            : step.rung->hardware == Hardware::gpu ? "GPU"
                                                                   : plural(step.devices, "GPU");
  std::string out = fmt::format("{:>3}  {:<38}{:<7}{:>11}", step.rung->number, step.rung->title, where,
                                milliseconds(step.ms));
  if (copies) out += fmt::format("{:>13}", milliseconds(step.ms_with_copies));
  if (sizes.list_size > 0) {
    const double rate = static_cast<double>(sizes.queries) / step.ms * 1e3;
    out += fmt::format("{:>12}{:>9.4f}", format_count(std::llround(rate)), step.recall);
    if (step.below()) out += fmt::format("  BELOW {:g}", step.recall_floor);
  } else {
    out += fmt::format("{:>11}  {}", milliseconds(step.build_ms),
                       theirs != nullptr ? milliseconds(theirs->ms) : "");
  }
  if (step.wrong > 0) out += fmt::format("  WRONG: {} cells", format_count(step.wrong));
  while (out.ends_with(' ')) out.pop_back();
  return out + "\n";
}

std::string data_of(const Climb& climb) {
  if (const ladder::GivenRows* given = climb.sizes.given.get()) {
    return fmt::format("rows of {}, queries of {}, bytes (u8): float32 sums of their squares are exact",
                       given->points_file, given->queries_file);
  }
  return fmt::format("{} whole numbers from 0 to {}: float32 sums of their squares are exact",
                     climb.sizes.list_size > 0 ? "a mixture of 200 clusters, like embeddings, in" : "uniform",
                     climb.largest);
}

ordered_json graph_json(const Climb& climb) {
  if (climb.sizes.list_size == 0) return nullptr;
  return {{"list_size", climb.sizes.list_size},
          {"degree", climb.degree},
          {"build_ms", climb.graph_ms},
          {"hash", fmt::format("{:016x}", climb.graph_hash)}};
}

ordered_json files_json(const Climb& climb) {
  const ladder::GivenRows* given = climb.sizes.given.get();
  if (given == nullptr) return nullptr;
  return {
      {"base", given->points_file}, {"queries", given->queries_file}, {"dtype", name(given->points.dtype())}};
}

const Step* fastest(const Climb& climb, bool engine) {
  const Step* best = nullptr;
  for (const Step& step : climb.steps) {
    if (step.rung->engine != engine || !std::isfinite(step.ms) || step.wrong > 0 || step.below()) {
      continue;
    }
    if (best == nullptr || step.ms < best->ms) best = &step;
  }
  return best;
}

}  // namespace

ordered_json ladder_case_json(const Climb& climb, const std::optional<ladder::GpuMachine>& machine) {
  const ladder::Case& c = climb.sizes;
  const auto floor = floor_of(c, machine);
  ordered_json out = {{"name", c.name()},
                      {"dim", c.dim},
                      {"queries", c.queries},
                      {"points", c.points},
                      {"k", c.k},
                      {"data", data_of(climb)},
                      {"files", files_json(climb)},
                      {"floor_ms", floor ? ordered_json(floor->ms) : ordered_json(nullptr)},
                      {"floor_by", floor ? ordered_json(floor->by_bandwidth ? "bandwidth" : "arithmetic")
                                         : ordered_json(nullptr)},
                      {"graph", graph_json(climb)},
                      {"rungs", ordered_json::array()},
                      {"published", ordered_json::array()}};
  for (const Step& step : climb.steps) out["rungs"].push_back(step_json(step, c));
  for (const Published& entry : ladder::published()) {
    if (!same_case(entry, c)) continue;
    out["published"].push_back({{"rung", entry.rung > 0 ? ordered_json(entry.rung) : ordered_json(nullptr)},
                                {"what", entry.what},
                                {"ms", entry.ms},
                                {"source", ladder::published_source}});
  }
  return out;
}

ordered_json ladder_gpu_json(const std::optional<ladder::GpuMachine>& machine) {
  if (!machine) return nullptr;
  const auto known = [](double value) { return value > 0 ? ordered_json(value) : ordered_json(nullptr); };
  return {{"name", machine->name},
          {"count", machine->count},
          {"driver", machine->driver},
          {"runtime", machine->runtime},
          {"compute_capability", machine->compute_capability},
          {"multiprocessors", machine->multiprocessors},
          {"clock_mhz", machine->clock_mhz},
          {"memory_bytes", machine->memory_bytes},
          {"bandwidth_gbs", known(machine->bandwidth_gbs)},
          {"fp32_gflops", known(machine->fp32_gflops)}};
}

std::string ladder_case_text(const Climb& climb, const std::optional<ladder::GpuMachine>& machine,
                             bool copies) {
  const ladder::Case& c = climb.sizes;
  std::string out = fmt::format("\n{}, {}, {}, k = {}\n", plural(c.dim, "dimension"),
                                plural(c.queries, "query", "queries"), plural(c.points, "point"), c.k);
  const bool graph = c.list_size > 0;
  if (graph) {
    out += fmt::format("{}; lists of {}, graph of {} neighbours built in {} ms\n", data_of(climb),
                       c.list_size, climb.degree, milliseconds(climb.graph_ms));
  }
  out += fmt::format("{:>3}  {:<38}{:<7}{:>11}{}{:>11}  {}\n", "", "rung", "on", "ms",
                     copies ? fmt::format("{:>13}", "with copies") : "", graph ? " queries/s" : "build ms",
                     graph ? " recall" : "published ms");
  std::map<std::string, std::vector<int>> left_out;
  std::string notes;
  for (const Step& step : climb.steps) {
    if (!step.skipped.empty()) {
      // Those not asked for are no news.
      if (step.skipped != "not among --rungs") left_out[step.skipped].push_back(step.rung->number);
      continue;
    }
    out += row(step, c, copies);
    if (!step.fallback.empty()) notes += fmt::format("  {}: {}\n", step.rung->number, step.fallback);
  }
  if (const auto floor = floor_of(c, machine)) {
    out += fmt::format("{:>3}  {:<45}{:>11}\n", "", "float32 floor of one GPU", milliseconds(floor->ms));
  }
  for (const Published& entry : ladder::published()) {
    if (!same_case(entry, c)) continue;
    notes += fmt::format("  published{}: {} ms, {}\n", entry.rung > 0 ? fmt::format(" {}", entry.rung) : "",
                         milliseconds(entry.ms), entry.what);
  }
  out += notes;
  for (const auto& [reason, numbers] : left_out)
    out += fmt::format("  left out {}: {}\n", ranges(numbers), reason);
  const Step* ours = fastest(climb, true);
  const Step* theirs = fastest(climb, false);
  if (!graph && ours != nullptr && theirs != nullptr) {  // of graphs each has its own recall
    const double ratio = theirs->ms / ours->ms;
    out += ratio >= 1
               ? fmt::format("  the engine (rung {}) is the fastest: {:.1f} times as fast as rung {}\n",
                             ours->rung->number, ratio, theirs->rung->number)
               : fmt::format("  rung {} is the fastest: {:.1f} times as fast as the engine (rung {})\n",
                             theirs->rung->number, 1 / ratio, ours->rung->number);
  }
  return out;
}

}  // namespace kith::cli
