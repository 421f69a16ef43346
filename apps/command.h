// A subcommand of `lacuna`: each file under apps/ that holds one registers it, and no list is kept.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
}

namespace lacuna::apps {

class Host;

/// Exit codes of the command: 0, one of these, or 128 + the signal that stopped it.
using ExitCode = int;
inline constexpr ExitCode run_failed = 1, wrong_input = 2;

/// Declares a subcommand's options on `app` and returns what to do once they are parsed. Errors are thrown.
using Subcommand = std::function<ExitCode()> (*)(CLI::App& app);

struct RegisterCommand {
  /// `order` is the place in the help.
  RegisterCommand(int order, std::string_view name, std::string_view summary, Subcommand subcommand);
};

/// For a command that is a class: it declares its options when it is constructed with the app, and runs when called.
template <class Command>
std::function<ExitCode()> declare(CLI::App& app) {
  return [command = std::make_shared<Command>(app)] { return (*command)(); };
}

/// The problem with `words`, a command and its options; empty if there is none. Runs nothing.
std::string command_line_problem(std::vector<std::string> words);

struct CommandWords {
  std::string name, summary;
  std::vector<std::string> options;  // as `--json`
};
/// The words that can follow `lacuna`, in the order of the help.
std::vector<CommandWords> command_words();

/// Runs a command, the first of `words`, with its options in the process of `host`. Throws Error where the command line
/// would print a message and exit with an error code.
ExitCode run_command(std::vector<std::string> words, Host& host);

/// The whole command: returns the exit code, 0 for done, 1 for a failed run, 2 for wrong input.
ExitCode run_command_line(int argc, const char* const* argv);

}  // namespace lacuna::apps
