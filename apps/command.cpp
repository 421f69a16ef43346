#include "apps/command.h"
#include "apps/config/schema.h"
#include "apps/output/host.h"
#include "apps/output/output.h"
#include "apps/plugin.h"
#include "apps/version.h"

#include "core/error.h"
#include "core/registry.h"
#include "core/system_memory.h"
#include "ops/cuda_libraries.h"

#include <malloc.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <exception>
#include <limits>
#include <new>
#include <optional>
#include <vector>

namespace lacuna::apps {
namespace {

struct Command {
  int order;
  std::string_view name;
  std::string_view summary;
  Subcommand subcommand;
};

std::vector<Command>& commands() {
  static std::vector<Command> all;
  return all;
}

void check_known(std::string_view name) {
  std::vector<std::string> names;
  for (const Command& command : commands()) names.emplace_back(command.name);
  if (name.starts_with('-') || std::ranges::find(names, name) != names.end()) return;
  const std::string near = nearest_name(name, names);
  reject("unknown command \"{}\"{}", name,
         near.empty() ? "; `lacuna --help` lists them" : ", did you mean \"" + near + "\"?");
}

ExitCode report(const std::string& message, ExitCode code) {
  std::fputs(fmt::format("lacuna: {}\n", message).c_str(), stderr);  // not fmt::print, which throws if nobody reads
  return code;
}

/// The whole command line: its options, and what they say to do.
class CommandLine {
 public:
  /// `only`: the one subcommand that is declared; empty: all.
  explicit CommandLine(std::string_view only = {})
      : app_("Lacuna trains neural networks in a fraction of the memory.", "lacuna") {
    app_.require_subcommand(1);
    app_.set_version_flag("--version", version_and_commit());
    declare_load(app_);
    app_.footer(
        "Exit codes: 0 done, 1 the run failed, 2 the input is wrong, 128 + N stopped by signal N with a checkpoint "
        "written.");
    std::ranges::sort(commands(), {}, &Command::order);
    for (const Command& command : commands()) {
      if (!only.empty() && command.name != only) continue;
      CLI::App* const sub = app_.add_subcommand(std::string(command.name), std::string(command.summary));
      declare_load(*sub);
      sub->callback([this, action = command.subcommand(*sub)] { chosen_ = action; });
    }
  }
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  CLI::App& app() { return app_; }
  /// Does what the words say, and tells what libraries did not compute.
  ExitCode run() const {
    const ExitCode code = chosen_();
    for (const std::string& note : new_library_notes()) print_error(fmt::format("lacuna: note: {}\n", note));
    return code;
  }

  /// The problem with words that were not understood.
  std::string explain(const CLI::ParseError& error) const {
    const std::vector<CLI::App*> used = app_.get_subcommands();
    const std::string name = used.empty() ? "" : used.front()->get_name();
    const std::string help = fmt::format("; `lacuna {}{}--help` lists the options", name, name.empty() ? "" : " ");
    const std::vector<std::string> unknown = app_.remaining(true);
    if (unknown.empty() || dynamic_cast<const CLI::ExtrasError*>(&error) == nullptr)
      return fmt::format("{}{}{}{}", name, name.empty() ? "" : ": ", error.what(), help);
    std::vector<std::string> options;
    for (const CLI::Option* const option : (used.empty() ? &app_ : used.front())->get_options())
      if (!option->get_lnames().empty()) options.push_back("--" + option->get_lnames().front());
    std::string key = unknown.front().substr(std::min(unknown.front().find_first_not_of('-'), unknown.front().size()));
    std::ranges::replace(key, '-', '_');
    key.resize(std::min(key.find('='), key.size()));
    for (const Section& section : sections())
      if (section.find(key) != nullptr || (section.name == key && !section.choice.empty()))
        return fmt::format("{}: {} is not expected; {} is a key of the configuration: {}=VALUE", name, unknown.front(),
                           key, key);
    const std::string word = unknown.front().substr(0, unknown.front().find('='));
    const std::string near = word.starts_with('-') ? nearest_name(word, options) : "";
    return fmt::format("{}: {} is not expected{}", name, unknown.front(),
                       near.empty() ? help : fmt::format(", did you mean {}?", near));
  }

 private:
  /// For the help: `load_plugins` has taken it from the words, since what it loads may register names and options.
  static void declare_load(CLI::App& app) {
    app.add_option_function<std::string>(
           "--load", [](const std::string&) {}, "a shared object with ops, models or data sets of your own; repeatable")
        ->type_name("FILE");
  }

  CLI::App app_;
  std::function<ExitCode()> chosen_;
};

}  // namespace

std::string command_line_problem(std::vector<std::string> words) {
  CommandLine line;
  std::ranges::reverse(words);  // as CLI11 takes them
  try {
    line.app().parse(std::move(words));
  } catch (const CLI::Success&) {
    return "expected no option that prints something in place of running";
  } catch (const CLI::ParseError& error) {
    return line.explain(error);
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

std::vector<CommandWords> command_words() {
  CommandLine line;
  std::vector<CommandWords> words;
  for (const CLI::App* const command : line.app().get_subcommands([](const CLI::App*) { return true; })) {
    CommandWords& one = words.emplace_back(CommandWords{command->get_name(), command->get_description(), {}});
    for (const CLI::Option* const option : command->get_options())
      for (const std::string& name : option->get_lnames()) one.options.push_back("--" + name);
  }
  return words;
}

RegisterCommand::RegisterCommand(int order, std::string_view name, std::string_view summary, Subcommand subcommand) {
  commands().push_back({order, name, summary, subcommand});
}

ExitCode run_command(std::vector<std::string> words, Host& host) {
  const HostScope scope(host);
  CommandLine line(words.front());
  std::ranges::reverse(words);  // as CLI11 takes them
  try {
    line.app().parse(std::move(words));
  } catch (const CLI::ParseError& error) {
    reject("{}", line.explain(error));
  }
  return line.run();
}

ExitCode run_command_line(int argc, const char* const* argv) {
  // A limit on file sizes and a reader that went away are errors of a write, not ends of the process.
  std::signal(SIGXFSZ, SIG_IGN);
  std::signal(SIGPIPE, SIG_IGN);
  // Each thread would take 64 MiB of addresses for small allocations of its own: too much where they are limited.
  if (address_space_left() != std::numeric_limits<std::int64_t>::max()) ::mallopt(M_ARENA_MAX, 1);

  std::optional<CommandLine> line;  // after plugins: options may list what these register
  try {
    std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
    load_plugins(words);
    line.emplace();
    if (words.empty()) words.emplace_back("--help");
    check_known(words.front());
    std::ranges::reverse(words);  // as CLI11 takes them
    line->app().parse(std::move(words));
    return line->run();
  } catch (const CLI::Success& asked) {  // for help, or the version
    return line->app().exit(asked);
  } catch (const CLI::ParseError& error) {
    return report(line->explain(error), wrong_input);
  } catch (const Error& error) {
    return report(error.what(), error.fault() == Fault::input ? wrong_input : run_failed);
  } catch (const std::bad_alloc&) {
    return report("out of memory", run_failed);
  } catch (const std::exception& error) {
    return report(error.what(), run_failed);
  }
}

}  // namespace lacuna::apps
