// Shared options and output.
#include "common.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "interrupt.hpp"
#include "suggest.hpp"
#include "units.hpp"

namespace kith::cli {

CLI::Option* Common::file(CLI::Option* option) {
  options[option].completes = OptionAbout::Completes::file;
  option->check([](const std::string& value) {
    return value.empty() ? std::string("the name is empty; name a file") : std::string();
  });
  return option;
}

CLI::Option* Common::choice(CLI::Option* option,
                            const std::vector<std::pair<std::string, std::string>>& choices, bool closed) {
  OptionAbout& about = options[option];
  about.completes = OptionAbout::Completes::choice;
  about.choices = choices;
  if (!closed) return option;
  option->check([choices](const std::string& value) {
    std::vector<std::string> names;
    std::string list;
    for (const auto& [name, explanation] : choices) {
      if (value == name) return std::string();
      names.push_back(name);
      list += (list.empty() ? "" : ", ") + name;
    }
    return fmt::format("'{}' is not one of {}{}", value, list, did_you_mean(value, names));
  });
  return option;
}

CLI::App& add_command(CLI::App& app, Common& common, const std::string& name, const std::string& summary,
                      std::function<void()> run) {
  CLI::App& command = *app.add_subcommand(name, summary);
  command.set_help_flag("-h,--help", "Show this help and leave");
  command.add_flag("--json", common.json,
                   "Print the result as JSON on stdout, and a failure as {\"error\": ...} on stderr");
  command.add_flag("-q,--quiet", common.quiet,
                   "Print nothing but errors on stderr: no notes, no progress bar");
  command.callback([&common, name, run = std::move(run)] {
    common.command = name;
    common.action = run;
  });
  return command;
}

void add_file_argument(CLI::App& command, Common& common, const std::string& name, std::string& path,
                       const std::string& text) {
  common.file(command.add_option(name, path, text)->type_name("FILE")->required());
}

CLI::Option* from_zero(CLI::Option* option) {
  return option->check([](const std::string& text) {
    return text.starts_with('-') ? fmt::format("{}; use 0 or more", text) : std::string();
  });
}

void add_execution_options(CLI::App& command, Common& common) {
  common
      .choice(command.add_option("--device", common.device, "Where to run")->type_name("DEVICE"),
              {{"cpu", "the processor"},
               {"auto", "the first GPU that can be used, else the processor"},
               {"cuda",
                "GPU 0; cuda:1 names another, cuda:0,1 several, which share the rows or the queries; trees "
                "use the first"},
               {"all", "every GPU"}},
              false)
      ->capture_default_str()
      ->group("Execution");
  command
      .add_option("--threads", common.threads, "Threads to use; 0 means one per core this process may use")
      ->type_name("N")
      ->capture_default_str()
      ->group("Execution");
  command
      .add_option("--memory-limit", common.memory_limit,
                  "Take no more memory than this, for example 4GiB, 500MB or 50% of the machine's: data, "
                  "codes, trees and results; what needs more is refused. Up to 64 MiB of working space come "
                  "on top. 'none' leaves it to the machine's memory")
      ->type_name("SIZE")
      ->capture_default_str()
      ->group("Execution");
  command
      .add_option("--device-memory-limit", common.device_memory_limit,
                  "Take no more of each GPU's memory than this, for example 8GiB or 50% of the smallest "
                  "one's: brute force leaves rows that do not fit in the machine's memory or streams them, "
                  "and what needs more is refused. 'none' leaves it to what is free. Refused without a GPU, "
                  "but for --device auto")
      ->type_name("SIZE")
      ->capture_default_str()
      ->group("Execution");
}

void add_statistics_option(CLI::App& command, Common& common) {
  command.add_flag("-v,--statistics", common.statistics,
                   "Print what the search did: filter, candidates, fallbacks, NaN rows, time");
}

void add_metric_option(CLI::App& command, Common& common, std::string& metric) {
  auto* option = command.add_option("--metric", metric, "Distance of a query q to a row x")
                     ->type_name("METRIC")
                     ->capture_default_str()
                     ->group("Search");
  common.choice(option,
                {{"sqeuclidean", "sum of (q_i - x_i)^2; the fastest"},
                 {"euclidean", "its square root: the straight-line distance"},
                 {"inner_product", "-(sum of q_i x_i): the largest product comes first"},
                 {"cosine", "1 - q.x / (|q| |x|): the angle, whatever the lengths"},
                 {"manhattan", "sum of |q_i - x_i|"}},
                false);
  // 'l2' has its own message: it means two things in this field.
  option->check([](const std::string& value) {
    try {
      parse_metric(value);
      return std::string();
    } catch (const InvalidArgument& error) {
      std::vector<std::string> names;
      for (Metric known : all_metrics) names.emplace_back(name(known));
      return error.what() + (value == "l2" || value == "L2" ? std::string() : did_you_mean(value, names));
    }
  });
}

void add_filter_option(CLI::App& command, Common& common, std::string& filter) {
  common
      .choice(command
                  .add_option("--filter", filter,
                              "The cheap first comparison with every row; it changes time and memory, never "
                              "the answer")
                  ->type_name("FILTER"),
              {{"auto", "the cheapest, measured on a sample of the data"},
               {"int8", "1 byte a value; on GPUs not for manhattan"},
               {"fp16", "2 bytes a value; on GPUs not for manhattan"},
               {"fp32", "4 bytes a value; best in low dimension; on GPUs not for inner_product and cosine"},
               {"none", "the exact float64 distance of every pair"}})
      ->capture_default_str()
      ->group("Search");
}

namespace {

// --device-memory-limit in bytes; a share is one of the smallest GPU's memory.
std::uint64_t parse_device_limit(const Common& common, const std::vector<Device>& chosen) {
  constexpr const char* option = "--device-memory-limit";
  if (common.device_memory_limit == "none") return 0;  // no driver is asked
  std::uint64_t whole = 0;
  for (const DeviceInfo& info : devices()) {
    if (std::find(chosen.begin(), chosen.end(), info.device) == chosen.end()) continue;
    whole = whole == 0 ? info.memory_bytes : std::min(whole, info.memory_bytes);
  }
  const std::uint64_t limit = parse_bytes(common.device_memory_limit, option, whole);
  if (limit == 0 || chosen.front().kind == Device::Kind::cuda) return limit;
  if (common.device == "auto") return 0;  // no GPU was found: none of its memory is taken
  throw InvalidArgument(fmt::format(
      "{} {} limits the memory of GPUs, and --device {} is none; name a GPU, or use --memory-limit", option,
      common.device_memory_limit, common.device));
}

}  // namespace

Execution make_execution(const Common& common) {
  Execution execution;
  execution.devices = parse_devices(common.device);
  execution.device_memory_limit = parse_device_limit(common, execution.devices);
  if (common.threads < 0 || common.threads > 4096) {
    throw InvalidArgument(fmt::format("--threads {}: use 1 to 4096, or 0 for all cores", common.threads));
  }
  execution.threads = static_cast<int>(common.threads);
  execution.cancelled = [] { return interrupted(); };
  return execution;
}

void hold_on_device(const AnyIndex& index, Execution& execution) {
  std::uint64_t& limit = execution.device_memory_limit;
  if (limit == 0) return;
  const std::uint64_t held = (index.memory_bytes() + execution.devices.size() - 1) / execution.devices.size();
  limit = limit > held ? limit - held : 1;
}

namespace {

[[noreturn]] void stdout_failed() {
  throw IoError(fmt::format("cannot write to standard output: {}", std::strerror(errno)));
}

}  // namespace

void print(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size()) stdout_failed();
}

void print_json(const nlohmann::json& value) {
  print(value.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

void print_ordered_json(const nlohmann::ordered_json& value) {
  print(value.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
}

void flush_stdout() {
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) stdout_failed();
}

void note(const Common& common, std::string_view text) {
  if (!common.quiet) fmt::print(stderr, "kith {}: {}\n", common.command, text);
}

std::string describe(const SearchStatistics& s) {
  std::string text;
  const auto line = [&](std::string_view what, const std::string& value) {
    text += fmt::format("  {:<16}{}\n", what, value);
  };
  line("index", s.index);
  if (!s.filter.empty()) {
    line("filter",
         s.directions > 0 ? fmt::format("{} along {} directions", s.filter, s.directions) : s.filter);
    if (s.lists > 0) line("lists", format_count(s.lists));
  }
  if (!s.instruction_set.empty()) line("kernels", s.instruction_set);
  line("pairs", format_count(s.pairs));
  line("candidates",
       s.pairs > 0 ? fmt::format("{} ({:.3g} % of the pairs)", format_count(s.candidates),
                                 100.0 * static_cast<double>(s.candidates) / static_cast<double>(s.pairs))
                   : format_count(s.candidates));
  line("fallbacks", format_count(s.fallbacks));
  line("NaN rows", format_count(s.nan_rows));
  line("NaN queries", format_count(s.nan_queries));
  line("collapsed rows", format_count(s.collapsed_rows));
  if (!s.certified) {
    line("list size", format_count(s.list_size));
    line("hops", s.cached_hops > 0 ? fmt::format("{} ({} to nodes cached on the GPU)", format_count(s.hops),
                                                 format_count(s.cached_hops))
                                   : format_count(s.hops));
    line("distances", format_count(s.distances));
    line("recall", s.recall > 0 ? fmt::format("{:.3f} or more, with 99 % confidence", s.recall) : "unknown");
  }
  line("search time", fmt::format("{:.3f} s", s.seconds));
  return text;
}

nlohmann::json to_json(const SearchStatistics& s) {
  return {{"index", s.index},
          {"filter", s.filter},
          {"directions", s.directions},
          {"lists", s.lists},
          {"instruction_set", s.instruction_set},
          {"pairs", s.pairs},
          {"candidates", s.candidates},
          {"fallbacks", s.fallbacks},
          {"nan_rows", s.nan_rows},
          {"nan_queries", s.nan_queries},
          {"collapsed_rows", s.collapsed_rows},
          {"hops", s.hops},
          {"cached_hops", s.cached_hops},
          {"distances", s.distances},
          {"list_size", s.list_size},
          {"certified", s.certified},
          {"recall", s.recall},
          {"seconds", s.seconds}};
}

nlohmann::json to_json(const RecallCurve& curve) {
  nlohmann::json points = nlohmann::json::array();
  for (const RecallPoint& point : curve.points) {
    points.push_back({{"k", point.k},
                      {"list_size", point.list_size},
                      {"recall", point.recall.recall},
                      {"lower", point.recall.lower},
                      {"upper", point.recall.upper},
                      {"hops", point.hops},
                      {"distances", point.distances}});
  }
  return {{"queries", curve.queries}, {"points", std::move(points)}};
}

}  // namespace kith::cli
