// A program that runs commands in its own process, as the Python module does. It takes what they would print, and its
// signals are its own.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <filesystem>
#include <string>

namespace lacuna::apps {

class Host {
 public:
  Host() = default;
  virtual ~Host() = default;
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;

  /// Takes text of standard output.
  virtual void print(const std::string& text) = 0;
  /// Takes text of standard error.
  virtual void warn(const std::string& text) = 0;
  /// Takes the line that shows progress, in place of the last one; empty: it goes away. `done`: a share, from 0 to 1.
  virtual void show(const std::string& line, double done) = 0;
  /// Takes the result of the command, which `--json` writes, and the same in words.
  virtual void result(const std::string& text, const nlohmann::ordered_json& json) = 0;
  /// Takes the folder of a run or a sweep that begins.
  virtual void begin(const std::filesystem::path& run) = 0;
  /// Takes a line of metrics.jsonl.
  virtual void metrics(const nlohmann::ordered_json& line) = 0;
  /// The executable of the command, for work in processes of its own.
  virtual std::filesystem::path command() const = 0;
  /// Whether the command should save and end.
  virtual bool wants_to_stop() = 0;
};

/// The host of the command that runs; null on the command line.
Host* command_host();

/// Ends the command of a host that wants to stop: thrown, and caught by the host.
struct Stopped {};
/// Throws Stopped where a host wants that. On the command line a signal ends the process, or a run saves first.
void stop_if_host_wants();

/// Makes `host` the host while it lives.
class HostScope {
 public:
  explicit HostScope(Host& host);
  ~HostScope();
  HostScope(const HostScope&) = delete;
  HostScope& operator=(const HostScope&) = delete;

 private:
  Host* before_;
};

}  // namespace lacuna::apps
