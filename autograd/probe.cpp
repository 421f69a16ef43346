// Measuring, in an ordinary backward pass, what codes of fewer bits would do to the gradient.
#include "autograd/accumulate.h"
#include "autograd/node_tensors.h"

#include <algorithm>

namespace lacuna {
namespace {

/// Squares of the gradients of a node's parameters, in sum, and of those that flow on.
struct Squares {
  double parameters = 0;
  std::vector<SensitivityRecord::Flow> flows;
};

/// How coarse the codes of a slot are made; 0 where they cannot be coarser.
int probed_bits(const Slot& slot) { return std::min(2, slot.bits() - 1); }

}  // namespace

template <class Run>
void Tape::follow_changes(const Node& node, SensitivityRecord& record, const Run& run) {
  const std::int64_t number = &node - nodes_.data();
  if (const auto waiting = followed_.extract(number)) {
    for (Followed& change : waiting.mapped()) {
      const Squares onward = run(std::move(change.gradient));
      record.follow(change.change, number, onward.parameters, onward.flows);
    }
  }
  const Squares scattered = run(with_random_signs(node.gradient, random_stream(fmt::format("signs {}", number))));
  record.add_node(number, squared_difference(node.gradient, {}), scattered.parameters, scattered.flows);
}

void Tape::probe(Node& node, SensitivityRecord& record) {
  const AllocationScope scope({Purpose::workspace, Label(node.op->name()), node.path});
  const NodeTensors saved(node);
  const auto run = [&](Tensor gradient) {
    Grads grads(node.edges.size(), node.wanted);
    node.op->backward(std::move(gradient), saved, grads);
    return grads;
  };
  const auto squares = [&](Grads& gradients, Grads* others) {
    Squares sums;
    for (std::size_t i = 0; i < node.edges.size(); ++i) {
      const int input = static_cast<int>(i);
      if (!node.wanted.contains(input)) continue;
      const double square = squared_difference(gradients[input], others == nullptr ? Tensor() : (*others)[input]);
      if (node.edges[i].leaf)
        sums.parameters += square;
      else
        sums.flows.push_back({node.edges[i].node, square});
    }
    return sums;
  };
  follow_changes(node, record, [&](Tensor gradient) {
    Grads onward = run(std::move(gradient));
    return squares(onward, nullptr);
  });

  std::vector<Slot*> coded;
  for (const SlotPtr& slot : node.saved)
    if (slot) slot->gather_coded(coded);
  if (coded.empty()) return;
  Grads exact = run(node.gradient.clone());
  for (Slot* const slot : coded) {
    const int bits = probed_bits(*slot);
    if (bits < 1) continue;
    slot->set_probe(bits);
    Grads coarser = run(node.gradient.clone());
    slot->set_probe(0);
    Squares changed = squares(coarser, &exact);
    const std::size_t change = record.add_change(slot->key(), bits, changed.parameters, std::move(changed.flows));
    for (std::size_t i = 0; i < node.edges.size(); ++i) {
      const int input = static_cast<int>(i);
      const Edge& edge = node.edges[i];
      if (!node.wanted.contains(input) || edge.leaf) continue;
      const Shape& shape = nodes_[static_cast<std::size_t>(edge.node)].shape;
      followed_[edge.node].push_back({change, difference(std::move(coarser[input]), exact[input]).reshape(shape)});
    }
  }
}

void Tape::probe_region(Node& node, SensitivityRecord& record) {
  const AllocationScope scope({Purpose::workspace, Label("recompute"), node.path});
  struct Gradients {
    Tensor input;
    LeafGradients leaves;
  };
  const auto run = [&](Tensor gradient) {
    Gradients all;
    all.input = run_again(node, node.saved[0]->whole(Label("recompute")).reshape(node.shapes[0]), std::move(gradient),
                          &all.leaves);
    return all;
  };
  const Edge& edge = node.edges[0];
  const auto squares = [&](const Gradients& gradients, const Gradients* others) {
    Squares sums;
    for (const auto& [leaf, gradient] : gradients.leaves)
      sums.parameters += squared_difference(gradient, others == nullptr ? Tensor() : others->leaves.at(leaf));
    if (!gradients.input.defined()) return sums;
    const double square = squared_difference(gradients.input, others == nullptr ? Tensor() : others->input);
    if (edge.leaf)
      sums.parameters += square;
    else
      sums.flows.push_back({edge.node, square});
    return sums;
  };
  follow_changes(node, record, [&](Tensor gradient) { return squares(run(std::move(gradient)), nullptr); });

  std::vector<Slot*> coded;
  node.saved[0]->gather_coded(coded);
  if (coded.empty()) return;
  const Gradients exact = run(node.gradient.clone());
  for (Slot* const slot : coded) {
    const int bits = probed_bits(*slot);
    if (bits < 1) continue;
    slot->set_probe(bits);
    Gradients coarser = run(node.gradient.clone());
    slot->set_probe(0);
    Squares changed = squares(coarser, &exact);
    const std::size_t change = record.add_change(slot->key(), bits, changed.parameters, std::move(changed.flows));
    if (!coarser.input.defined() || edge.leaf) continue;
    const Shape& shape = nodes_[static_cast<std::size_t>(edge.node)].shape;
    followed_[edge.node].push_back({change, difference(std::move(coarser.input), exact.input).reshape(shape)});
  }
}

}  // namespace lacuna
