#include "autograd/sensitivity.h"

#include "autograd/accumulate.h"
#include "autograd/plan/bit_allocation.h"
#include "core/error.h"

#include <algorithm>
#include <utility>

namespace lacuna {

std::int64_t rows_alike(const Shape& parameter) { return parameter.rank() > 1 ? parameter.front() : 1; }

double counted_error(const Tensor& changed, const Tensor& other, const Tensor& gradient, ErrorMeasure measure) {
  if (measure == ErrorMeasure::absolute) return squared_difference(changed, other);
  const std::int64_t rows = rows_alike(gradient.shape());
  const std::vector<double> changes = squared_differences(changed, other, rows),
                            own = squared_differences(gradient, {}, rows);
  constexpr double most = 4;
  double sum = 0;
  for (std::size_t row = 0; row < own.size(); ++row)
    if (changes[row] != 0) sum += std::min(changes[row] / own[row], most);
  return sum * static_cast<double>(gradient.count() / rows);
}

void SensitivityRecord::add_node(std::int64_t node, double gradient, double parameters, std::vector<Flow> flows) {
  nodes_.push_back({.node = node, .gradient = gradient, .parameters = parameters, .flows = std::move(flows)});
}

std::size_t SensitivityRecord::add_change(const std::string& key, int bits, double parameters,
                                          std::vector<Flow> flows) {
  changes_.push_back({key, bits, parameters, std::move(flows)});
  return changes_.size() - 1;
}

void SensitivityRecord::follow(std::size_t change, std::int64_t through, double parameters,
                               const std::vector<Flow>& flows) {
  Change& followed = changes_[change];
  const auto flow = std::ranges::find(followed.flows, through, &Flow::to);
  expect(flow != followed.flows.end(), "no flow of change {} goes to node {}", change, through);
  followed.flows.erase(flow);
  followed.parameters += parameters;
  followed.flows.insert(followed.flows.end(), flows.begin(), flows.end());
}

Sensitivities SensitivityRecord::sensitivities() const {
  std::map<std::int64_t, double> gain;  // by node: squared change caused, over its squared gradient
  const auto behind = [&](double parameters, const std::vector<Flow>& flows) {
    for (const Flow& flow : flows)
      if (const auto found = gain.find(flow.to); found != gain.end()) parameters += flow.square * found->second;
    return parameters;
  };
  for (auto node = nodes_.rbegin(); node != nodes_.rend(); ++node)
    if (node->gradient > 0) gain[node->node] = behind(node->parameters, node->flows) / node->gradient;
  Sensitivities sum;
  for (const Change& change : changes_)
    sum[change.key] += behind(change.parameters, change.flows) / code_variance(change.bits);
  return sum;
}

}  // namespace lacuna
