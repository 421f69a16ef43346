// The `lacuna` command.
#include "apps/command.h"

#include <fcntl.h>
#include <omp.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>

namespace {

/// Threads that wait for each other spin for long before they sleep, which on cores that others use too stops them all:
/// a step of 10 ms may take a second. libgomp reads the bound when it is loaded, so the command starts itself again
/// with one; where the user has said something about it, or that fails, it goes on as it is. So it does where threads
/// are bound to places: this one is by now, and what it starts would see that place only.
void bound_spinning(char** arguments) {
  if (std::getenv("GOMP_SPINCOUNT") != nullptr || std::getenv("OMP_WAIT_POLICY") != nullptr) return;
  if (omp_get_proc_bind() != omp_proc_bind_false) return;
  ::setenv("GOMP_SPINCOUNT", "1000", 1);
  std::error_code failed;
  const std::filesystem::path executable = std::filesystem::read_symlink("/proc/self/exe", failed);
  if (!failed) ::execv(executable.c_str(), arguments);
}

/// Opens the standard streams that are closed: else the first files that are opened would take their places, and
/// messages would be written into them.
void open_standard_streams() {
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::fcntl(descriptor, F_GETFD) < 0 && errno == EBADF)
      ::open("/dev/null", descriptor == STDIN_FILENO ? O_RDONLY : O_WRONLY);  // takes the lowest number that is free
}

}  // namespace

int main(int argc, char** argv) {
  open_standard_streams();
  bound_spinning(argv);
  return lacuna::apps::run_command_line(argc, argv);
}
