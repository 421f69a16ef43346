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

/// The rate at the end, which lies at or below `lr`.
double floor_of(const Settings& settings, const ScheduleRun& run, std::string_view schedule) {
  const double min_lr = settings.number("min_lr");
  if (min_lr > run.lr) reject("schedule {}: min_lr {} lies above the learning rate {}", schedule, min_lr, run.lr);
  return min_lr;
}

/// From `from` to `to` by half a cosine, `share` of the way.
double cosine_between(double from, double to, double share) {
  return to + 0.5 * (from - to) * (1 + std::cos(std::numbers::pi * share));
}

double share_of(std::int64_t step, std::int64_t steps) {
  return steps <= 0 ? 1 : static_cast<double>(std::min(step, steps)) / static_cast<double>(steps);
}

/// min_lr + (lr − min_lr)·(1 + cos(π·t/T))/2, T the steps of the run: timm's CosineLRScheduler with one cycle, and
/// torch's CosineAnnealingLR. With `cycle_epochs`, restarts (Loshchilov and Hutter 2017) as timm's: each cycle is
/// `cycle_mul` times as long as the one before and begins at `cycle_decay` times its rate.
struct Cosine {
  static constexpr std::string_view name = "cosine";
  static std::vector<Setting> settings() {
    return {{"min_lr", 0.0, not_negative, "the rate at the end"},
            {"cycle_epochs", 0.0, not_negative, "epochs after which the rate starts again; 0: never"},
            {"cycle_mul", 1.0, {.low = 1, .high = 100, .below_high = false}, "length of a cycle, by the one before"},
            {"cycle_decay", 1.0, up_to_one, "highest rate of a cycle, by that of the one before"}};
  }
  static Schedule make(const Settings& settings, const ScheduleRun& run) {
    const double min_lr = floor_of(settings, run, name), decay = settings.number("cycle_decay");
    const double epochs = settings.number("cycle_epochs"), mul = settings.number("cycle_mul");
    if (epochs == 0) {
      return [=, lr = run.lr, total = std::max<std::int64_t>(run.total_steps, 1)](std::int64_t step) {
        return cosine_between(lr, min_lr, share_of(step, total));
      };
    }
    const std::int64_t first = steps_of(epochs, run);
    if (first == 0) reject("schedule cosine: a cycle of {} epochs is shorter than a step", epochs);
    return [=, lr = run.lr](std::int64_t step) {
      double begin = 0, length = static_cast<double>(first), highest = lr;
      while (static_cast<double>(step) >= begin + length) {
        begin += length;
        length *= mul;
        highest *= decay;
      }
      return cosine_between(highest, min_lr, (static_cast<double>(step) - begin) / length);
    };
  }
};

/// min_lr + (lr − min_lr)·(1 − share)^power, counted from the end of the warm-up: transformers'
/// get_polynomial_decay_schedule_with_warmup.
Schedule polynomial_decay(double lr, double min_lr, double power, const ScheduleRun& run) {
  return [=, first = run.warmup_steps, steps = run.total_steps - run.warmup_steps](std::int64_t step) {
    return min_lr + (lr - min_lr) * std::pow(1 - share_of(std::max<std::int64_t>(step - first, 0), steps), power);
  };
}

/// With `power` 1; transformers' get_linear_schedule_with_warmup.
struct Linear {
  static constexpr std::string_view name = "linear";
  static std::vector<Setting> settings() { return {{"min_lr", 0.0, not_negative, "the rate at the end"}}; }
  static Schedule make(const Settings& settings, const ScheduleRun& run) {
    return polynomial_decay(run.lr, floor_of(settings, run, name), 1, run);
  }
};

struct Polynomial {
  static constexpr std::string_view name = "polynomial";
  static std::vector<Setting> settings() {
    return {{"min_lr", 0.0, not_negative, "the rate at the end"},
            {"power", 1.0, {.low = 0, .high = 100, .below_high = false}, "of what is left of the run"}};
  }
  static Schedule make(const Settings& settings, const ScheduleRun& run) {
    return polynomial_decay(run.lr, floor_of(settings, run, name), settings.number("power"), run);
  }
};

/// Smith and Topin 2018: from lr / `start_divisor` up to lr and down to lr / `start_divisor` / `end_divisor`, by half
/// cosines: torch.optim.lr_scheduler.OneCycleLR with cycle_momentum=False. It has no other warm-up.
struct OneCycle {
  static constexpr std::string_view name = "one_cycle";
  static std::vector<Setting> settings() {
    return {{"rise", 0.3, below_one, "share of the run in which the rate rises"},
            {"start_divisor", 25.0, {.low = 1, .high = 1e12}, "the highest rate by the first"},
            {"end_divisor", 1e4, {.low = 1, .high = 1e12}, "the first rate by the last"}};
  }
  static Schedule make(const Settings& settings, const ScheduleRun& run) {
    if (run.warmup_steps > 0) reject("schedule one_cycle: it rises by itself; warmup_epochs expected 0");
    const double start = run.lr / settings.number("start_divisor"), end = start / settings.number("end_divisor");
    const double last = static_cast<double>(run.total_steps) - 1;
    const double top = settings.number("rise") * static_cast<double>(run.total_steps) - 1;
    return [=, lr = run.lr](std::int64_t step) {
      const double t = std::min(static_cast<double>(step), last);
      if (t <= top) return cosine_between(start, lr, top > 0 ? t / top : 1);
      return cosine_between(lr, end, (t - top) / (last - top));  // `top` lies before step 0 in a run of few steps
    };
  }
};

const RegisterSchedule<Constant> constant;
const RegisterSchedule<Step> step;
const RegisterSchedule<Cosine> cosine;
const RegisterSchedule<Linear> linear;
const RegisterSchedule<Polynomial> polynomial;
const RegisterSchedule<OneCycle> one_cycle;

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
  ScheduleRun behind_warmup = run;
  behind_warmup.warmup_steps = warmup;
  Schedule behind = kind.make(checked, behind_warmup);
  if (warmup == 0) return behind;
  return [=, behind = std::move(behind), lr = run.lr, from = checked.number("warmup_lr")](std::int64_t number) {
    if (number >= warmup) return behind(number);
    return from + static_cast<double>(number) * (lr - from) / static_cast<double>(warmup);
  };
}

}  // namespace lacuna
