// Learning rates as pure functions of the step: a resumed run sees what an unbroken one would have seen.
#pragma once

#include "core/registry.h"
#include "core/settings.h"

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

namespace lacuna {

/// Learning rate of a step, counted from 0.
using Schedule = std::function<double(std::int64_t step)>;

/// The run a schedule is for.
struct ScheduleRun {
  double lr = 0;  // the base rate
  std::int64_t total_steps = 0;
  std::int64_t steps_per_epoch = 1;
  std::int64_t warmup_steps = 0;  // make_schedule sets it
};

/// A schedule by name. `settings` includes `warmup_epochs` and `warmup_lr`; epochs may be fractions.
struct ScheduleKind {
  std::vector<Setting> settings;
  std::function<Schedule(const Settings&, const ScheduleRun&)> make;  // without the warm-up
};
Registry<ScheduleKind>& schedules();

/// The schedule `name` behind a linear warm-up: step t < w has lr warmup_lr + t·(lr - warmup_lr)/w, w the steps of
/// `warmup_epochs`; later ones have the schedule's rate at t, not at t - w (timm's schedulers, warmup_prefix=False),
/// but for those that say otherwise. Rejects unknown names and settings, and a warm-up longer than the run.
Schedule make_schedule(std::string_view name, const SettingValues& settings, const ScheduleRun& run);

/// Registers a struct with `name`, a table `settings()`, and `static Schedule make(Settings, ScheduleRun)`.
template <class Concrete>
struct RegisterSchedule {
  RegisterSchedule() {
    std::vector<Setting> settings{
        {"warmup_epochs", 0.0, not_negative, "epochs in which the rate rises linearly, fractions too"},
        {"warmup_lr", 1e-6, not_negative, "the rate of the first step of a warm-up"}};
    for (const Setting& setting : Concrete::settings()) settings.push_back(setting);
    schedules().add(Concrete::name, {std::move(settings), Concrete::make});
  }
};

}  // namespace lacuna
