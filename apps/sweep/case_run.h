// One case of a sweep: its process, and its record, cases/ID.json, from which another call of the same sweep continues.
#pragma once

#include "apps/report/results.h"
#include "apps/sweep/process.h"
#include "apps/sweep/sweep_file.h"
#include "data/opened_files.h"

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lacuna::apps {

/// Why a case that ended with `code` failed; nothing if it did not. `left`: the result that it left; `said`: the last
/// lines of its standard error.
std::optional<std::string> failure_of(int code, const std::string& left, const std::string& said);

/// Fills in what a record says. Refuses one in which something is missing or of another type; `origin` names it.
void read_record(const nlohmann::ordered_json& record, std::string_view origin, Result& result);

class CaseRun {
 public:
  CaseRun(const Sweep& sweep, const SweepCase& one) : sweep_(sweep), case_(one) {}

  /// The case with its settings, not run yet. `config`: the name of its configuration.
  Result result(const std::string& config) const;
  /// Why its configuration would be refused, or nothing.
  std::string problem(const std::shared_ptr<OpenedFiles>& opened) const;
  /// The record of an earlier call, unless the case failed.
  std::optional<nlohmann::ordered_json> finished() const;

  /// Starts the case, unless its configuration has changed since the sweep began: it would bear another's results.
  void start();
  /// The exit code once it has ended.
  std::optional<int> poll();
  void stop(int signal) const;
  /// Writes the record of the ended case.
  nlohmann::ordered_json record(int code) const;
  /// Removes the files that only a running case needs.
  void forget() const;

 private:
  std::filesystem::path file(std::string_view ending) const;
  std::filesystem::path run_folder() const { return sweep_.folder / "runs" / case_.id; }
  bool trains() const { return sweep_.command == "train"; }
  /// A text, or a list of several.
  nlohmann::ordered_json configurations() const;
  nlohmann::ordered_json overrides() const;
  bool is_as_read() const;
  std::vector<std::string> arguments() const;
  /// The overrides as a command line has them.
  std::vector<std::string> assignments() const;

  const Sweep& sweep_;
  const SweepCase& case_;
  std::optional<ChildProcess> process_;
  std::chrono::steady_clock::time_point begin_;
};

}  // namespace lacuna::apps
