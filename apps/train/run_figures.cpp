#include "apps/train/run_figures.h"

#include "core/system_memory.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <numeric>

namespace lacuna::apps {

void RunFigures::step_begins() {
  Ledger& account = ledger(setup_.model().context().device);
  most_held_ = std::max(most_held_, account.peak());
  account.reset_peak();
}

void RunFigures::step_ended(const StepResult& result) {
  saved_bytes_ = std::max(saved_bytes_, result.saved_bytes);
  if (account().peak() - prepared_ahead(account().holders_at_peak()) <= highest_step_.peak) return;
  highest_step_ = describe(experiment_, setup_);
  read_account(account(), result.saved_bytes, highest_step_);
}

void RunFigures::add_time(double seconds, double calibration_seconds) {
  step_seconds_.push_back(seconds - calibration_seconds);
  if (calibration_seconds > 0) calibration_seconds_.push_back(calibration_seconds);
}

double RunFigures::recent_seconds() const {
  constexpr std::ptrdiff_t window = 10;  // steps
  const auto first = step_seconds_.end() - std::min(window, std::ssize(step_seconds_));
  return std::accumulate(first, step_seconds_.end(), 0.0) / static_cast<double>(step_seconds_.end() - first) +
         amortized(calibrations().empty() ? 0 : calibrations().back(), setup_.policy(), experiment_.train.accumulate);
}

std::int64_t RunFigures::held() const { return account().total() - prepared_ahead(account().holders()); }

nlohmann::ordered_json RunFigures::to_json(const std::optional<nlohmann::ordered_json>& noted) const {
  const bool took_none = step_seconds_.empty();
  if (took_none && noted) return *noted;
  Measurement measured = took_none ? describe(experiment_, setup_) : highest_step_;
  if (took_none) read_account(account(), saved_bytes_, measured);
  at(measured.memory, Purpose::saved) = saved_bytes_;
  measured.saved_by_path = saved_by_path_.bytes();
  measured.process_peak = process_peak();
  read_times(step_seconds_, calibrations(), setup_.policy(), experiment_.train.accumulate, measured);
  nlohmann::ordered_json json = apps::to_json(measured);
  json["peak_in_training"] = std::max(most_held_, account().peak());
  if (took_none) {  // nobody knows what one saves
    json["memory"]["saved"] = nullptr;
    json["process_peak"] = measured.process_peak;
    json["step_seconds"] = nullptr;
    json["saved_by_path"] = nlohmann::ordered_json::object();
  }
  constexpr std::int64_t telling = 3;  // steps: the median of fewer has the first one in it, which warms up as well
  if (steps() < telling) json["samples_per_second"] = nullptr;
  return json;
}

}  // namespace lacuna::apps
