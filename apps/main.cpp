// The `lacuna` command.
#include "apps/command.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <system_error>

namespace {

/// Threads that wait for each other spin for long before they sleep, which on cores that others use too stops them all:
/// a step of 10 ms may take a second. libgomp reads the bound when it is loaded, so the command starts itself again
/// with one; where the user has said something about it, or that fails, it goes on as it is.
void bound_spinning(char** arguments) {
  if (std::getenv("GOMP_SPINCOUNT") != nullptr || std::getenv("OMP_WAIT_POLICY") != nullptr) return;
  ::setenv("GOMP_SPINCOUNT", "1000", 1);
  std::error_code failed;
  const std::filesystem::path executable = std::filesystem::read_symlink("/proc/self/exe", failed);
  if (!failed) ::execv(executable.c_str(), arguments);
}

}  // namespace

int main(int argc, char** argv) {
  bound_spinning(argv);
  return lacuna::apps::run_command_line(argc, argv);
}
