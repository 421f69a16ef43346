// Runs the built command in a folder of its own.
#pragma once

#include "apps/command.h"
#include "tests/refusal.h"
#include "tests/temporary_folder.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace lacuna::test {

struct CommandResult {
  int code = 0;  // 128 + the signal where one ended it
  std::string out, error;
  nlohmann::json json() const { return nlohmann::json::parse(out); }
};

inline nlohmann::json read_json(const std::filesystem::path& path) { return nlohmann::json::parse(read_file(path)); }

/// Resource limits of the command in bytes; 0: unlimited.
struct Limits {
  std::int64_t file = 0;     // of each file, as a full disk
  std::int64_t address = 0;  // of the address space, as `ulimit -v` sets
  std::int64_t data = 0;     // of writable private memory, as `ulimit -d` sets; strict overcommit counts the same
};

class CommandRun {
 public:
  /// Starts `lacuna` (or `program`) with `arguments` in `folder`.
  CommandRun(const TemporaryFolder& folder, std::vector<std::string> arguments, const Limits& limits = {},
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
    limit(RLIMIT_FSIZE, limits.file);
    limit(RLIMIT_AS, limits.address);
    limit(RLIMIT_DATA, limits.data);
    if (limits.address > 0) limit(RLIMIT_STACK, usual_stack);  // a thread's takes of the addresses
    ::execv(pointers[0], pointers.data());
    ::_exit(99);
  }

  bool running() { return !done_ && ::waitpid(process_, &status_, WNOHANG) == 0 ? true : !(done_ = true); }
  pid_t process() const { return process_; }
  void signal(int number) const { ::kill(process_, number); }

  CommandResult wait() {
    if (!done_) ::waitpid(process_, &status_, 0);
    done_ = true;
    return {WIFSIGNALED(status_) ? 128 + WTERMSIG(status_) : WEXITSTATUS(status_), read_file(folder_ / "stdout"),
            read_file(folder_ / "stderr")};
  }

 private:
  static constexpr std::int64_t usual_stack = std::int64_t{8} << 20;
  static void limit(int resource, std::int64_t bytes) {
    const rlimit both{static_cast<rlim_t>(bytes), static_cast<rlim_t>(bytes)};
    if (bytes > 0) ::setrlimit(static_cast<__rlimit_resource>(resource), &both);
  }

  const TemporaryFolder& folder_;
  pid_t process_;
  int status_ = 0;
  bool done_ = false;
};

inline CommandResult run_command(const TemporaryFolder& folder, std::vector<std::string> arguments,
                                 const Limits& limits = {}) {
  return CommandRun(folder, std::move(arguments), limits).wait();
}

/// The command run in this process, in `folder`.
inline CommandResult run_here(const TemporaryFolder& folder, std::vector<std::string> words) {
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  words.insert(words.begin(), "lacuna");
  std::vector<const char*> pointers;
  for (const std::string& word : words) pointers.push_back(word.c_str());
  std::fflush(stdout);
  const int kept[] = {::dup(STDOUT_FILENO), ::dup(STDERR_FILENO)};
  const auto redirect = [&](const char* name, int descriptor) {
    const int file = ::open(name, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    ::dup2(file, descriptor);
    ::close(file);
  };
  redirect("stdout", STDOUT_FILENO);
  redirect("stderr", STDERR_FILENO);
  const int code = apps::run_command_line(static_cast<int>(pointers.size()), pointers.data());
  std::fflush(stdout);
  for (const int descriptor : {STDOUT_FILENO, STDERR_FILENO}) {
    ::dup2(kept[descriptor - STDOUT_FILENO], descriptor);
    ::close(kept[descriptor - STDOUT_FILENO]);
  }
  std::filesystem::current_path(before);
  return {.code = code, .out = read_file(folder / "stdout"), .error = read_file(folder / "stderr")};
}

/// A command that must succeed.
inline CommandResult run(const TemporaryFolder& folder, const std::vector<std::string>& arguments) {
  CommandResult result = run_command(folder, arguments);
  INFO(result.error);
  REQUIRE(result.code == 0);
  return result;
}

/// A command that must end with 2 and an error that has all of `words`.
inline void check_refused(const TemporaryFolder& folder, const std::vector<std::string>& arguments,
                          std::initializer_list<std::string_view> words) {
  const CommandResult result = run_command(folder, arguments);
  CHECK_MESSAGE(result.code == 2, result.error);
  for (const std::string_view word : words) check_says(result.error, word);
}

/// Another program: its path and its arguments.
inline CommandResult run_program(const TemporaryFolder& folder, const std::string& program,
                                 std::vector<std::string> arguments) {
  return CommandRun(folder, std::move(arguments), {}, program).wait();
}

}  // namespace lacuna::test
