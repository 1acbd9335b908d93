// kith completion: shell completions from the CLI11 tree.
#include <memory>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "commands.hpp"
#include "page.hpp"

namespace kith::cli {
namespace {

using Completes = OptionAbout::Completes;

const OptionAbout& about_of(const CLI::Option& option, const Common& common) {
  static const OptionAbout none;
  const auto found = common.options.find(&option);
  return found == common.options.end() ? none : found->second;
}

std::vector<std::string> dashed_names(const CLI::Option& option) {
  std::vector<std::string> names;
  for (const auto& name : option.get_snames()) names.push_back("-" + name);
  for (const auto& name : option.get_lnames()) names.push_back("--" + name);
  return names;
}

std::string joined(const std::vector<std::string>& words, const std::string& between) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : between) + word;
  return out;
}

std::string choice_words(const OptionAbout& about) {
  std::vector<std::string> words;
  for (const auto& [value, explanation] : about.choices) words.push_back(value);
  return joined(words, " ");
}

// Inside single quotes of a shell.
std::string shell_quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::string bash(const CLI::App& app, const Common& common) {
  std::string commands;
  std::string cases;
  for (const CLI::App* command : app.get_subcommands({})) {
    commands += (commands.empty() ? "" : " ") + command->get_name();
    std::vector<std::string> names;
    std::string values;
    std::string positional = "COMPREPLY=( $(compgen -f -- \"$current\") )";
    for (const CLI::Option* option : command->get_options()) {
      const OptionAbout& about = about_of(*option, common);
      if (option->get_positional()) {
        if (about.completes == Completes::choice) {
          positional = fmt::format("COMPREPLY=( $(compgen -W {} -- \"$current\") )",
                                   shell_quoted(choice_words(about)));
        }
        continue;
      }
      const auto dashed = dashed_names(*option);
      names.insert(names.end(), dashed.begin(), dashed.end());
      if (!takes_value(*option)) continue;
      const std::string action =
          about.completes == Completes::choice ? fmt::format("COMPREPLY=( $(compgen -W {} -- \"$current\") )",
                                                             shell_quoted(choice_words(about)))
          : about.completes == Completes::file ? "COMPREPLY=( $(compgen -f -- \"$current\") )"
                                               : "COMPREPLY=()";
      values += fmt::format("        {}) {}; return ;;\n", joined(dashed, "|"), action);
    }
    cases += fmt::format("    {})\n", command->get_name());
    if (!values.empty()) cases += "      case \"$previous\" in\n" + values + "      esac\n";
    cases += fmt::format("      options={}\n      [[ $current == -* ]] || {{ {}; return; }}\n      ;;\n",
                         shell_quoted(joined(names, " ")), positional);
  }
  return "# bash completion for kith; printed by: kith completion bash\n"
         "_kith() {\n"
         "  local current previous options\n"
         "  current=\"${COMP_WORDS[COMP_CWORD]}\"\n"
         "  previous=\"${COMP_WORDS[COMP_CWORD-1]}\"\n"
         "  COMPREPLY=()\n"
         "  if (( COMP_CWORD == 1 )); then\n" +
         fmt::format("    COMPREPLY=( $(compgen -W {} -- \"$current\") )\n",
                     shell_quoted(commands + " --help --version")) +
         "    return\n"
         "  fi\n"
         "  case \"${COMP_WORDS[1]}\" in\n" +
         cases +
         "    *) return ;;\n"
         "  esac\n"
         "  COMPREPLY=( $(compgen -W \"$options\" -- \"$current\") )\n"
         "}\n"
         "complete -o filenames -F _kith kith\n";
}

// _arguments gives [ ] : and \ a meaning of their own.
std::string zsh_text(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '[' || c == ']' || c == ':' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

std::string zsh_action(const OptionAbout& about) {
  if (about.completes == Completes::choice) return "(" + choice_words(about) + ")";
  return about.completes == Completes::file ? "_files" : " ";
}

std::string zsh(const CLI::App& app, const Common& common) {
  std::string commands;
  std::string cases;
  for (const CLI::App* command : app.get_subcommands({})) {
    commands +=
        "    " + shell_quoted(command->get_name() + ":" + zsh_text(command->get_description())) + "\n";
    cases += fmt::format("    {})\n      _arguments \\\n", command->get_name());
    std::vector<std::string> lines;
    for (const CLI::Option* option : command->get_options()) {
      const OptionAbout& about = about_of(*option, common);
      if (option->get_positional()) {
        lines.push_back(shell_quoted(fmt::format("{}:{}:{}", option->get_expected_max() > 1 ? "*" : "",
                                                 option->get_name(true, false), zsh_action(about))));
        continue;
      }
      const auto names = dashed_names(*option);
      for (const std::string& name : names) {
        std::string spec = fmt::format("({})", joined(names, " ")) + name;
        // "--name=" takes its value after '=' or as the next word, "-n+" joined or as the next word.
        if (takes_value(*option)) spec += name.starts_with("--") ? "=" : "+";
        spec += "[" + zsh_text(option->get_description()) + "]";
        if (takes_value(*option)) {
          spec += ":" + zsh_text(option->get_type_name()) + ":" + zsh_action(about);
        }
        lines.push_back(shell_quoted(spec));
      }
    }
    cases += "        " + joined(lines, " \\\n        ") + "\n      ;;\n";
  }
  return "#compdef kith\n# zsh completion for kith; printed by: kith completion zsh\n"
         "_kith() {\n"
         "  local -a commands\n"
         "  commands=(\n" +
         commands +
         "  )\n"
         "  if (( CURRENT == 2 )); then\n"
         "    _describe -t commands 'kith command' commands\n"
         "    return\n"
         "  fi\n"
         "  local command=$words[2]\n"
         "  shift words\n"
         "  (( CURRENT-- ))\n"
         "  case $command in\n" +
         cases +
         "  esac\n"
         "}\n"
         "if [ \"$funcstack[1]\" = _kith ]; then\n  _kith \"$@\"\nelse\n  compdef _kith kith\nfi\n";
}

std::string fish_quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' || c == '\\' ? std::string("\\") + c : std::string(1, c);
  return out + "'";
}

std::string fish(const CLI::App& app, const Common& common) {
  std::string out = "# fish completion for kith; printed by: kith completion fish\n";
  for (const CLI::App* command : app.get_subcommands({})) {
    out += fmt::format("complete -c kith -n __fish_use_subcommand -f -a {} -d {}\n", command->get_name(),
                       fish_quoted(command->get_description()));
    const std::string when = fmt::format("-n '__fish_seen_subcommand_from {}'", command->get_name());
    for (const CLI::Option* option : command->get_options()) {
      const OptionAbout& about = about_of(*option, common);
      std::string line = "complete -c kith " + when;
      if (option->get_positional()) {
        if (about.completes != Completes::choice) continue;
        out += line + " -f -a " + fish_quoted(choice_words(about)) + "\n";
        continue;
      }
      for (const auto& name : option->get_snames()) line += " -s " + name;
      for (const auto& name : option->get_lnames()) line += " -l " + name;
      if (takes_value(*option)) line += about.completes == Completes::file ? " -r -F" : " -x";
      if (about.completes == Completes::choice) line += " -a " + fish_quoted(choice_words(about));
      out += line + " -d " + fish_quoted(option->get_description()) + "\n";
    }
  }
  return out;
}

}  // namespace

void add_completion(CLI::App& app, Common& common) {
  auto shell = std::make_shared<std::string>();
  CLI::App& command = add_command(app, common, "completion", "Print the completion script of a shell",
                                  [&app, &common, shell] {
                                    const std::string text = *shell == "bash"  ? bash(app, common)
                                                             : *shell == "zsh" ? zsh(app, common)
                                                                               : fish(app, common);
                                    if (common.json) {
                                      print_json(nlohmann::json{{"shell", *shell}, {"script", text}});
                                    } else {
                                      print(text);
                                    }
                                  });
  common.choice(command.add_option("SHELL", *shell, "Which shell")->type_name("SHELL")->required(),
                {{"bash", ""}, {"zsh", ""}, {"fish", ""}});
  common.about(command).examples = {
      {"source <(kith completion bash)",
       "Completes kith in this bash; put the line into ~/.bashrc to keep it."},
      {"kith completion zsh > ~/.zfunc/_kith", "Where fpath holds ~/.zfunc."},
      {"kith completion fish > ~/.config/fish/completions/kith.fish", "For fish."}};
}

}  // namespace kith::cli
