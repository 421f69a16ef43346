#include "optim/schedule.h"

#include "core/error.h"

#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

using namespace lacuna;

TEST_CASE("a warm-up rises to the base rate and hands over") {
  const Schedule schedule = make_schedule("constant", {{"warmup_epochs", 2.0}, {"warmup_lr", 0.0}},
                                          {.lr = 0.5, .total_steps = 40, .steps_per_epoch = 5});
  CHECK(schedule(0) == 0);
  CHECK(schedule(5) == 0.25);
  CHECK(schedule(10) == 0.5);
  CHECK(schedule(39) == 0.5);
}

TEST_CASE("the cosine stays at its floor after the end") {
  const Schedule schedule =
      make_schedule("cosine", {{"min_lr", 0.1}}, {.lr = 1, .total_steps = 10, .steps_per_epoch = 5});
  CHECK(schedule(0) == 1);
  CHECK(schedule(5) == doctest::Approx(0.55));
  CHECK(schedule(10) == doctest::Approx(0.1));
  CHECK(schedule(1000) == schedule(10));
}

TEST_CASE("impossible schedules are refused") {
  const ScheduleRun run{.lr = 0.1, .total_steps = 10, .steps_per_epoch = 5};
  CHECK_THROWS_WITH_AS(make_schedule("cosin", {}, run), doctest::Contains("cosine?"), Error);
  CHECK_THROWS_WITH_AS(make_schedule("cosine", {{"min_lr", 0.2}}, run),
                       doctest::Contains("schedule cosine: min_lr 0.2"), Error);
  CHECK_THROWS_WITH_AS(make_schedule("cosine", {{"warmup_epochs", 3.0}}, run),
                       doctest::Contains("schedule cosine: a warm-up of 3 epochs"), Error);
  CHECK_THROWS_WITH_AS(make_schedule("step", {}, run), doctest::Contains("schedule step: milestones"), Error);
  CHECK_THROWS_WITH_AS(make_schedule("step", {{"milestones", std::vector<double>{3, 1}}}, run),
                       doctest::Contains("schedule step: milestones"), Error);
  CHECK_THROWS_WITH_AS(make_schedule("step", {{"milestones", 3.0}}, run),
                       doctest::Contains("schedule step: milestones"), Error);
  for (const double epochs : {2e9, 1e300}) {  // more steps than a whole number holds
    for (const std::string key : {"cycle_epochs", "warmup_epochs"})
      CHECK_THROWS_WITH_AS(make_schedule("cosine", {{key, epochs}}, run), doctest::Contains(key.c_str()), Error);
    CHECK_THROWS_WITH_AS(make_schedule("step", {{"milestones", std::vector<double>{epochs}}}, run),
                         doctest::Contains("milestones"), Error);
  }
}

TEST_CASE("a cosine restarts in every cycle, however many") {
  const auto rate = [](double mul, std::int64_t step) {
    return make_schedule("cosine", {{"cycle_epochs", 1.0}, {"cycle_mul", mul}, {"cycle_decay", 0.5}, {"min_lr", 0.0}},
                         {.lr = 1, .total_steps = 40, .steps_per_epoch = 4})(step);
  };
  for (const std::int64_t cycle : {0, 1, 5, 9}) {
    CHECK(rate(1, 4 * cycle) == doctest::Approx(std::pow(0.5, cycle)));
    CHECK(rate(1, 4 * cycle + 2) == doctest::Approx(std::pow(0.5, cycle + 1)));
  }
  CHECK(rate(2, 4) == doctest::Approx(0.5));
  CHECK(rate(2, 12) == doctest::Approx(0.25));
  CHECK(std::isfinite(rate(1, std::int64_t{1} << 60)));
}

TEST_CASE("one_cycle has torch's rates in runs of few steps") {
  const std::vector<std::vector<double>> of_steps = {// torch 2.15, OneCycleLR(1e-3, total_steps=n, pct_start=0.3)
                                                     {4e-09},
                                                     {0.0008117456539497629, 4e-09},
                                                     {0.0009944154354509117, 0.00046263710266697503, 4e-09},
                                                     {4e-05, 0.0008117456539497629, 0.0002830609982086992, 4e-09}};
  for (const std::vector<double>& rates : of_steps) {
    const std::int64_t steps = std::ssize(rates);
    const Schedule schedule =
        make_schedule("one_cycle", {}, {.lr = 1e-3, .total_steps = steps, .steps_per_epoch = steps});
    for (std::int64_t i = 0; i < steps; ++i)
      CHECK(schedule(i) == doctest::Approx(rates[static_cast<std::size_t>(i)]).epsilon(1e-9));
  }
}

TEST_CASE("every schedule has finite rates in a run of one step") {
  for (const std::string& name : schedules().names()) {
    const OptionValues settings =
        name == "step" ? OptionValues{{"milestones", std::vector<double>{1}}} : OptionValues{};
    const Schedule schedule = make_schedule(name, settings, {.lr = 1e-3, .total_steps = 1, .steps_per_epoch = 1});
    for (const std::int64_t step : {0, 1, 2}) {
      CHECK(std::isfinite(schedule(step)));
      CHECK(schedule(step) <= 1e-3);
    }
  }
}
