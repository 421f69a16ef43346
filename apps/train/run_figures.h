// Memory and time of the steps of a run.
#pragma once

#include "apps/train/measure.h"
#include "apps/train/setup.h"

#include <nlohmann/json_fwd.hpp>

#include <optional>
#include <vector>

namespace lacuna::apps {

class RunFigures {
 public:
  /// Both live longer than this object.
  RunFigures(const Experiment& experiment, const Setup& setup) : experiment_(experiment), setup_(setup) {}

  void step_begins();
  /// Notes what a step saves by module.
  StepHooks step_hooks() { return saved_by_path_.hooks(setup_.model().context().device); }
  /// Notes the step's memory where it is the highest so far.
  void step_ended(const StepResult& result);
  /// `seconds`: of a step, with the calibration that may have been in it.
  void add_time(double seconds, double calibration_seconds);
  /// Seconds of the last calibration of the process before, under the same settings.
  void set_calibration_before(double seconds) { calibrations_before_ = {seconds}; }

  /// Steps of this process.
  std::int64_t steps() const { return std::ssize(step_seconds_); }
  /// Mean of the last ten steps, with what calibrations add to each.
  double recent_seconds() const;
  /// Bytes of tensors now and at the highest moment of a step, without batches that are prepared ahead.
  std::int64_t held() const;
  std::int64_t peak() const { return highest_step_.peak; }

  /// With the keys of summary.json. `noted`: those that the process before wrote down, for a run that takes no step.
  nlohmann::ordered_json to_json(const std::optional<nlohmann::ordered_json>& noted) const;

 private:
  const Ledger& account() const { return ledger(setup_.model().context().device); }
  /// Calibrations of this process; before its first one, the last of the process before.
  const std::vector<double>& calibrations() const {
    return calibration_seconds_.empty() ? calibrations_before_ : calibration_seconds_;
  }

  const Experiment& experiment_;
  const Setup& setup_;
  Measurement highest_step_{};    // memory of the step with the highest peak
  std::int64_t most_held_ = 0;    // bytes of tensors at any moment until the last step began
  std::int64_t saved_bytes_ = 0;  // the most held for backward by any step
  SavedByPath saved_by_path_{};
  std::vector<double> step_seconds_;  // less those of calibrations
  std::vector<double> calibration_seconds_, calibrations_before_;
};

}  // namespace lacuna::apps
