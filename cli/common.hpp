// What every sub-command shares: how it is declared, the options they have in common, how it prints.
//
// A sub-command is one file with one function, declared in commands.hpp:
//
//   void add_example(CLI::App& app, Common& common) {
//     struct Options { std::string file; std::int64_t count = 10; };
//     auto options = std::make_shared<Options>();
//     CLI::App& command = add_command(app, common, "example", "One line that says what it does",
//                                     [options, &common] { /* work; throw kith::Error to fail */ });
//     add_file_argument(command, common, "FILE", options->file, "What it is");
//     add_execution_options(command, common);     // only where something runs
//     common.about(command).examples = {{"kith example x.npy", "Does it."}};
//   }
//
// Output goes through print(), print_json() and note(); failures are exceptions (see failure.hpp).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json_fwd.hpp>

#include "kith/kith.hpp"

namespace kith::cli {

/// A worked example of a help page.
struct Example {
  std::string command;
  std::string explanation;
};

/// What the help, the manual and the completions say about a sub-command beyond CLI11's tree.
struct About {
  std::vector<std::string> details;                             ///< paragraphs after the summary
  std::vector<Example> examples;                                ///< shown last
  std::vector<std::pair<std::string, std::string>> paragraphs;  ///< further titled paragraphs
};

/// What the help and the completions say about an option beyond CLI11's tree.
struct OptionAbout {
  enum class Completes : std::uint8_t { nothing, file, choice };
  Completes completes = Completes::nothing;
  std::vector<std::pair<std::string, std::string>> choices;  ///< value, explanation (may be empty)
};

/// The program's state; filled by the parser, read by the sub-commands.
struct Common {
  bool json = false;        ///< --json: machine-readable result on stdout, errors as JSON on stderr
  bool quiet = false;       ///< --quiet: nothing on stderr but errors
  bool statistics = false;  ///< -v, --statistics

  std::string device = "cpu";
  std::int64_t threads = 0;
  std::string memory_limit = "none";
  std::string device_memory_limit = "none";

  std::string command;           ///< name of the sub-command that was chosen
  std::function<void()> action;  ///< what it does

  std::map<const CLI::App*, About> abouts;
  std::map<const CLI::Option*, OptionAbout> options;

  About& about(const CLI::App& command_) { return abouts[&command_]; }
  /// Marks an option as a file name, for the completions.
  CLI::Option* file(CLI::Option* option);
  /// Gives an option a closed list of values, shown in the help and offered by the completions. The
  /// value is checked at parse time with a "did you mean".
  CLI::Option* choice(CLI::Option* option, const std::vector<std::pair<std::string, std::string>>& choices,
                      bool closed = true);
};

/// Declares a sub-command with --json, --quiet and --help.
CLI::App& add_command(CLI::App& app, Common& common, const std::string& name, const std::string& summary,
                      std::function<void()> run);

/// A file that the command cannot do without: BASE, INDEX, QUERIES.
void add_file_argument(CLI::App& command, Common& common, const std::string& name, std::string& path,
                       const std::string& text);

/// Refuses "-1" for an option of an unsigned number, which CLI11 takes for 2^64 - 1.
CLI::Option* from_zero(CLI::Option* option);

/// --device, --threads, --memory-limit and --device-memory-limit.
void add_execution_options(CLI::App& command, Common& common);
/// -v, --statistics.
void add_statistics_option(CLI::App& command, Common& common);
/// --metric.
void add_metric_option(CLI::App& command, Common& common, std::string& metric);
/// --filter.
void add_filter_option(CLI::App& command, Common& common, std::string& filter);

/// Devices, threads and the limit on their memory from the options, cancellation from Ctrl-C; progress from
/// the caller's bar. The limit on the machine's memory is left at 0: see MemoryPlan in input.hpp.
Execution make_execution(const Common& common);

/// Takes an index that lies on GPUs off the limit on their memory.
void hold_on_device(const AnyIndex& index, Execution& execution);

/// Writes to stdout; throws IoError when stdout cannot take it.
void print(std::string_view text);
void print_json(const nlohmann::json& value);
void print_ordered_json(const nlohmann::ordered_json& value);
/// One line on stderr, "kith knn: ..."; nothing with --quiet.
void note(const Common& common, std::string_view text);
/// Flushes stdout. @throws IoError
void flush_stdout();

/// The statistics of a search as text lines and as JSON.
std::string describe(const SearchStatistics& statistics);
nlohmann::json to_json(const SearchStatistics& statistics);
nlohmann::json to_json(const RecallCurve& curve);

}  // namespace kith::cli
