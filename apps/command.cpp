#include "apps/command.h"

#include "core/error.h"
#include "core/registry.h"
#include "core/system_memory.h"

#include <malloc.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <exception>
#include <limits>
#include <new>
#include <vector>

namespace lacuna::apps {
namespace {

constexpr ExitCode run_failed = 1;
constexpr ExitCode wrong_input = 2;

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

}  // namespace

RegisterCommand::RegisterCommand(int order, std::string_view name, std::string_view summary, Subcommand subcommand) {
  commands().push_back({order, name, summary, subcommand});
}

ExitCode run_command_line(int argc, const char* const* argv) {
  // A limit on file sizes and a reader that went away are errors of a write, not ends of the process.
  std::signal(SIGXFSZ, SIG_IGN);
  std::signal(SIGPIPE, SIG_IGN);
  // Each thread would take 64 MiB of addresses for small allocations of its own: too much where they are limited.
  if (address_space_left() != std::numeric_limits<std::int64_t>::max()) ::mallopt(M_ARENA_MAX, 1);

  CLI::App app("Lacuna trains neural networks in a fraction of the memory.", "lacuna");
  app.require_subcommand(1);
  app.set_version_flag("--version", LACUNA_VERSION);
  app.footer(
      "Exit codes: 0 done, 1 the run failed, 2 the input is wrong, 130, 143 or 129 stopped by a signal with a "
      "checkpoint written.");
  std::ranges::sort(commands(), {}, &Command::order);
  std::function<ExitCode()> chosen;
  for (const Command& command : commands()) {
    CLI::App* const sub = app.add_subcommand(std::string(command.name), std::string(command.summary));
    sub->callback([&chosen, action = command.subcommand(*sub)] { chosen = action; });
  }
  try {
    if (argc > 1) check_known(argv[1]);
    app.parse(argc, argv);
    return chosen();
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : wrong_input;
  } catch (const Error& error) {
    return report(error.what(), error.fault() == Fault::input ? wrong_input : run_failed);
  } catch (const std::bad_alloc&) {
    return report("out of memory", run_failed);
  } catch (const std::exception& error) {
    return report(error.what(), run_failed);
  }
}

}  // namespace lacuna::apps
