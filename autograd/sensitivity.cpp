#include "autograd/sensitivity.h"

#include "autograd/bit_plan.h"

namespace lacuna {

void SensitivityRecord::add(const std::string& key, int bits, double parameter_change, double relative_flow_change) {
  nodes_.back().changes.push_back({key, bits, parameter_change, relative_flow_change});
}

std::map<std::string, double> SensitivityRecord::sensitivities() const {
  std::map<std::string, double> sum;
  double behind = 0;  // squared gradients of the parameters that backward reaches later
  for (auto node = nodes_.rbegin(); node != nodes_.rend(); ++node) {
    for (const Change& change : node->changes)
      sum[change.key] += (change.parameters + change.flow * behind) / code_variance(change.bits);
    behind += node->gradients;
  }
  return sum;
}

}  // namespace lacuna
