#include "apps/sweep/process.h"

#include "apps/output/host.h"
#include "apps/plugin.h"
#include "core/error.h"
#include "core/openmp.h"
#include "core/system_error.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <utility>

namespace lacuna::apps {
namespace {

namespace fs = std::filesystem;

/// A file descriptor that no child inherits.
class Descriptor {
 public:
  explicit Descriptor(const fs::path& path)
      : value_(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)) {
    if (value_ < 0) reject("cannot create {}: {}", path.string(), last_system_error());
  }
  ~Descriptor() { ::close(value_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int value() const { return value_; }

 private:
  int value_;
};

/// In the child, between fork and exec: only calls that are safe there.
[[noreturn]] void become(const char* command, char* const* arguments, pid_t parent, int output, int errors) {
  // A signal that a terminal, `timeout` or a batch system sends to a whole group would come twice.
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(127);  // it went away before that was set
  for (const int signal : {SIGINT, SIGTERM, SIGPIPE}) ::signal(signal, SIG_DFL);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);  // what an InterruptGuard has blocked
  leave_place();
  if (::dup2(output, STDOUT_FILENO) < 0 || ::dup2(errors, STDERR_FILENO) < 0) ::_exit(127);
  ::execv(command, arguments);
  ::_exit(127);
}

}  // namespace

ChildProcess::ChildProcess(std::vector<std::string> arguments, const fs::path& errors) {
  const Descriptor output("/dev/null"), error_file(errors);
  std::string name = "lacuna";
  std::vector<std::string> plugins;
  for (const std::string& plugin : loaded_plugins()) plugins.push_back("--load=" + plugin);
  arguments.insert(arguments.begin(), plugins.begin(), plugins.end());
  std::vector<char*> pointers{name.data()};
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  const std::string command = command_host() != nullptr ? command_host()->command().string() : "/proc/self/exe";
  // If the parent process ignores SIGCHLD, the system drops the exit code of a child.
  ::signal(SIGCHLD, SIG_DFL);
  const pid_t parent = ::getpid();
  process_ = ::fork();
  if (process_ < 0) fail("cannot start a process: {}", last_system_error());
  if (process_ == 0) become(command.c_str(), pointers.data(), parent, output.value(), error_file.value());
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : process_(std::exchange(other.process_, -1)), code_(other.code_) {}

ChildProcess::~ChildProcess() {
  if (process_ < 0 || code_) return;
  ::kill(process_, SIGKILL);
  ::waitpid(process_, nullptr, 0);
}

std::optional<int> ChildProcess::poll() {
  if (code_) return code_;
  int status = 0;
  const pid_t ended = ::waitpid(process_, &status, WNOHANG);
  if (ended < 0 && errno != EINTR) fail("cannot wait for process {}: {}", process_, last_system_error());
  if (ended == process_) code_ = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return code_;
}

void ChildProcess::signal(int number) const {
  if (process_ > 0 && !code_) ::kill(process_, number);
}

}  // namespace lacuna::apps
