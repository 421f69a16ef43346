// record.json of a run: which program ran it, on which machine, when and for how long.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

namespace lacuna::apps {

/// This machine's name; empty where it has none.
std::string host_name();

/// The sessions of a run, each one a process:
///
///   {"sessions": [{"command", "directory", "version", "commit", "host", "processor", "threads",
///                  "started", "ended" (UTC), "seconds", "first_step", "last_step", "outcome"}, ...],
///    "seconds": of all sessions}
///
/// `outcome` is finished, stopped (by a signal), failed or running; a process that was killed leaves `running`, which
/// the next session turns into `killed`, and the seconds up to its last checkpoint.
class RunRecord {
 public:
  /// Adds a session to the record in `file`, if there is one, and writes it.
  RunRecord(std::filesystem::path file, int threads, std::int64_t step);
  ~RunRecord();
  RunRecord(const RunRecord&) = delete;
  RunRecord& operator=(const RunRecord&) = delete;

  /// Notes the time and the step that the session has reached.
  void update(std::int64_t step, std::string_view outcome = "running");
  /// The time of all sessions.
  double seconds() const;

 private:
  std::filesystem::path file_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::unique_ptr<nlohmann::ordered_json> json_;
};

}  // namespace lacuna::apps
