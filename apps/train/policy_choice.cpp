#include "apps/train/policy_choice.h"

#include "apps/train/machine_costs.h"
#include "apps/train/planning.h"
#include "autograd/policy.h"

#include <algorithm>
#include <charconv>

namespace lacuna::apps {

Experiment with_policy(const Experiment& read, const std::string& choice) {
  const std::size_t colon = std::min(choice.find(':'), choice.size());
  const std::string policy = choice.substr(0, colon), value = choice.substr(std::min(colon + 1, choice.size()));
  Experiment experiment = read;
  if (choice == read.memory.policy) return experiment;
  memory_policies().get(policy);
  Configuration::Memory& memory = experiment.memory;
  memory.policy = policy;
  if (policy != read.memory.policy) {  // they are the other's
    memory.options.clear();
    memory.plan_file.clear();
    experiment.plan.reset();
  }
  if (colon < choice.size() && policy == "auto") {
    memory.budget = value;
    memory.plan_file.clear();
  } else if (colon < choice.size()) {
    if (memory_policies().get(policy).options.find("bits") == nullptr)
      reject(
          "the policy {0} has no bits: expected {0} alone, or another with its bits behind a colon, as fixed:4; auto "
          "takes a budget there, as auto:6GiB",
          policy);
    double bits = 0;
    const char* const end = value.data() + value.size();
    if (const auto [at, failed] = std::from_chars(value.data(), end, bits); failed != std::errc() || at != end)
      reject("expected bits behind {}:, got \"{}\"", policy, value);
    memory.options["bits"] = bits;
  }
  return experiment;
}

Experiment under_policy(const Experiment& read, const std::string& choice) {
  Experiment experiment = with_policy(read, choice);
  plan_memory(experiment, machine_costs());
  return experiment;
}

std::string policy_title(const Experiment& experiment) {
  const Configuration::Memory& memory = experiment.memory;
  if (memory.policy == "auto") {
    const std::string& within = memory.budget.empty() ? memory.plan_file : memory.budget;
    return within.empty() ? memory.policy : "auto:" + within;
  }
  const Options& defaults = memory_policies().get(memory.policy).options;
  const lacuna::Field* const bits = defaults.find("bits");
  if (bits == nullptr) return memory.policy;
  const auto given = memory.options.find("bits");
  return fmt::format("{}:{}", memory.policy,
                     to_yaml(given == memory.options.end() ? defaults.write(*bits) : given->second));
}

}  // namespace lacuna::apps
