// Benchmark of memory policies' step times relative to `exact`, with alternating steps.
//
//     bench_policy_times CONFIG.yaml STEPS [key=value ...] memory={...} [memory={...} ...]
//
// One process holds a training under `exact` and, one at a time, a training under each given policy, all with the other
// overrides. A policy's ratio is the median over its STEPS steps of step time / mean time of the `exact` steps just
// before and after, so that clock drift and noisy neighbours affect both. For each policy, in order, it prints a line
// with its median seconds, those of `exact`, and the ratio; then the number of steps during which the threads shared a
// last-level cache, and their ratio; then the same for the other steps.
// The two virtual processors of a guest may or may not share a last-level cache, and that changes over time. It is
// detected just after a step by the round trip of a number between two threads: about 100 ns if shared, 400 ns if not.
// With one thread, all steps count as shared. The ratio of no steps is 0.
#include "apps/config/resolve.h"
#include "apps/train/machine_costs.h"
#include "apps/train/measure.h"
#include "apps/train/planning.h"
#include "bench/bench.h"

#include <fmt/core.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

using namespace lacuna;

namespace {

class Subject {
 public:
  explicit Subject(const apps::Experiment& configuration)
      : configuration_(configuration), setup_(configuration, Device::cpu) {}

  double step_seconds() {
    std::vector<Batch> batch = apps::example(configuration_, setup_);
    const auto begin = std::chrono::steady_clock::now();
    trainer_.step(std::move(batch), number_++, configuration_.optimizer.lr);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }

 private:
  apps::Experiment configuration_;
  apps::Setup setup_;
  Trainer trainer_{setup_.trainer()};
  std::int64_t number_ = 0;
};

/// Seconds of a number's round trip between two threads.
double round_trip_seconds() {
  constexpr int counted = 2000,
                trips = 2 * counted;  // only the second half counts, since both threads may start on one processor
  if (threads() < 2) return 0;
  alignas(128) std::atomic<int> turn = 0;
  const auto wait_for = [&](int value) {
    while (turn.load(std::memory_order_acquire) != value) {
    }
  };
  std::jthread other([&] {
    for (int trip = 0; trip < trips; ++trip) {
      wait_for(2 * trip + 1);
      turn.store(2 * trip + 2, std::memory_order_release);
    }
  });
  std::chrono::steady_clock::time_point begin;
  for (int trip = 0; trip < trips; ++trip) {
    if (trip == counted) begin = std::chrono::steady_clock::now();
    turn.store(2 * trip + 1, std::memory_order_release);
    wait_for(2 * trip + 2);
  }
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() / counted;
}

void compare(Subject& policy, Subject& exact, int steps) {
  constexpr int warm_up = 2;
  constexpr double longest_within_cache = 220e-9;
  std::vector<double> own, beside, ratios, on_one, on_two;
  double before = exact.step_seconds();
  for (int i = -warm_up; i < steps; ++i) {
    const double seconds = policy.step_seconds(), after = exact.step_seconds();
    if (i >= 0) {
      own.push_back(seconds);
      beside.push_back(after);
      ratios.push_back(2 * seconds / (before + after));
      (round_trip_seconds() < longest_within_cache ? on_one : on_two).push_back(ratios.back());
    }
    before = after;
  }
  const auto median_or_none = [](const std::vector<double>& some) { return some.empty() ? 0 : bench::median(some); };
  fmt::print("{:.6f} {:.6f} {:.4f} {} {:.4f} {} {:.4f}\n", bench::median(own), bench::median(beside),
             bench::median(ratios), on_one.size(), median_or_none(on_one), on_two.size(), median_or_none(on_two));
  std::fflush(stdout);
}

}  // namespace

int main(int count, char** arguments) {
  std::vector<std::string> common, policies;
  for (int i = 3; i < count; ++i) {
    const std::string word = arguments[i];
    (word.starts_with("memory=") ? policies : common).push_back(word);
  }
  const int steps = count > 2 ? std::atoi(arguments[2]) : 0;
  if (steps < 1 || policies.empty()) {
    fmt::print(stderr, "bench_policy_times CONFIG.yaml STEPS [key=value ...] memory={{...}} [memory={{...}} ...]\n");
    return 2;
  }
  try {
    const auto made = [&](const std::string& memory) {
      std::vector<std::string> overrides = common;
      overrides.push_back(memory);
      apps::Experiment configuration = apps::resolve(apps::read_configuration(arguments[1], overrides));
      apps::plan_memory(configuration, apps::machine_costs());
      return configuration;
    };
    Subject exact(made("memory={policy: exact}"));
    for (const std::string& memory : policies) {
      Subject policy(made(memory));
      compare(policy, exact, steps);
    }
  } catch (const Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
}
