#include "optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace lacuna {
namespace {

/// Steps of any run are far below 2^63.
constexpr NumberRange epoch_range = up_to(1e9);

std::int64_t steps_of(double epochs, const ScheduleRun& run) {
  return std::llround(epochs * static_cast<double>(run.steps_per_epoch));
}

/// The base rate throughout.
struct Constant : WarmupOptions {
  static constexpr std::string_view name = "constant";
  static Fields fields() { return rows_of_base<Constant, WarmupOptions>(); }
  Schedule make(const ScheduleRun& run) const {
    return [lr = run.lr](std::int64_t) { return lr; };
  }
};

/// lr·γ^k with k the milestones (in epochs) reached: torch.optim.lr_scheduler.MultiStepLR.
struct Step : WarmupOptions {
  static constexpr std::string_view name = "step";
  std::vector<double> milestones;
  double gamma = 0.1;

  static Fields fields() {
    return rows_of_base<Step, WarmupOptions>() + Fields{field("milestones", &Step::milestones, epoch_range,
                                                              "epochs at which the learning rate drops, ascending"),
                                                        field("gamma", &Step::gamma, up_to(1), "factor of each drop")};
  }
  Schedule make(const ScheduleRun& run) const {
    std::vector<std::int64_t> steps;
    for (const double epoch : milestones) steps.push_back(steps_of(epoch, run));
    if (steps.empty()) reject("schedule step: milestones expected at least one epoch");
    if (!std::is_sorted(steps.begin(), steps.end())) reject("schedule step: milestones must ascend");
    return [steps, lr = run.lr, gamma = gamma](std::int64_t step) {
      return lr * std::pow(gamma, std::upper_bound(steps.begin(), steps.end(), step) - steps.begin());
    };
  }
};

constexpr std::string_view min_lr_help = "learning rate at the end";

/// Refuses a final rate above `lr`.
void check_min_lr(double min_lr, const ScheduleRun& run, std::string_view schedule) {
  if (min_lr > run.lr) reject("schedule {}: min_lr {} lies above the learning rate {}", schedule, min_lr, run.lr);
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
struct Cosine : WarmupOptions {
  static constexpr std::string_view name = "cosine";
  double min_lr = 0, cycle_epochs = 0, cycle_mul = 1, cycle_decay = 1;

  static Fields fields() {
    return rows_of_base<Cosine, WarmupOptions>() +
           Fields{field("min_lr", &Cosine::min_lr, min_lr_help),
                  field("cycle_epochs", &Cosine::cycle_epochs, epoch_range,
                        "epochs between warm restarts; 0: no restarts"),
                  field("cycle_mul", &Cosine::cycle_mul, between(1, 100), "length of each cycle relative to the last"),
                  field("cycle_decay", &Cosine::cycle_decay, up_to(1),
                        "peak learning rate of each cycle relative to the last")};
  }
  Schedule make(const ScheduleRun& run) const {
    check_min_lr(min_lr, run, name);
    if (cycle_epochs == 0) {
      return [min_lr = min_lr, lr = run.lr, total = std::max<std::int64_t>(run.total_steps, 1)](std::int64_t step) {
        return cosine_between(lr, min_lr, share_of(step, total));
      };
    }
    const std::int64_t first = steps_of(cycle_epochs, run);
    if (first <= 0) reject("schedule cosine: a cycle of {} epochs is shorter than a step", cycle_epochs);
    return [first, min_lr = min_lr, mul = cycle_mul, decay = cycle_decay, lr = run.lr](std::int64_t step) {
      double begin = 0, length = static_cast<double>(first), highest = lr;
      if (mul == 1) {
        const double cycles = std::floor(static_cast<double>(step) / length);
        begin = cycles * length;
        highest *= std::pow(decay, cycles);
      }
      while (mul > 1 && static_cast<double>(step) >= begin + length) {
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
Schedule polynomial_decay(double min_lr, double power, const ScheduleRun& run, std::string_view schedule) {
  check_min_lr(min_lr, run, schedule);
  return [=, lr = run.lr, first = run.warmup_steps, steps = run.total_steps - run.warmup_steps](std::int64_t step) {
    return min_lr + (lr - min_lr) * std::pow(1 - share_of(std::max<std::int64_t>(step - first, 0), steps), power);
  };
}

/// With `power` 1; transformers' get_linear_schedule_with_warmup.
struct Linear : WarmupOptions {
  static constexpr std::string_view name = "linear";
  double min_lr = 0;

  static Fields fields() {
    return rows_of_base<Linear, WarmupOptions>() + Fields{field("min_lr", &Linear::min_lr, min_lr_help)};
  }
  Schedule make(const ScheduleRun& run) const { return polynomial_decay(min_lr, 1, run, name); }
};

struct Polynomial : WarmupOptions {
  static constexpr std::string_view name = "polynomial";
  double min_lr = 0, power = 1;

  static Fields fields() {
    return rows_of_base<Polynomial, WarmupOptions>() +
           Fields{field("min_lr", &Polynomial::min_lr, min_lr_help),
                  field("power", &Polynomial::power, up_to(100), "power of the remaining fraction of the run")};
  }
  Schedule make(const ScheduleRun& run) const { return polynomial_decay(min_lr, power, run, name); }
};

/// Smith and Topin 2018: from lr / `start_divisor` up to lr and down to lr / `start_divisor` / `end_divisor`, by half
/// cosines: torch.optim.lr_scheduler.OneCycleLR with cycle_momentum=False. It has no other warm-up.
struct OneCycle : WarmupOptions {
  static constexpr std::string_view name = "one_cycle";
  double rise = 0.3, start_divisor = 25, end_divisor = 1e4;

  static Fields fields() {
    return rows_of_base<OneCycle, WarmupOptions>() +
           Fields{field("rise", &OneCycle::rise, below(1), "fraction of the run in which the learning rate rises"),
                  field("start_divisor", &OneCycle::start_divisor, divisors, "peak learning rate / first one"),
                  field("end_divisor", &OneCycle::end_divisor, divisors, "first learning rate / last one")};
  }
  Schedule make(const ScheduleRun& run) const {
    if (run.warmup_steps > 0) reject("schedule one_cycle: it rises by itself; warmup_epochs expected 0");
    const double start = run.lr / start_divisor, end = start / end_divisor;
    const double last = static_cast<double>(run.total_steps) - 1;
    const double top = rise * static_cast<double>(run.total_steps) - 1;
    return [=, lr = run.lr](std::int64_t step) {
      const double t = std::min(static_cast<double>(step), last);
      if (t <= top) return cosine_between(start, lr, top > 0 ? t / top : 1);
      return cosine_between(lr, end, (t - top) / (last - top));  // `top` lies before step 0 in a run of few steps
    };
  }

 private:
  static constexpr NumberRange divisors{.low = 1, .high = 1e12};
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

Fields WarmupOptions::fields() {
  return {
      field("warmup_epochs", &WarmupOptions::warmup_epochs, epoch_range, "epochs of linear warm-up; may be a fraction"),
      field("warmup_lr", &WarmupOptions::warmup_lr, "learning rate of the first warm-up step")};
}

Schedule make_schedule(std::string_view name, const OptionValues& given, const ScheduleRun& run) {
  const ScheduleKind& kind = schedules().get(name);
  const Options checked = read_options(fmt::format("schedule {}", name), kind.options, given);
  const WarmupOptions& own = kind.warmup(checked);
  const std::int64_t warmup = steps_of(own.warmup_epochs, run);
  if (warmup > run.total_steps)
    reject("schedule {}: a warm-up of {} epochs is longer than the run of {}", name, own.warmup_epochs,
           static_cast<double>(run.total_steps) / static_cast<double>(run.steps_per_epoch));
  ScheduleRun behind_warmup = run;
  behind_warmup.warmup_steps = warmup;
  Schedule behind = kind.make(checked, behind_warmup);
  if (warmup == 0) return behind;
  return [=, behind = std::move(behind), lr = run.lr, from = own.warmup_lr](std::int64_t number) {
    if (number >= warmup) return behind(number);
    return from + static_cast<double>(number) * (lr - from) / static_cast<double>(warmup);
  };
}

}  // namespace lacuna
