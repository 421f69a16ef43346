// lacuna plan: what a configuration will take, from one training step on `meta`.
#include "apps/command.h"
#include "apps/config/configuration_options.h"
#include "apps/config/resolve.h"
#include "apps/config/yaml.h"
#include "apps/output/output.h"
#include "apps/report/step_page.h"
#include "apps/train/crowding.h"
#include "apps/train/exchange_plan.h"
#include "apps/train/fit.h"
#include "apps/train/freeze_table.h"
#include "apps/train/machine_costs.h"
#include "apps/train/measure.h"
#include "apps/train/planning.h"
#include "apps/train/policy_choice.h"
#include "apps/train/ranks.h"
#include "apps/train/settle.h"
#include "apps/train/timeline.h"
#include "core/file.h"
#include "core/parallel.h"

#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

namespace lacuna::apps {
namespace {

struct PlanOptions {
  ConfigurationOptions configuration;
  std::optional<std::string> policies;  // between commas
  int ranks = 1;
  std::string bandwidth = "1Gbit", latency = "50us";
  std::string timeline;
  std::optional<std::string> card;        // bytes of a GPU
  std::optional<std::string> capability;  // of its computations, as 8.9
  Report report;
};

/// The settings beside the policy that all compared rows share; `auto` says itself what it chose.
std::string refinement_text(const Configuration::Memory& memory) {
  std::vector<std::string> regions = memory.recompute, parts;
  for (const HoldRule& rule : memory.rules)
    if (rule.how == HoldRule::How::recompute) regions.push_back(rule.path);
  if (!regions.empty()) parts.push_back(fmt::format("recomputed: {}", fmt::join(regions, ", ")));
  if (!memory.rules.empty()) parts.push_back(fmt::format("{} rules", memory.rules.size()));
  return parts.empty() || memory.policy == "auto" ? std::string() : fmt::format("{}\n", fmt::join(parts, "; "));
}

/// The peak memory of a run.
std::string need_text(const Measurement& planned) {
  return fmt::format(
      "`lacuna train` needs {} {}: a step {}, an evaluation {}, with the batches that are prepared ahead",
      planned.divides_anew ? "about" : "up to", format_bytes(highest_need(planned)), format_bytes(step_need(planned)),
      format_bytes(evaluation_need(planned)));
}

/// Bytes that training can have, of a GPU that need not be here or of this machine's device; nothing: there is none.
std::optional<std::int64_t> room_for(const PlanOptions& options, const Experiment& experiment) {
  if (experiment.train.device == "meta") return {};
  if (!options.card && available_device(experiment) != device_of(experiment)) return {};
  return room_to_plan(experiment);
}

/// Whether training fits into `room`.
std::string fit_text(const PlanOptions& options, const Experiment& experiment, const Measurement& planned,
                     std::int64_t room) {
  return fmt::format("{} into {}: {} has {} left", highest_need(planned) <= room ? "fits" : "does not fit",
                     options.card ? "a card of " + *options.card : "this machine", experiment.train.device,
                     format_bytes(room));
}

/// The same, and settings that fit where it does not.
std::string fit_with_advice(const PlanOptions& options, const Experiment& experiment, const Measurement& planned,
                            std::int64_t room) {
  const std::string text = fmt::format("It {}", fit_text(options, experiment, planned, room));
  if (highest_need(planned) <= room) return text + "\n";
  Setup setup(experiment, Device::meta);
  return fmt::format("{}. {}\n", text, what_would_fit(setup, experiment, room, true, highest_need(planned)));
}

/// Writes the page of the planned steps, whose figures `json` lists.
void write_timeline(const PlanOptions& options, const std::vector<Experiment>& experiments,
                    const std::vector<std::string>& titles, const nlohmann::ordered_json& json) {
  AtomicFile file(options.timeline);
  std::vector<Result> steps;
  for (std::size_t i = 0; i < experiments.size(); ++i) {
    steps.push_back(step_result(titles[i], json[i]));
    Setup setup(experiments[i], Device::meta);
    steps.back().figures["timeline"] = record_timeline(setup, experiments[i], machine_costs());
  }
  file.write(step_page("lacuna plan", experiments.front(), steps));
  file.commit();
}

/// 89 of 8.9.
int parse_capability(const std::string& text) {
  const auto is_digit = [](char c) { return '0' <= c && c <= '9'; };
  const std::size_t point = text.find('.');
  if ((point != 1 && point != 2) || text.size() != point + 2 ||
      !std::ranges::all_of(text, [&](char c) { return c == '.' || is_digit(c); }) || !is_digit(text.back()) ||
      std::stoi(text) < 8)
    reject("--compute-capability: expected a number from 8.0 on, as 8.9, got {}", text);
  return 10 * std::stoi(text) + (text.back() - '0');
}

ExitCode plan(const PlanOptions& options) {
  Experiment configured = as_rank(options.configuration.parse(), 0, options.ranks);
  if (options.card) configured.process.card = Card{.memory = parse_bytes(*options.card, "--card")};
  if (options.capability) configured.process.card->compute_capability = parse_capability(*options.capability);
  const Experiment read = settled(std::move(configured));
  if (options.card && device_of(read).kind != DeviceKind::cuda)
    reject("--card: expected train.device=cuda, got {}", read.train.device);
  const Network network{parse_bandwidth(options.bandwidth), parse_latency(options.latency)};
  std::vector<std::string> choices, titles;
  const std::string given = options.policies.value_or(read.memory.policy);
  for (std::size_t begin = 0, end = 0; begin <= given.size(); begin = end + 1) {
    end = std::min(given.find(',', begin), given.size());
    choices.push_back(given.substr(begin, end - begin));
    std::erase(choices.back(), ' ');  // as in `exact, mesa`
  }
  if (std::ranges::find(choices, "") != choices.end())
    reject("--policies: expected names between commas, as exact,mesa,fixed:4");
  const auto is_auto = [](const std::string& choice) { return choice == "auto" || choice.starts_with("auto:"); };
  if (std::ranges::any_of(choices, is_auto) && available_device(read) != Device::meta) {  // sensitivities are computed
    const ThreadCountScope threads(static_cast<int>(read.train.threads));
    warn_if_crowded();
  }
  std::vector<Measurement> plans;
  std::vector<Experiment> configurations;  // of them
  std::string chosen;
  Problems problems;
  const auto attempt = [&](const std::string& choice, const auto& with) {
    try {
      with();
    } catch (const Error& error) {
      if (!options.policies || error.fault() != Fault::input) throw;
      problems.add({"--policies " + choice, 0, 0}, error.what());
    }
  };
  for (const std::string& choice : choices) attempt(choice, [&] { with_policy(read, choice); });
  problems.refuse_if_any();  // before anything is planned
  for (const std::string& choice : choices)
    attempt(choice, [&] {
      const Experiment experiment = under_policy(read, choice);
      plans.push_back(measure(experiment, Device::meta));
      configurations.push_back(experiment);
      titles.push_back(policy_title(experiment));
      if (experiment.plan) chosen += (choices.size() > 1 ? titles.back() + ": " : "") + experiment.plan->text + "\n";
    });
  if (plans.empty()) problems.refuse_if_any();
  const Measurement& first = plans.front();
  std::string text = fmt::format("A training step of {}, batch {}, {}; {} of {} parameters are trained\n", first.model,
                                 first.batch_size, first.precision, first.trainable, first.parameters);
  text += weights_text(first.weights);
  if (first.features > 0)
    text += fmt::format("The features of all samples are computed once and held in memory: {} of `data`\n",
                        format_bytes(first.features));
  text += refinement_text(read.memory) + memory_table(plans, titles);
  if (plans.size() > 1) {
    const std::size_t width = std::ranges::max(titles, {}, &std::string::size).size();
    for (std::size_t i = 0; i < plans.size(); ++i) {
      const auto room = room_for(options, configurations[i]);
      text += fmt::format("{:<{}}  {}peak in {}; {}\n", titles[i], width,
                          room ? fit_text(options, configurations[i], plans[i], *room) + "; " : "",
                          place_of_peak(plans[i]), need_text(plans[i]));
    }
  }
  text += chosen;
  if (plans.size() == 1) {
    text += need_text(first) + "\n";
    if (options.report.for_people()) {
      print_output(std::exchange(text, {}));  // advice takes a while
      const Experiment& one = configurations.front();
      if (const auto room = room_for(options, one)) text = fit_with_advice(options, one, first, *room);
    }
    text += fmt::format("\nThe peak comes in {}. The largest tensors then:\n{}", place_of_peak(first),
                        describe(first.at_peak, 8));
  }
  std::optional<ExchangePlan> exchange;
  if (options.ranks > 1)
    text +=
        to_text(exchange.emplace(plan_exchange(configurations.front(), network, machine_costs())), options.bandwidth);
  const std::vector<FreezeRow> frozen = [&] {
    Setup setup(configurations.front(), Device::meta);
    return freeze_table(setup, configurations.front());
  }();
  if (!frozen.empty() && plans.size() > 1) text += fmt::format("\nLayers under {}:\n", titles.front());
  text += to_text(frozen);
  if (!problems.empty() && options.report.for_people())
    std::fputs((text + "\n").c_str(), stdout);  // what can be planned
  problems.refuse_if_any();
  nlohmann::ordered_json json;
  for (std::size_t i = 0; i < plans.size(); ++i) {
    json.push_back(to_json(plans[i]));
    json.back()["device"] = configurations[i].train.device;  // that is planned for
    json.back()["peak_in_training"] = highest_need(plans[i]);
    json.back()["peak_in_evaluation"] = evaluation_need(plans[i]);
    if (const auto room = room_for(options, configurations[i])) json.back()["fits"] = highest_need(plans[i]) <= *room;
    if (plans.size() > 1) json.back()["choice"] = titles[i];
    if (exchange) json.back()["exchange"] = to_json(*exchange);
    if (i == 0 && !frozen.empty()) json.back()["freeze"] = to_json(frozen);
  }
  if (!options.timeline.empty()) {
    write_timeline(options, configurations, titles, json);
    text += "\n" + options.timeline + "\n";
  }
  options.report.write(text, plans.size() == 1 ? json.front() : json);
  return 0;
}

const RegisterCommand plan_command(40, "plan", "predict the memory of training, without running it", [](CLI::App& app) {
  const auto options = std::make_shared<PlanOptions>();
  options->configuration.declare(app, true);
  app.add_option("--policies", options->policies,
                 "memory policies to compare, with bits or a budget: exact,mesa,fixed:4,auto:6GiB")
      ->option_text("NAME,NAME:BITS,...");
  app.add_option("--ranks", options->ranks,
                 "processes that train together: the memory of one of them, and what the exchange of gradients takes")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  app.add_option("--bandwidth", options->bandwidth,
                 "with --ranks: what a process sends a second, as 1Gbit (a network) or 25GB (PCIe)")
      ->capture_default_str();
  app.add_option("--latency", options->latency, "with --ranks: of a message, as 50us")->capture_default_str();
  CLI::Option* const card =
      app.add_option("--card", options->card, "with train.device=cuda: memory of a GPU that need not be here, as 8GiB")
          ->type_name("BYTES");
  app.add_option("--compute-capability", options->capability,
                 "with --card: that of the GPU, as 8.9 of an RTX 4090 (9.0, an H100, if not given)")
      ->needs(card)
      ->type_name("NUMBER");
  app.add_option("--timeline", options->timeline, "write a page with the bytes in memory over one step, of each policy")
      ->type_name("FILE.html");
  options->configuration.declare_image_gradient(app);
  options->report.declare(app);
  return std::function<ExitCode()>([options] { return plan(*options); });
});

}  // namespace
}  // namespace lacuna::apps
