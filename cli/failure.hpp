// From exceptions to one clear line on stderr and an exit status.
#pragma once

#include <exception>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include "common.hpp"

namespace kith::cli {

/// The program's exit statuses; documented in the help and in docs/cli.md, tested in tests/cli.
enum ExitCode : int {
  exit_ok = 0,
  exit_usage = 1,
  exit_io = 2,
  exit_memory = 3,
  exit_device = 4,
  exit_internal = 70,
  exit_interrupted = 130,
  exit_terminated = 143,
};

/// Number and meaning, for the help.
std::vector<std::pair<std::string, std::string>> exit_code_list();

/// A command line that is wrong before any work starts.
class UsageError : public InvalidArgument {
 public:
  using InvalidArgument::InvalidArgument;
};

/// Unknown sub-commands and options, with the nearest known name; run before CLI11 parses.
/// @throws UsageError
void check_names(const CLI::App& app, const std::vector<std::string>& arguments, Common& common);

/// CLI11's complaint in the program's words.
std::string explain(const CLI::ParseError& error, const CLI::App& app, const Common& common);

/// What report() would print of an interruption with this status.
std::string interruption(const Common& common, int code);

/// Prints the error and returns the exit status.
int report(const std::exception& error, const CLI::App& app, const Common& common);

}  // namespace kith::cli
