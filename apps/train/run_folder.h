// The folder of a run: configuration, metrics, summary and checkpoints.
//
//   config.yaml     the resolved configuration: every value in effect, defaults included
//   plan.json       the memory plan of the policy `auto`
//   metrics.jsonl   a line for each step and each evaluation
//   record.json     the processes that ran it: program, machine, times (run_record.h)
//   measured.json   figures of the steps up to the latest checkpoint, for a process that takes no step
//   timeline.json   the predicted memory over one step (timeline.h)
//   summary.json    written at the end
//   held_out.json   the samples held out for evaluation, if the data have no part for it (held_out.h)
//   classes.json    figures per class of the latest `lacuna eval`, for its page
//   checkpoints/    step-00000042/, …: the latest few and the best
//   last, best      links to two of them, moved when a checkpoint is complete: a convenience, which a copied folder or
//                   a file system may lack
//   lock            held by the process that trains into the folder, whose number it tells
#pragma once

#include "apps/train/run_lock.h"
#include "models/checkpoint.h"

#include "core/file.h"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace lacuna::apps {

class RunFolder {
 public:
  /// Creates the folder and locks it for this process. Refuses a folder that holds a run or checkpoints. `overwrite`
  /// removes them instead; files that no run writes stay.
  static RunFolder create(const std::filesystem::path& path, bool overwrite);
  /// Opens it to read. Refuses a folder that holds no run.
  static RunFolder open(const std::filesystem::path& path);
  /// Opens it to go on with the run: for this process alone to write to.
  static RunFolder open_to_resume(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path configuration() const { return path_ / "config.yaml"; }
  std::filesystem::path plan() const { return path_ / "plan.json"; }
  std::filesystem::path record() const { return path_ / "record.json"; }
  std::filesystem::path summary() const { return path_ / "summary.json"; }
  std::filesystem::path measured() const { return path_ / "measured.json"; }
  /// The latest checkpoint; refuses a run without one.
  std::filesystem::path last() const;
  /// The checkpoint to go on from: the latest. Nothing where the run ended before its first one.
  std::optional<std::filesystem::path> newest() const;
  /// `last`, `best`, or the checkpoint of a step, as `step-00000042`; refuses one that is not there, and lists those
  /// that are.
  std::filesystem::path checkpoint(const std::string& name) const;
  /// The newest whole checkpoint of an earlier step than that of `checkpoint`.
  std::optional<std::filesystem::path> whole_before(const std::filesystem::path& checkpoint) const;
  /// The checkpoint with the best metric, or the latest where nothing was evaluated.
  std::filesystem::path best() const;

  /// Makes `checkpoint`, of this `progress`, the latest: sets the links as they were when it was written, and
  /// removes what came after it and what a run that ended within a save left behind.
  void go_back_to(const std::filesystem::path& checkpoint, const Progress& progress) const;
  /// The same where there is no checkpoint to go back to.
  void go_back_to_start() const { remove_leftovers(""); }

  void save_configuration(const std::string& yaml) const;
  /// An empty `json` removes the plan of an earlier process.
  void save_plan(const std::string& json) const;
  /// Saves the timeline (apps/train/timeline.h), for reports.
  void save_timeline(const std::string& json) const;
  /// Removes the summary, which is out of date once training continues.
  void remove_summary() const;
  /// Saves the step of `progress`, moves the links, and removes all older checkpoints but `keep` and the best.
  /// `only_progress`: the checkpoint of that step stands there already, and only the progress has changed.
  void save(const TrainedState& state, const Progress& progress, bool only_progress, bool is_best,
            std::int64_t keep) const;

 private:
  explicit RunFolder(std::filesystem::path path) : path_(std::move(path)) {}
  /// The checkpoint that the link `name` points to, if there is such a link and such a checkpoint.
  std::optional<std::filesystem::path> linked(std::string_view name) const;
  /// Name of the checkpoint with the best evaluation of a run with this `progress`; empty: none has it.
  std::string best_name(const Progress& progress) const;
  std::filesystem::path checkpoints() const { return path_ / "checkpoints"; }
  /// Names of the entries that a save makes, those it did not finish included, in the order of their steps.
  std::set<std::string> saved_names() const;
  /// The same without those it did not finish.
  std::vector<std::string> finished_names() const;
  /// Temporary files, and checkpoints after the one named `newest`.
  void remove_leftovers(const std::string& newest) const;
  void remove_checkpoint(const std::string& name) const;
  void restore_best(const Progress& progress) const;
  /// Points the link `name` at `target`, or warns once that it cannot.
  void set_link(std::string_view name, const std::filesystem::path& target) const;
  void remove_old_checkpoints(std::int64_t keep) const;

  std::filesystem::path path_;
  std::shared_ptr<const RunLock> lock_;  // null where the folder is only read
  mutable bool warned_of_links_ = false;
};

/// A run, or one of its checkpoints.
struct CheckpointPath {
  std::filesystem::path run;
  std::string checkpoint;  // its name; empty: none was named
};
/// `path` is a run's folder, a folder among its checkpoints, or `last` or `best` in it, be they links or copies. `~` is
/// the home folder.
CheckpointPath checkpoint_path(const std::filesystem::path& path);
/// Refuses a run, checkpoint or folder of a model that is not there.
void require_existing(const std::filesystem::path& path);

/// The lines of a metrics file up to `progress`, which a resumed run does not write again: steps and evaluations. Other
/// lines are dropped.
std::string kept_metrics(std::istream& lines, const Progress& progress);

/// Calls `take` with the numbers of each line that has a step, by key, in the order of the file. What something else
/// wrote, or is not whole since the run still goes on, is passed over.
void read_metrics(const std::filesystem::path& run, const std::function<void(const nlohmann::ordered_json&)>& take);
/// Calls `take` with each line's figures of saved tensors (MemoryPolicy::figures): {KEY: {NAME: number}}.
void read_tensor_figures(const std::filesystem::path& run,
                         const std::function<void(double step, const nlohmann::ordered_json&)>& take);

/// metrics.jsonl of a run.
class MetricsLog {
 public:
  /// Goes on with the file, without what is about to happen again.
  MetricsLog(const RunFolder& folder, const Progress& progress);
  void write(const nlohmann::ordered_json& line);
  /// The number that the last line with such a key has, if any.
  std::optional<double> last(const char* key) const;
  /// Returns when all lines have reached the disk.
  void sync() const { sync_file(path_); }

 private:
  std::filesystem::path folder_, path_;
  std::ofstream stream_;
};

}  // namespace lacuna::apps
