#include "autograd/sensitivity.h"

#include "autograd/bit_plan.h"

#include <utility>

namespace lacuna {

void SensitivityRecord::add_node(std::int64_t node, double gradient, double parameters, std::vector<Flow> flows) {
  nodes_.push_back({.node = node, .gradient = gradient, .parameters = parameters, .flows = std::move(flows)});
}

void SensitivityRecord::add_change(const std::string& key, int bits, double parameters, std::vector<Flow> flows) {
  nodes_.back().changes.push_back({key, bits, parameters, std::move(flows)});
}

std::map<std::string, double> SensitivityRecord::sensitivities() const {
  std::map<std::string, double> sum;
  std::map<std::int64_t, double> gain;  // by node: squared change behind it for each of its squared gradient
  const auto behind = [&](double parameters, const std::vector<Flow>& flows) {
    for (const Flow& flow : flows)
      if (const auto found = gain.find(flow.to); found != gain.end()) parameters += flow.square * found->second;
    return parameters;
  };
  for (auto node = nodes_.rbegin(); node != nodes_.rend(); ++node) {
    for (const Change& change : node->changes)
      sum[change.key] += behind(change.parameters, change.flows) / code_variance(change.bits);
    if (node->gradient > 0) gain[node->node] = behind(node->parameters, node->flows) / node->gradient;
  }
  return sum;
}

}  // namespace lacuna
