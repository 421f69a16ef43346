// Event files for TensorBoard: the lines of metrics.jsonl as scalars.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <filesystem>
#include <fstream>
#include <string_view>

namespace lacuna::apps {

/// Writes `events.out.tfevents.TIME.HOST.PROCESS` in the folder of a run. Steps have the tags `train/loss`, `train/lr`,
/// `train/accuracy`, …, evaluations `val/loss`, `val/accuracy`, …; bytes are in MiB.
class EventLog {
 public:
  /// Copies from the folder's event files the events of lines that its metrics.jsonl still has, and removes those
  /// files.
  explicit EventLog(const std::filesystem::path& run);
  /// Adds a line of metrics.jsonl, now.
  void write(const nlohmann::ordered_json& line);
  /// Removes all event files of the folder.
  static void remove_all(const std::filesystem::path& run);

 private:
  void write_record(std::string_view data);

  std::filesystem::path path_;
  std::ofstream stream_;
};

}  // namespace lacuna::apps
