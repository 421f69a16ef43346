// The folder of a run: configuration, metrics, summary and checkpoints.
//
//   config.yaml     the resolved configuration
//   metrics.jsonl   a line for each step and each evaluation
//   summary.json    written at the end
//   checkpoints/    step-00000042/, …: the latest few and the best
//   last, best      links to two of them, moved when a checkpoint is complete
#pragma once

#include "apps/checkpoint.h"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>

namespace lacuna::apps {

class RunFolder {
 public:
  /// Creates the folder. Refuses one that holds a run or checkpoints already, unless they may be `overwrite`n: then
  /// they are removed.
  static RunFolder create(const std::filesystem::path& path, bool overwrite);
  /// Refuses a folder that holds no run.
  static RunFolder open(const std::filesystem::path& path);
  /// Removes what a run that ended within a save left behind: temporary files, and checkpoints after the latest.
  void remove_leftovers() const;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path configuration() const { return path_ / "config.yaml"; }
  std::filesystem::path summary() const { return path_ / "summary.json"; }
  /// The latest checkpoint; refuses a run without one.
  std::filesystem::path last() const { return linked("last"); }
  /// The checkpoint with the highest accuracy, or the latest where nothing was evaluated.
  std::filesystem::path best() const;

  void save_configuration(const std::string& yaml) const;
  /// Saves the step of `place`, moves the links, and removes all older checkpoints but `keep` and the best.
  /// `only_place`: the checkpoint of that step stands there already, and only the place has changed.
  void save(const Model& model, const Optimizer& optimizer, const MemoryPolicy& policy, const Place& place,
            bool only_place, bool is_best, std::int64_t keep) const;

 private:
  explicit RunFolder(std::filesystem::path path) : path_(std::move(path)) {}
  std::filesystem::path linked(std::string_view name) const;
  std::filesystem::path checkpoints() const { return path_ / "checkpoints"; }
  /// Names of the entries that a save makes, those it did not finish included, in the order of their steps.
  std::set<std::string> saved_names() const;
  void remove_old_checkpoints(std::int64_t keep) const;

  std::filesystem::path path_;
};

/// The lines of a metrics file that a run which goes on from `place` does not write again: its steps, and the
/// evaluations at the ends of evaluated epochs. What is no such line is left out.
std::string kept_metrics(std::istream& lines, const Place& place, std::int64_t steps_per_epoch);

/// metrics.jsonl of a run.
class MetricsLog {
 public:
  /// Goes on with the file, without what is about to happen again.
  MetricsLog(const RunFolder& folder, const Place& place, std::int64_t steps_per_epoch);
  void write(const nlohmann::ordered_json& line);

 private:
  std::filesystem::path path_;
  std::ofstream stream_;
};

}  // namespace lacuna::apps
