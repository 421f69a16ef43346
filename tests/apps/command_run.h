// Runs the built command in a folder of its own.
#pragma once

#include "tests/temporary_folder.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace lacuna::test {

struct CommandResult {
  int code = 0;  // 128 + the signal where one ended it
  std::string out, error;
  nlohmann::json json() const { return nlohmann::json::parse(out); }
};

class CommandRun {
 public:
  /// Starts `lacuna` (or `program`) with `arguments` in `folder`. A `file_limit` is the most bytes a file may have, as
  /// a full disk.
  CommandRun(const TemporaryFolder& folder, std::vector<std::string> arguments, long file_limit = 0,
             const std::string& program = LACUNA_BINARY_DIR "/bin/lacuna")
      : folder_(folder) {
    arguments.insert(arguments.begin(), program);
    process_ = ::fork();
    if (process_ != 0) return;
    const auto redirect = [&](const char* name, int descriptor) {
      ::dup2(::open((folder / name).c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644), descriptor);
    };
    redirect("stdout", STDOUT_FILENO);
    redirect("stderr", STDERR_FILENO);
    std::vector<char*> pointers;
    for (std::string& argument : arguments) pointers.push_back(argument.data());
    pointers.push_back(nullptr);
    if (::chdir(folder.path().c_str()) != 0) ::_exit(99);
    if (file_limit > 0) limit_files(file_limit);
    ::execv(pointers[0], pointers.data());
    ::_exit(99);
  }

  bool running() { return !done_ && ::waitpid(process_, &status_, WNOHANG) == 0 ? true : !(done_ = true); }
  void signal(int number) const { ::kill(process_, number); }

  CommandResult wait() {
    if (!done_) ::waitpid(process_, &status_, 0);
    done_ = true;
    return {WIFSIGNALED(status_) ? 128 + WTERMSIG(status_) : WEXITSTATUS(status_), read_file(folder_ / "stdout"),
            read_file(folder_ / "stderr")};
  }

 private:
  static void limit_files(long bytes);

  const TemporaryFolder& folder_;
  pid_t process_;
  int status_ = 0;
  bool done_ = false;
};

inline CommandResult run_command(const TemporaryFolder& folder, std::vector<std::string> arguments,
                                 long file_limit = 0) {
  return CommandRun(folder, std::move(arguments), file_limit).wait();
}

/// Another program: its path and its arguments.
inline CommandResult run_program(const TemporaryFolder& folder, const std::string& program,
                                 std::vector<std::string> arguments) {
  return CommandRun(folder, std::move(arguments), 0, program).wait();
}

}  // namespace lacuna::test
