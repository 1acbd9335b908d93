// The kith program: declares the sub-commands, parses, runs, reports.
#include <charconv>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "commands.hpp"
#include "common.hpp"
#include "failure.hpp"
#include "interrupt.hpp"
#include "page.hpp"
#include "signals.hpp"

namespace kith::cli {
namespace {

void declare(CLI::App& app, Common& common) {
  app.name("kith");
  app.formatter(std::make_shared<HelpFormatter>(common));
  app.set_help_flag("-h,--help", "Show this help and leave");
  app.set_version_flag("--version", fmt::format("kith {}", version()), "Print the version and leave");
  app.require_subcommand(1);

  add_knn(app, common);
  add_build(app, common);
  add_shard(app, common);
  add_search(app, common);
  add_insert(app, common);
  add_tune(app, common);
  add_all_knn(app, common);
  add_radius(app, common);
  add_normals(app, common);
  add_outliers(app, common);
  add_evaluate(app, common);
  add_codes(app, common);
  add_import(app, common);
  add_export(app, common);
  add_convert(app, common);
  add_info(app, common);
  add_verify(app, common);
  add_generate(app, common);
  add_devices(app, common);
  add_bench(app, common);
  add_ladder(app, common);
  add_report(app, common);
  add_completion(app, common);
  add_man(app, common);
  add_help(app, common);

  About& about = common.about(app);
  about.details = {
      "Kith finds the rows of a data set that are nearest to a query: exactly, with the same bits on every "
      "machine and for any number of threads."};
  std::string codes;
  for (const auto& [code, meaning] : exit_code_list())
    codes += (codes.empty() ? "" : " ") + code + " " + meaning + ".";
  about.paragraphs = {
      {"Streams",
       "Every input may be '-' for standard input, or a pipe such as <(...); what can be read only once is "
       "held in memory, within --memory-limit, and --input-format names its format where its first bytes do "
       "not. Every output may be '-' for standard output, a pipe, a device or /dev/fd/N, which are written "
       "in "
       "place, from their current position; --format names the format. A file called '-' is './-'."},
      {"Exit status", codes}};
  about.examples = {
      {"kith generate clusters -n 100000 -d 128 -o base.npy", "Generates a dataset to play with."},
      {"kith knn base.npy base.npy --max-queries 5 -k 3", "Prints the 3 nearest rows of its first 5 rows."},
      {"kith knn base.fvecs queries.fvecs -k 10 -o answer",
       "Writes answer.indices.npy and answer.distances.npy."},
      {"zcat queries.npy.gz | kith knn base.npy - -k 10 -o - --format json | jq .indices",
       "Reads the queries from a pipe and writes the answer to one."},
  };
}

// CLI11 cuts numbers beyond 64 bits off at the limit: every whole number is read once more, strictly.
void check_whole_numbers(CLI::App& app) {
  for (CLI::App* command : app.get_subcommands({})) {
    for (CLI::Option* option : command->get_options()) {
      const std::string type = option->get_type_name();
      if (type != "N" && type != "K" && type != "D" && type != "S") continue;
      option->check([is_signed = type != "S"](const std::string& value) {
        const char* end = value.data() + value.size();
        std::int64_t number = 0;
        std::uint64_t positive = 0;
        const auto result = is_signed ? std::from_chars(value.data(), end, number)
                                      : std::from_chars(value.data(), end, positive);
        if (result.ec == std::errc{} && result.ptr == end) return std::string();
        return fmt::format("'{}' is not a whole number{} of 64 bits; write 1000000, not 1e6 or 1M", value,
                           is_signed ? "" : ", 0 or more,");
      });
    }
  }
}

int run(const std::vector<std::string>& arguments) {
  Common common;
  CLI::App app("Nearest neighbours: exact, certified and fast");
  declare(app, common);
  check_whole_numbers(app);
  install_signal_handlers();
  install_fault_handlers(common);
  try {
    if (arguments.empty()) {
      fmt::print(stderr, "{}", app.help());
      return exit_usage;
    }
    check_names(app, arguments, common);
    try {
      app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));  // CLI11 wants them reversed
      word_interruption(interruption(common, 128 + SIGINT), interruption(common, 128 + SIGTERM));
      common.action();
    } catch (const CLI::CallForHelp&) {
      print(app.help());
    } catch (const CLI::CallForVersion& answer) {
      print(std::string(answer.what()) + "\n");
    }
    flush_stdout();
    return exit_ok;
  } catch (const std::exception& error) {
    return report(error, app, common);
  }
}

}  // namespace
}  // namespace kith::cli

int main(int count, char** values) {
  kith::cli::keep_standard_descriptors();
  try {
    const int code = kith::cli::run(std::vector<std::string>(values + 1, values + count));
    // After a write that failed the HDF5 library crashes in what it does at exit.
    if (code != kith::cli::exit_ok) {
      std::fflush(nullptr);
      std::_Exit(code);
    }
    return code;
  } catch (const std::exception& error) {
    // Before and while failures are reported: no memory, or an option declared wrongly.
    std::fputs("kith: ", stderr);
    std::fputs(error.what(), stderr);
    std::fputs("\n", stderr);
    return kith::cli::exit_internal;
  }
}
