// Learning rates as pure functions of the step: a resumed run sees what an unbroken one would have seen.
#pragma once

#include "core/registry.h"
#include "core/schema.h"

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

/// Options of every schedule. Epochs may be fractions.
struct WarmupOptions {
  double warmup_epochs = 0;
  double warmup_lr = 1e-6;

  static Fields fields();
};

/// A schedule by name.
struct ScheduleKind {
  Options options;  // with their defaults
  const WarmupOptions& (*warmup)(const Options&);
  Schedule (*make)(const Options&, const ScheduleRun&);  // without the warm-up
};
Registry<ScheduleKind>& schedules();

/// The schedule `name` behind a linear warm-up: step t < w has lr warmup_lr + t·(lr - warmup_lr)/w, w the steps of
/// `warmup_epochs`; later ones have the schedule's rate at t, not at t - w (timm's schedulers, warmup_prefix=False),
/// but for those that say otherwise. Rejects unknown names and options, and a warm-up longer than the run.
Schedule make_schedule(std::string_view name, const OptionValues& given, const ScheduleRun& run);

/// Registers the options of a schedule: a struct that derives from WarmupOptions, with `name` and
/// `Schedule make(const ScheduleRun&) const`.
template <class Own>
struct RegisterSchedule {
  RegisterSchedule() {
    schedules().add(Own::name,
                    {Own(), [](const Options& given) -> const WarmupOptions& { return given.as<Own>(); },
                     [](const Options& given, const ScheduleRun& run) { return given.as<Own>().make(run); }});
  }
};

}  // namespace lacuna
