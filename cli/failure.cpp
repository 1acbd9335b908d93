// Error messages and exit statuses.
#include "failure.hpp"

#include <cctype>
#include <cstdio>
#include <new>
#include <regex>
#include <stdexcept>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "interrupt.hpp"
#include "page.hpp"
#include "stream.hpp"
#include "suggest.hpp"

namespace kith::cli {

std::vector<std::pair<std::string, std::string>> exit_code_list() {
  return {
      {"0", "success"},
      {"1", "usage: an unknown option, or an argument outside what is accepted"},
      {"2", "input or output: a file is missing, damaged, foreign, or cannot be written"},
      {"3", "memory: the estimate is above --memory-limit or above what the machine has"},
      {"4", "device: a GPU is missing, unusable, or failed"},
      {"70", "a fault in Kith itself; please report it"},
      {"129, 130, 143",
       "stopped by SIGHUP (the terminal is gone), Ctrl-C (SIGINT) or SIGTERM; no output was written, except "
       "what had gone to a pipe or a device"},
      {"141", "stopped by SIGPIPE: the reader of the output has gone"},
  };
}

namespace {

std::vector<std::string> option_names(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    for (const auto& name : option->get_lnames()) names.push_back("--" + name);
    for (const auto& name : option->get_snames()) names.push_back("-" + name);
  }
  return names;
}

// "-k (--neighbors)" for "--neighbors": people know an option by its short name.
std::string shown_name(const CLI::App* command, const std::string& name) {
  const CLI::Option* option = command == nullptr ? nullptr : command->get_option_no_throw(name);
  if (option == nullptr || option->get_snames().empty()) return name;
  return fmt::format("-{} ({})", option->get_snames().front(), name);
}

const CLI::App* find_command(const CLI::App& app, const std::string& name) {
  for (const CLI::App* command : app.get_subcommands({})) {
    if (command->get_name() == name) return command;
  }
  return nullptr;
}

}  // namespace

void check_names(const CLI::App& app, const std::vector<std::string>& arguments, Common& common) {
  if (arguments.empty()) return;
  for (const std::string& argument : arguments) common.json = common.json || argument == "--json";
  const CLI::App* command = &app;
  std::size_t at = 0;
  if (!arguments[0].starts_with('-')) {
    command = find_command(app, arguments[0]);
    if (command == nullptr) {
      std::vector<std::string> names;
      for (const CLI::App* known : app.get_subcommands({})) names.push_back(known->get_name());
      throw UsageError(
          fmt::format("there is no sub-command '{}'{}", arguments[0], did_you_mean(arguments[0], names)));
    }
    common.command = arguments[0];
    at = 1;
  }
  for (; at < arguments.size(); ++at) {
    const std::string& argument = arguments[at];
    if (argument == "--") break;
    if (argument.size() < 2 || argument[0] != '-') continue;
    const bool is_long = argument.starts_with("--");
    const auto equals = argument.find('=');
    const std::string name = is_long ? argument.substr(0, equals) : argument.substr(0, 2);
    const CLI::Option* option = command->get_option_no_throw(name);
    if (option == nullptr || !option->nonpositional()) {
      // A negative number can only be the value of a positional; CLI11 judges it.
      if (!is_long && std::isdigit(static_cast<unsigned char>(argument[1])) != 0) continue;
      const std::string shown = is_long ? name : argument;
      if (command == &app) {
        for (const CLI::App* child : app.get_subcommands({})) {
          if (child->get_option_no_throw(name) == nullptr) continue;
          throw UsageError(fmt::format("the option '{}' comes after the command: kith {} {} ...", shown,
                                       child->get_name(), shown));
        }
      }
      throw UsageError(fmt::format("there is no option '{}'{}", shown,
                                   did_you_mean(is_long ? shown : "-" + shown, option_names(*command))));
    }
    // The next argument is this option's value, whatever it looks like.
    if (takes_value(*option) && (is_long ? equals == std::string::npos : argument.size() == 2)) ++at;
  }
}

std::string explain(const CLI::ParseError& error, const CLI::App& app, const Common& common) {
  const std::string text = error.what();
  const CLI::App* command = find_command(app, common.command);
  std::smatch match;
  static const std::regex conversion("Could not convert: (.*) = (.*)");
  if (std::regex_match(text, match, conversion)) {
    return fmt::format("{}: '{}' is not a number", shown_name(command, match[1].str()), match[2].str());
  }
  static const std::regex required("(.*) is required");
  if (std::regex_match(text, match, required) && command != nullptr) {
    std::string usage = "kith " + common.command;
    for (const CLI::Option* option : command->get_options()) {
      if (option->get_positional() && option->get_required()) usage += " " + option->get_name(true, false);
    }
    return fmt::format("{} is missing; the call is: {} [options]", shown_name(command, match[1].str()),
                       usage);
  }
  static const std::regex value_missing("(.*): 1 required (.*) missing");
  if (std::regex_match(text, match, value_missing)) {
    return fmt::format("{} needs a value ({})", shown_name(command, match[1].str()), match[2].str());
  }
  static const std::regex twice("(.*): At Most 1 required but received (.*)");
  if (std::regex_match(text, match, twice)) {
    return fmt::format("{} was given {} times; give it once", shown_name(command, match[1].str()),
                       match[2].str());
  }
  static const std::regex extras("The following arguments? (?:was|were) not expected: (.*)");
  if (std::regex_match(text, match, extras)) {
    return fmt::format("'{}' is one argument too many", match[1].str());
  }
  static const std::regex rejected("(--[a-z-]+): (.*)");
  if (std::regex_match(text, match, rejected)) {
    return fmt::format("{}: {}", shown_name(command, match[1].str()), match[2].str());
  }
  return text;
}

namespace {

const char* interruption_message() {
  return writes_to_stream() ? "interrupted; the output is incomplete" : "interrupted; no output was written";
}

std::string as_json(const Common& common, std::string_view kind, std::string_view message, int code) {
  const nlohmann::json object = {
      {"error", {{"command", common.command}, {"kind", kind}, {"message", message}, {"exit_code", code}}}};
  return object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

std::string as_text(const Common& common, std::string_view message) {
  return fmt::format("{}: error: {}\n", common.command.empty() ? "kith" : "kith " + common.command, message);
}

}  // namespace

std::string interruption(const Common& common, int code) {
  return common.json ? as_json(common, "interrupted", interruption_message(), code)
                     : as_text(common, interruption_message());
}

int report(const std::exception& error, const CLI::App& app, const Common& common) {
  int code = exit_internal;
  std::string kind = "internal";
  std::string message = error.what();
  std::string hint;
  const std::string name = common.command.empty() ? "kith" : "kith " + common.command;
  if (const auto* parse = dynamic_cast<const CLI::ParseError*>(&error)) {
    code = exit_usage;
    kind = "usage";
    message = explain(*parse, app, common);
    hint = fmt::format("try '{} --help'", name);
  } else if (dynamic_cast<const UsageError*>(&error) != nullptr) {
    code = exit_usage;
    kind = "usage";
    hint = fmt::format("try '{} --help'", name);
  } else if (dynamic_cast<const InvalidArgument*>(&error) != nullptr) {
    code = exit_usage;
    kind = "invalid_argument";
  } else if (dynamic_cast<const IoError*>(&error) != nullptr) {
    code = exit_io;
    kind = "io";
  } else if (dynamic_cast<const OutOfMemory*>(&error) != nullptr) {
    code = exit_memory;
    kind = "out_of_memory";
  } else if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr ||
             dynamic_cast<const std::length_error*>(&error) != nullptr) {
    code = exit_memory;
    kind = "out_of_memory";
    message = "the machine has no memory left for this; use fewer rows, queries or neighbours";
  } else if (dynamic_cast<const DeviceError*>(&error) != nullptr) {
    code = exit_device;
    kind = "device";
  } else if (dynamic_cast<const Cancelled*>(&error) != nullptr) {
    code = interrupt_exit_code();
    say_interruption(interruption(common, code));
    return code;
  } else {
    message = fmt::format("internal error: {}; please report it", message);
  }
  if (common.json) {
    fmt::print(stderr, "{}", as_json(common, kind, message, code));
  } else {
    fmt::print(stderr, "{}", as_text(common, message));
    if (!hint.empty()) fmt::print(stderr, "{}\n", hint);
  }
  return code;
}

}  // namespace kith::cli
