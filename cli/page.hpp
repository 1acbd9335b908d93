// A help page as data, built from the CLI11 tree; the help, the manual and docs/cli.md are printed from it.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>

#include "common.hpp"

namespace kith::cli {

struct PageEntry {
  std::string term;           ///< "-k, --neighbors K"
  std::string text;           ///< description, without the default
  std::string default_value;  ///< empty: none to show
  std::vector<std::pair<std::string, std::string>> choices;
};

struct PageSection {
  std::string title;
  std::vector<PageEntry> entries;
};

struct Page {
  std::string command;  ///< "kith knn"
  std::string summary;
  std::string usage;  ///< "kith knn BASE QUERIES [options]"
  std::vector<std::string> details;
  std::vector<PageSection> sections;
  std::vector<std::pair<std::string, std::string>> paragraphs;
  std::vector<Example> examples;
};

/// @param common holds what CLI11's tree does not
Page make_page(const CLI::App& command, const Common& common);

/// Plain text, wrapped to `width` columns.
std::string to_text(const Page& page, int width);

/// False for flags, which CLI11 keeps as options that expect no value.
inline bool takes_value(const CLI::Option& option) {
  return option.get_items_expected_max() > 0;
}

/// The formatter CLI11 prints --help with.
class HelpFormatter : public CLI::FormatterBase {
 public:
  explicit HelpFormatter(const Common& common) : common_(&common) {}
  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override;

 private:
  const Common* common_;
};

/// Words of `text` in lines of at most `width`, each line but the first indented by `indent`.
std::string wrap(const std::string& text, int width, int indent);

}  // namespace kith::cli
