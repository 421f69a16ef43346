// lacuna bench: timed training steps on made-up input, with their memory.
#include "apps/command.h"
#include "apps/config/configuration_options.h"
#include "apps/config/resolve.h"
#include "apps/output/output.h"
#include "apps/report/step_page.h"
#include "apps/train/crowding.h"
#include "apps/train/fit.h"
#include "apps/train/loader_cost.h"
#include "apps/train/machine_costs.h"
#include "apps/train/measure.h"
#include "apps/train/planning.h"
#include "apps/train/policy_choice.h"
#include "apps/train/profile.h"
#include "apps/train/settle.h"
#include "apps/train/timeline.h"
#include "core/file.h"
#include "core/parallel.h"

#include <CLI/CLI.hpp>

#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>

namespace lacuna::apps {
namespace {

struct BenchOptions {
  ConfigurationOptions configuration;
  int steps = 10;
  bool profile = false;
  std::string timeline, beside = "keep";
  Report report;
};

void require_fit(const Experiment& experiment, Device device) {
  Setup planned(experiment, Device::meta);
  apps::require_fit(planned, experiment, device, false);
}

Result timeline_of(const Experiment& experiment, Device device) {
  require_fit(experiment, device);
  return step_result(policy_title(experiment), with_advice_when_exhausted(experiment, false, [&] {
                       Setup setup(experiment, device);
                       nlohmann::ordered_json json = to_json(measure(setup, experiment, {.warm_up = 1, .steps = 3}));
                       json["timeline"] = record_timeline(setup, experiment, machine_costs());
                       return json;
                     }));
}

/// Writes the page of a step's memory under the configuration's policy and the one beside it.
void write_timeline(const BenchOptions& options, const Experiment& experiment, Device device) {
  AtomicFile file(options.timeline);
  std::vector<Result> results;
  const Experiment beside = under_policy(experiment, options.beside);
  if (policy_title(beside) != policy_title(experiment)) results.push_back(timeline_of(beside, device));
  results.push_back(timeline_of(experiment, device));
  file.write(step_page("lacuna bench --timeline", experiment, results));
  file.commit();
}

ExitCode bench(const BenchOptions& options) {
  Experiment experiment = settled(options.configuration.parse());
  const Device device = existing_device(experiment);
  plan_memory(experiment, machine_costs());
  if (device == Device::meta) reject("train.device: meta computes nothing to time; `lacuna plan` tells its memory");
  const ThreadCountScope threads(static_cast<int>(experiment.train.threads));
  warn_if_crowded();
  if (device == Device::cpu) note_if_shared(experiment.train.precision);
  require_fit(experiment, device);
  Profile profile(device);
  const Measurement m = with_advice_when_exhausted(experiment, false, [&] {
    return measure(experiment, device,
                   {.warm_up = device.kind == DeviceKind::cuda ? 3 : 2,  // the third is captured
                    .steps = options.steps,
                    .observer = options.profile ? &profile : nullptr});
  });
  nlohmann::ordered_json json = to_json(m);
  const double seconds = std::accumulate(m.step_seconds.begin(), m.step_seconds.end(), 0.0);
  std::string text = fmt::format(
      "{}: batch {}, {}, {} threads, policy {}\n{}{:.2f} samples/s; a step takes {:.1f} ms (from {:.1f} to {:.1f})\n{}"
      "process peak {}\n",
      m.model, m.batch_size, m.precision, m.threads, m.policy, experiment.plan ? experiment.plan->text + "\n" : "",
      json["samples_per_second"].get<double>(), 1e3 * json["step_seconds"]["median"].get<double>(),
      1e3 * m.step_seconds.front(), 1e3 * m.step_seconds.back(), memory_table({m}, {m.policy}),
      format_bytes(m.process_peak));
  if (options.profile) {
    text += "\n" + profile.table(options.steps, seconds);
    json["profile"] = profile.json(options.steps);
    if (const std::optional<double> loader = loader_cost(experiment, options.steps)) {
      text += fmt::format(
          "\nloader: {:.1f} ms of processor time a batch ({:.2f} ms a sample), shared by {} (data.workers)\n",
          1e3 * *loader, 1e3 * *loader / static_cast<double>(m.batch_size), m.workers);
      json["loader"] = {{"cpu_seconds_per_batch", *loader}, {"workers", m.workers}};
    } else {
      text += "\nloader: not timed, since the configuration has no data.path\n";
    }
  }
  if (!options.timeline.empty()) {
    write_timeline(options, experiment, device);
    text += "\n" + options.timeline + "\n";
  }
  options.report.write(text, json);
  return 0;
}

const RegisterCommand bench_command(
    30, "bench", "time training steps on made-up input, with their memory", [](CLI::App& app) {
      const auto options = std::make_shared<BenchOptions>();
      options->configuration.declare(app, true);
      options->configuration.declare_image_gradient(app);
      app.add_option("--steps", options->steps, "number of timed steps; two more come first, to warm up")
          ->check(CLI::Range(1, 100000));
      app.add_flag("--profile", options->profile,
                   "show time, bytes and rate of each op, and the loader's processor time");
      app.add_option("--timeline", options->timeline, "write a page with the bytes in memory over one step")
          ->type_name("FILE.html");
      app.add_option("--beside", options->beside,
                     "with --timeline, the policy that is shown beside the configuration's, as fixed:4")
          ->capture_default_str()
          ->needs("--timeline");
      options->report.declare(app);
      return std::function<ExitCode()>([options] { return bench(*options); });
    });

}  // namespace
}  // namespace lacuna::apps
