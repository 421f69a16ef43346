// lacuna plan: what a configuration will take, from one training step on `meta`.
#include "apps/budget.h"
#include "apps/command.h"
#include "apps/configuration_options.h"
#include "apps/fit.h"
#include "apps/measure.h"
#include "apps/report.h"

#include <CLI/CLI.hpp>

#include <memory>
#include <nlohmann/json.hpp>

namespace lacuna::apps {
namespace {

struct Options {
  ConfigurationOptions configuration;
  std::vector<std::string> policies;
  Report report;
};

ExitCode plan(const Options& options) {
  const Configuration read = options.configuration.read();
  std::vector<std::string> policies = options.policies;
  if (policies.empty()) policies = {read.memory.policy};
  std::vector<Measurement> plans;
  for (const std::string& policy : policies) {
    Configuration configuration = read;
    configuration.memory.policy = policy;
    // Settings, and what a budget was turned into, belong to the policy that the file names.
    if (policy != read.memory.policy) {
      configuration.memory.options.clear();
      if (read.memory.policy == "auto") configuration.memory.rules.clear();
      if (read.memory.policy == "auto") configuration.memory.recompute.clear();
      fit_budget(configuration);
    }
    plans.push_back(measure(configuration, Device::meta));
  }
  const Measurement& first = plans.front();
  std::string text = fmt::format("{}: batch {}, {}, {} parameters, {} of them trained\n", first.model, first.batch_size,
                                 first.precision, first.parameters, first.trainable);
  text += memory_table(plans, policies);
  if (!read.memory.why.empty()) text += read.memory.why + "\n";
  if (plans.size() == 1)
    text += fmt::format("`train` prepares batches ahead: {} at most with them\n", format_bytes(highest_need(first)));
  if (plans.size() == 1) text += "largest holders at the peak:\n" + describe(first.at_peak, 8);
  nlohmann::ordered_json json;
  for (const Measurement& m : plans) json.push_back(to_json(m));
  options.report.write(text, plans.size() == 1 ? json.front() : json);
  return 0;
}

const RegisterCommand command(40, "plan", "Predict memory by purpose, without running anything", [](CLI::App& app) {
  const auto options = std::make_shared<Options>();
  options->configuration.declare(app, true);
  app.add_option("--policies", options->policies, "compare these memory policies, side by side")
      ->delimiter(',')
      ->allow_extra_args(false);
  options->configuration.declare_image_gradient(app);
  options->report.declare(app);
  return std::function<ExitCode()>([options] { return plan(*options); });
});

}  // namespace
}  // namespace lacuna::apps
