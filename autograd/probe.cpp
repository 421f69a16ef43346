// Measuring, in an ordinary backward pass, what codes of fewer bits would do to the gradient.
#include "autograd/accumulate.h"
#include "autograd/node_tensors.h"

#include <algorithm>

namespace lacuna {
void Tape::probe(Node& node, SensitivityRecord& record) {
  const AllocationScope scope({Purpose::workspace, Label(node.op->name()), node.path});
  const NodeTensors saved(node);
  const auto run = [&] {
    Grads grads(node.edges.size(), node.wanted);
    node.op->backward(node.gradient.clone(), saved, grads);
    return grads;
  };
  /// Σ (gradients − others)², of parameters in sum and of what flows on by its target.
  const auto squares = [&](Grads& gradients, Grads* others) {
    std::pair<double, std::vector<SensitivityRecord::Flow>> sums;
    for (std::size_t i = 0; i < node.edges.size(); ++i) {
      const int input = static_cast<int>(i);
      if (!node.wanted.contains(input)) continue;
      const double square = squared_difference(gradients[input], others == nullptr ? Tensor() : (*others)[input]);
      if (node.edges[i].leaf)
        sums.first += square;
      else
        sums.second.push_back({node.edges[i].node, square});
    }
    return sums;
  };
  std::vector<Slot*> coded;
  for (const SlotPtr& slot : node.saved)
    if (slot) slot->gather_coded(coded);

  Grads exact = run();
  auto [parameters, flows] = squares(exact, nullptr);
  record.add_node(&node - nodes_.data(), squared_difference(node.gradient, {}), parameters, std::move(flows));
  for (Slot* const slot : coded) {
    const int bits = std::min(2, slot->bits() - 1);
    if (bits < 1) continue;
    slot->set_probe(bits);
    Grads coarser = run();
    slot->set_probe(0);
    auto [parameter_change, flow_changes] = squares(coarser, &exact);
    record.add_change(slot->key(), bits, parameter_change, std::move(flow_changes));
  }
}

}  // namespace lacuna
