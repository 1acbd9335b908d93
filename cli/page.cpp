// Help pages from the CLI11 tree.
#include "page.hpp"

#include <algorithm>
#include <sstream>

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "failure.hpp"

namespace kith::cli {
namespace {

std::string option_term(const CLI::Option& option) {
  std::string term;
  for (const auto& name : option.get_snames()) term += (term.empty() ? "-" : ", -") + name;
  if (term.empty()) term = "    ";  // long names line up below each other
  for (const auto& name : option.get_lnames()) term += (term == "    " ? "--" : ", --") + name;
  if (takes_value(option)) term += " " + option.get_type_name();
  return term;
}

PageEntry entry(const CLI::Option& option, const Common& common) {
  PageEntry out;
  if (option.get_positional()) {
    out.term = option.get_name(true, false);
    if (option.get_expected_max() > 1) out.term += "...";
  } else {
    out.term = option_term(option);
  }
  out.text = option.get_description();
  if (takes_value(option) && !option.get_required()) out.default_value = option.get_default_str();
  const auto about = common.options.find(&option);
  if (about != common.options.end()) out.choices = about->second.choices;
  return out;
}

// Appends the entry to the section of that title, made where it is missing.
void append(std::vector<PageSection>& sections, const std::string& title, PageEntry item) {
  for (PageSection& section : sections) {
    if (section.title == title) {
      section.entries.push_back(std::move(item));
      return;
    }
  }
  sections.push_back({title, {std::move(item)}});
}

}  // namespace

Page make_page(const CLI::App& command, const Common& common) {
  Page page;
  page.command = command.get_parent() == nullptr ? "kith" : "kith " + command.get_name();
  page.summary = command.get_description();
  page.usage = page.command;
  for (const CLI::Option* option : command.get_options()) {
    if (!option->get_positional()) continue;
    std::string word = option->get_name(true, false) + (option->get_expected_max() > 1 ? "..." : "");
    page.usage += option->get_required() ? " " + word : " [" + word + "]";
    append(page.sections, "Arguments", entry(*option, common));
  }
  if (!command.get_subcommands({}).empty()) page.usage += " COMMAND";
  page.usage += command.get_parent() == nullptr ? " ..." : " [options]";
  for (const CLI::App* child : command.get_subcommands({})) {
    append(page.sections, child->get_group() == "Subcommands" ? "Commands" : child->get_group(),
           {child->get_name(), child->get_description(), "", {}});
  }
  // Common options come last, the sub-command's own first.
  std::vector<PageSection> last;
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_positional() || option->get_group().empty()) continue;
    const bool shared = option->get_group() == "Options";
    append(shared ? last : page.sections, shared ? "Output and help" : option->get_group(),
           entry(*option, common));
  }
  for (PageSection& section : last) page.sections.push_back(std::move(section));
  // -h is declared first but reads best last.
  for (PageSection& section : page.sections) {
    std::stable_partition(section.entries.begin(), section.entries.end(), [](const PageEntry& item) {
      return item.term.find("--help") == std::string::npos;
    });
  }
  const auto about = common.abouts.find(&command);
  if (about != common.abouts.end()) {
    page.details = about->second.details;
    page.paragraphs = about->second.paragraphs;
    page.examples = about->second.examples;
  }
  return page;
}

std::string wrap(const std::string& text, int width, int indent) {
  std::istringstream words(text);
  std::string out;
  int column = indent;
  for (std::string word; words >> word;) {
    const int length = static_cast<int>(word.size());
    if (column > indent && column + 1 + length > width) {
      out += '\n' + std::string(static_cast<std::size_t>(indent), ' ');
      column = indent;
    } else if (column > indent) {
      out += ' ';
      ++column;
    }
    out += word;
    column += length;
  }
  return out;
}

std::string to_text(const Page& page, int width) {
  constexpr int term_column = 2;
  constexpr int widest_term = 30;
  std::string out = wrap(page.summary + ".", width, 0) + "\n";
  out += "\nUsage: " + page.usage + "\n";
  for (const std::string& paragraph : page.details) out += "\n" + wrap(paragraph, width, 0) + "\n";
  std::size_t longest = 0;
  for (const PageSection& section : page.sections) {
    for (const PageEntry& item : section.entries) {
      if (item.term.size() <= widest_term) longest = std::max(longest, item.term.size());
    }
  }
  const int text_column = term_column + static_cast<int>(longest) + 2;
  const auto spaces = [](int count) {
    return std::string(static_cast<std::size_t>(std::max(count, 0)), ' ');
  };
  for (const PageSection& section : page.sections) {
    out += "\n" + section.title + ":\n";
    for (const PageEntry& item : section.entries) {
      out += spaces(term_column) + item.term;
      const int at = term_column + static_cast<int>(item.term.size());
      out += at + 2 <= text_column ? spaces(text_column - at) : "\n" + spaces(text_column);
      std::string text = item.text;
      if (!item.default_value.empty()) text += " [default: " + item.default_value + "]";
      out += wrap(text, width, text_column) + "\n";
      std::size_t value_width = 0;
      bool explained = false;
      for (const auto& [value, explanation] : item.choices) {
        value_width = std::max(value_width, value.size());
        explained = explained || !explanation.empty();
      }
      if (item.choices.empty()) continue;
      if (!explained) {
        std::string list = "one of";
        for (const auto& [value, explanation] : item.choices) {
          list += (list == "one of" ? " " : ", ") + value;
        }
        out += spaces(text_column) + wrap(list, width, text_column) + "\n";
        continue;
      }
      for (const auto& [value, explanation] : item.choices) {
        const int choice_column = text_column + 2 + static_cast<int>(value_width) + 2;
        out += spaces(text_column + 2) + value + spaces(static_cast<int>(value_width - value.size()) + 2) +
               wrap(explanation, width, choice_column) + "\n";
      }
    }
  }
  for (const auto& [title, text] : page.paragraphs) {
    out += "\n" + title + ":\n  " + wrap(text, width, 2) + "\n";
  }
  if (!page.examples.empty()) {
    out += "\nExamples:\n";
    for (const Example& example : page.examples) {
      out += "  " + example.command + "\n      " + wrap(example.explanation, width, 6) + "\n";
    }
  }
  return out;
}

std::string HelpFormatter::make_help(const CLI::App* app, std::string /*name*/,
                                     CLI::AppFormatMode /*mode*/) const {
  winsize size{};
  int width = 90;
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    width = std::clamp<int>(size.ws_col - 1, 60, 100);
  }
  std::string text = to_text(make_page(*app, *common_), width);
  text += app->get_parent() == nullptr ? "\nkith COMMAND --help explains a command.\n" : "";
  return text;
}

}  // namespace kith::cli
