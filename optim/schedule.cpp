#include "optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace lacuna {
namespace {

std::int64_t steps_of(double epochs, const ScheduleRun& run) {
  return std::llround(epochs * static_cast<double>(run.steps_per_epoch));
}

/// The base rate throughout.
struct Constant {
  static constexpr std::string_view name = "constant";
  static std::vector<Setting> settings() { return {}; }
  static Schedule make(const Settings&, const ScheduleRun& run) {
    return [lr = run.lr](std::int64_t) { return lr; };
  }
};

/// lr·γ^k with k the milestones (in epochs) reached: torch.optim.lr_scheduler.MultiStepLR.
struct Step {
  static constexpr std::string_view name = "step";
  static std::vector<Setting> settings() {
    return {{"milestones", std::vector<double>{}, not_negative, "epochs at which the rate falls, ascending"},
            {"gamma", 0.1, up_to_one, "factor of each fall"}};
  }
  static Schedule make(const Settings& settings, const ScheduleRun& run) {
    std::vector<std::int64_t> milestones;
    for (const double epoch : settings.numbers("milestones")) milestones.push_back(steps_of(epoch, run));
    if (milestones.empty()) reject("schedule step: milestones expected at least one epoch");
    if (!std::is_sorted(milestones.begin(), milestones.end())) reject("schedule step: milestones must ascend");
    return [=, lr = run.lr, gamma = settings.number("gamma")](std::int64_t step) {
      return lr * std::pow(gamma, std::upper_bound(milestones.begin(), milestones.end(), step) - milestones.begin());
    };
  }
};

/// min_lr + (lr − min_lr)·(1 + cos(π·t/T))/2, T the steps of the run: timm's CosineLRScheduler with one cycle, and
/// torch's CosineAnnealingLR.
struct Cosine {
  static constexpr std::string_view name = "cosine";
  static std::vector<Setting> settings() { return {{"min_lr", 0.0, not_negative, "the rate at the end"}}; }
  static Schedule make(const Settings& settings, const ScheduleRun& run) {
    const double min_lr = settings.number("min_lr");
    if (min_lr > run.lr) reject("schedule cosine: min_lr {} lies above the learning rate {}", min_lr, run.lr);
    return [=, lr = run.lr, total = std::max<std::int64_t>(run.total_steps, 1)](std::int64_t step) {
      const double done = static_cast<double>(std::min(step, total)) / static_cast<double>(total);
      return min_lr + 0.5 * (lr - min_lr) * (1 + std::cos(std::numbers::pi * done));
    };
  }
};

const RegisterSchedule<Constant> constant;
const RegisterSchedule<Step> step;
const RegisterSchedule<Cosine> cosine;

}  // namespace

Registry<ScheduleKind>& schedules() {
  static Registry<ScheduleKind> registry("schedule");
  return registry;
}

Schedule make_schedule(std::string_view name, const SettingValues& settings, const ScheduleRun& run) {
  const ScheduleKind& kind = schedules().get(name);
  const Settings checked(fmt::format("schedule {}", name), kind.settings, settings);
  const std::int64_t warmup = steps_of(checked.number("warmup_epochs"), run);
  if (warmup > run.total_steps)
    reject("schedule {}: a warm-up of {} epochs is longer than the run of {}", name, checked.number("warmup_epochs"),
           static_cast<double>(run.total_steps) / static_cast<double>(run.steps_per_epoch));
  Schedule behind = kind.make(checked, run);
  if (warmup == 0) return behind;
  return [=, behind = std::move(behind), lr = run.lr, from = checked.number("warmup_lr")](std::int64_t step) {
    if (step >= warmup) return behind(step);
    return from + static_cast<double>(step) * (lr - from) / static_cast<double>(warmup);
  };
}

}  // namespace lacuna
