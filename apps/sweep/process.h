// Another run of this command, as a process of its own.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace lacuna::apps {

class ChildProcess {
 public:
  /// Starts this executable, or the host's command. Its standard error goes to the file `errors`, its standard output
  /// nowhere. It does not outlive this process, however that ends. It is the leader of a group of its own: signals
  /// reach it by `signal` alone.
  ChildProcess(std::vector<std::string> arguments, const std::filesystem::path& errors);
  /// Ends the child if it still runs.
  ~ChildProcess();
  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&&) = delete;

  /// The exit code, or 128 + the signal that ended it; nothing while it runs.
  std::optional<int> poll();
  void signal(int number) const;

 private:
  pid_t process_;
  std::optional<int> code_;
};

}  // namespace lacuna::apps
