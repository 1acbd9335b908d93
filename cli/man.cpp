// kith man: the manual page, or Markdown, from the same tree as the help.
#include <algorithm>
#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commands.hpp"
#include "failure.hpp"
#include "page.hpp"

namespace kith::cli {
namespace {

std::string trimmed(const std::string& text) {
  const auto first = text.find_first_not_of(' ');
  return first == std::string::npos ? "" : text.substr(first);
}

// Text that troff prints as it stands: no escapes, no control lines, ASCII hyphens and quotes.
std::string roff(const std::string& text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '\\': out += "\\e"; break;
      case '-': out += "\\-"; break;
      case '\'': out += "\\(aq"; break;
      case '`': out += "\\(ga"; break;
      case '^': out += "\\(ha"; break;
      case '~': out += "\\(ti"; break;
      case '"': out += "\\(dq"; break;
      default: out += c;
    }
  }
  if (out.starts_with('.')) out.insert(0, "\\&");
  return out;
}

void roff_options(std::string& out, const PageSection& section) {
  for (const PageEntry& item : section.entries) {
    out += ".TP\n.B " + roff(trimmed(item.term)) + "\n" + roff(item.text);
    if (!item.default_value.empty()) out += roff(" [default: " + item.default_value + "]");
    out += '\n';
    if (item.choices.empty()) continue;
    out += ".RS\n";
    for (const auto& [value, explanation] : item.choices) {
      out += ".IP " + roff(value) + " 15\n" + (explanation.empty() ? "\\&" : roff(explanation)) + "\n";
    }
    out += ".RE\n";
  }
}

void roff_page(std::string& out, const Page& page, bool top) {
  if (!top) {
    out += ".SH " + roff(page.command) + "\n" + roff(page.summary) + ".\n.PP\n.B " + roff(page.usage) + "\n";
  }
  for (const std::string& paragraph : page.details) out += ".PP\n" + roff(paragraph) + "\n";
  for (const PageSection& section : page.sections) {
    out += (top ? ".SH " : ".SS ") + roff(section.title) + "\n";
    roff_options(out, section);
  }
  for (const auto& [title, text] : page.paragraphs) {
    out += (top ? ".SH " : ".SS ") + roff(title) + "\n" + roff(text) + "\n";
  }
  if (page.examples.empty()) return;
  out += top ? ".SH Examples\n" : ".SS Examples\n";
  for (const Example& example : page.examples) {
    out += ".TP\n.B " + roff(example.command) + "\n" + roff(example.explanation) + "\n";
  }
}

std::string manual(const CLI::App& app, const Common& common) {
  const Page top = make_page(app, common);
  std::string out = fmt::format(".TH KITH 1 \"\" \"kith {}\" \"User Commands\"\n", version());
  out += ".SH NAME\nkith \\- " + roff(top.summary) + "\n";
  out += ".SH SYNOPSIS\n.B " + roff(top.usage) + "\n.SH DESCRIPTION\n";
  roff_page(out, top, true);
  for (const CLI::App* command : app.get_subcommands({})) roff_page(out, make_page(*command, common), false);
  out += ".SH EXIT STATUS\n";
  for (const auto& [code, meaning] : exit_code_list()) {
    out += ".TP\n.B " + roff(code) + "\n" + roff(meaning) + "\n";
  }
  return out;
}

std::string cell(const std::string& text) {
  std::string out;
  for (const char c : text) out += c == '|' ? std::string("\\|") : std::string(1, c);
  return out;
}

void markdown_page(std::string& out, const Page& page, bool top) {
  out +=
      fmt::format("{} {}\n\n{}.\n\n```\n{}\n```\n", top ? "#" : "##", page.command, page.summary, page.usage);
  for (const std::string& paragraph : page.details) out += "\n" + paragraph + "\n";
  for (const PageSection& section : page.sections) {
    out += fmt::format("\n| {} | meaning | default |\n|---|---|---|\n", section.title);
    for (const PageEntry& item : section.entries) {
      std::string text = cell(item.text);
      for (const auto& [value, explanation] : item.choices) {
        text += fmt::format("<br>`{}`{}{}", value, explanation.empty() ? "" : ": ", cell(explanation));
      }
      out += fmt::format("| `{}` | {} | {} |\n", trimmed(item.term), text,
                         item.default_value.empty() ? "" : "`" + item.default_value + "`");
    }
  }
  for (const auto& [title, text] : page.paragraphs) out += fmt::format("\n**{}.** {}\n", title, text);
  if (page.examples.empty()) return;
  out += "\nExamples:\n";
  for (const Example& example : page.examples) {
    out += fmt::format("\n```sh\n{}\n```\n{}\n", example.command, example.explanation);
  }
}

std::string markdown(const CLI::App& app, const Common& common) {
  std::string out = "<!-- Printed by `kith man --markdown`; edit the text in cli/*.cpp, not here. -->\n";
  markdown_page(out, make_page(app, common), true);
  out += "\n## Exit statuses\n\n| status | meaning |\n|---|---|\n";
  for (const auto& [code, meaning] : exit_code_list()) out += fmt::format("| {} | {} |\n", code, meaning);
  for (const CLI::App* command : app.get_subcommands({})) {
    out += '\n';
    markdown_page(out, make_page(*command, common), false);
  }
  return out;
}

}  // namespace

void add_man(CLI::App& app, Common& common) {
  auto as_markdown = std::make_shared<bool>(false);
  CLI::App& command = add_command(
      app, common, "man", "Print the manual page (troff), or the same as Markdown",
      [&app, &common, as_markdown] {
        const std::string text = *as_markdown ? markdown(app, common) : manual(app, common);
        if (common.json) {
          print_json(nlohmann::json{{"format", *as_markdown ? "markdown" : "troff"}, {"text", text}});
        } else {
          print(text);
        }
      });
  command.add_flag("--markdown", *as_markdown, "Markdown instead of troff")->group("Manual");
  common.about(command).examples = {
      {"kith man | man -l -", "Reads the manual without installing it."},
      {"kith man --markdown > docs/cli.md", "Writes this reference as a web page's source."}};
}

void add_help(CLI::App& app, Common& common) {
  auto name = std::make_shared<std::string>();
  CLI::App& command =
      add_command(app, common, "help", "Explain a command, or list them all", [&app, &common, name] {
        const CLI::App* page = &app;
        if (!name->empty()) {
          check_names(app, {*name}, common);
          page = app.get_subcommand(*name);
        }
        common.command = "help";
        const std::string text = page->get_formatter()->make_help(page, "", CLI::AppFormatMode::Normal);
        if (common.json) {
          print_json(nlohmann::json{{"text", text}});
        } else {
          print(text);
        }
      });
  std::vector<std::pair<std::string, std::string>> names;
  for (const CLI::App* known : app.get_subcommands({})) {
    if (known != &command) names.emplace_back(known->get_name(), "");
  }
  common.choice(command.add_option("COMMAND", *name, "The command to explain")->type_name("COMMAND"), names,
                false);
  common.about(command).examples = {{"kith help knn", "The same as kith knn --help."}};
}

}  // namespace kith::cli
