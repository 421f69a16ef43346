// lacuna completion: what a shell reads to complete commands, options and files.
#include "apps/command.h"
#include "apps/output/output.h"
#include "core/text.h"

#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

namespace lacuna::apps {
namespace {

std::vector<std::string> names_of(const std::vector<CommandWords>& commands) {
  std::vector<std::string> names;
  for (const CommandWords& command : commands) names.push_back(command.name);
  return names;
}

std::string for_bash(const std::vector<CommandWords>& commands) {
  std::string cases;
  for (const CommandWords& command : commands)
    cases += fmt::format("    {}) words='{}' ;;\n", command.name, fmt::join(command.options, " "));
  return fmt::format(
      "_lacuna() {{\n"
      "  local words word=${{COMP_WORDS[COMP_CWORD]}}\n"
      "  if [ \"$COMP_CWORD\" = 1 ]; then\n"
      "    COMPREPLY=($(compgen -W '{} --help --version --load' -- \"$word\"))\n"
      "    return\n"
      "  fi\n"
      "  case ${{COMP_WORDS[1]}} in\n{}"
      "  esac\n"
      "  case $word in\n"
      "    -*) COMPREPLY=($(compgen -W \"$words\" -- \"$word\")) ;;\n"
      "    *) compopt -o filenames; mapfile -t COMPREPLY < <(compgen -f -- \"$word\") ;;\n"
      "  esac\n"
      "}}\n"
      "complete -F _lacuna lacuna\n",
      fmt::join(names_of(commands), " "), cases);
}

std::string for_zsh(const std::vector<CommandWords>& commands) {
  std::string described, cases;
  for (const CommandWords& command : commands) {
    described += fmt::format("    '{}:{}'\n", command.name, for_single_quotes(command.summary));
    cases += fmt::format("    {}) options=({}) ;;\n", command.name, fmt::join(command.options, " "));
  }
  return fmt::format(
      "#compdef lacuna\n"
      "_lacuna() {{\n"
      "  local -a commands options\n"
      "  commands=(\n{}  )\n"
      "  if (( CURRENT == 2 )); then\n"
      "    _describe command commands\n"
      "    return\n"
      "  fi\n"
      "  case $words[2] in\n{}"
      "  esac\n"
      "  if [[ $words[CURRENT] == -* ]]; then compadd -- $options; else _files; fi\n"
      "}}\n"
      "compdef _lacuna lacuna\n",
      described, cases);
}

std::string for_fish(const std::vector<CommandWords>& commands) {
  std::string text;
  for (const CommandWords& command : commands) {
    text += fmt::format("complete -c lacuna -n __fish_use_subcommand -f -a {} -d '{}'\n", command.name,
                        for_single_quotes(command.summary));
    for (const std::string& option : command.options)
      text +=
          fmt::format("complete -c lacuna -n '__fish_seen_subcommand_from {}' -l {}\n", command.name, option.substr(2));
  }
  return text;
}

class Completion {
 public:
  explicit Completion(CLI::App& app) {
    app.add_option("shell", shell_, "bash, zsh or fish")
        ->type_name("SHELL")
        ->required()
        ->check(CLI::IsMember({"bash", "zsh", "fish"}));
    app.footer("source <(lacuna completion bash), or zsh; fish: lacuna completion fish | source");
  }

  ExitCode operator()() const {
    const std::vector<CommandWords> commands = command_words();
    const std::string text = shell_ == "bash"  ? for_bash(commands)
                             : shell_ == "zsh" ? for_zsh(commands)
                                               : for_fish(commands);
    std::fputs(text.c_str(), stdout);
    return 0;
  }

 private:
  std::string shell_;
};

const RegisterCommand completion(95, "completion", "complete commands and options in bash, zsh or fish",
                                 declare<Completion>);

}  // namespace
}  // namespace lacuna::apps
