// Measuring, in an ordinary backward pass, what codes of fewer bits would do to the gradient.
#include "autograd/accumulate.h"
#include "autograd/node_tensors.h"

#include <algorithm>

namespace lacuna {
namespace {

/// While it lives, a slot decodes as if it had so many bits.
class ProbeScope {
 public:
  ProbeScope(SavedTensor& slot, int bits) : slot_(slot) { slot_.set_probe(bits); }
  ~ProbeScope() { slot_.set_probe(0); }
  ProbeScope(const ProbeScope&) = delete;
  ProbeScope& operator=(const ProbeScope&) = delete;

 private:
  SavedTensor& slot_;
};

}  // namespace

/// What a node's backward gives.
struct Tape::Given {
  std::vector<Tensor> inputs{};  // gradients, as the edges; undefined where none is wanted
  LeafGradients leaves{};        // of a region: of the parameters in it
};

/// `run` takes a gradient of the node's output; the tape stays as it was.
template <class Run>
void Tape::measure_node(Node& node, SensitivityRecord& record, const Run& run) {
  const AllocationScope scope({Purpose::workspace, Label(node.op ? node.op->name() : "recompute"), node.path});
  std::vector<SavedTensor*> coded;
  for (const SavedTensorPtr& slot : node.saved)
    if (slot) slot->gather_coded(coded);
  const Given exact = run(node.gradient.clone());
  struct Squares {
    double parameters = 0;
    std::vector<SensitivityRecord::Flow> flows{};
  };
  /// Of `given`, or of what it differs by from `other`.
  const auto squares = [&](const Given& given, const Given* other) {
    Squares sums;
    for (std::size_t i = 0; i < given.inputs.size(); ++i) {
      if (!given.inputs[i].defined()) continue;
      const Tensor from = other == nullptr ? Tensor() : other->inputs[i];
      if (node.edges[i].leaf)
        sums.parameters += counted_error(given.inputs[i], from, exact.inputs[i], error_measure_);
      else
        sums.flows.push_back({node.edges[i].node, squared_difference(given.inputs[i], from)});
    }
    for (const auto& [leaf, gradient] : given.leaves) {
      const Tensor from = other == nullptr ? Tensor() : other->leaves.at(leaf);
      sums.parameters += counted_error(gradient, from, exact.leaves.at(leaf), error_measure_);
    }
    return sums;
  };
  const std::int64_t number = &node - nodes_.data();
  if (const auto waiting = followed_.extract(number)) {
    for (Followed& change : waiting.mapped()) {
      const Squares onward = squares(run(std::move(change.gradient)), nullptr);
      record.follow(change.change, number, onward.parameters, onward.flows);
    }
  }
  const RandomStream signs = random_stream(fmt::format("signs {}", number));
  const Squares scattered = squares(run(with_random_signs(node.gradient, signs)), nullptr);
  record.add_node(number, squared_difference(node.gradient, {}), scattered.parameters, scattered.flows);

  for (SavedTensor* const slot : coded) {
    const int bits = std::min(2, slot->bits() - 1);
    if (bits < 1) continue;
    Given coarser = [&] {
      const ProbeScope probe(*slot, bits);
      return run(node.gradient.clone());
    }();
    Squares changed = squares(coarser, &exact);
    const std::size_t change = record.add_change(slot->key(), bits, changed.parameters, std::move(changed.flows));
    for (std::size_t i = 0; i < coarser.inputs.size(); ++i) {
      const Edge& edge = node.edges[i];
      if (!coarser.inputs[i].defined() || edge.leaf) continue;
      const Shape& shape = nodes_[static_cast<std::size_t>(edge.node)].shape;
      followed_[edge.node].push_back(
          {change, difference(std::move(coarser.inputs[i]), exact.inputs[i]).reshape(shape)});
    }
  }
}

void Tape::probe(Node& node, SensitivityRecord& record) {
  if (node.replay) {
    measure_node(node, record, [&](Tensor gradient) {
      Given given;
      Tensor input = node.saved[0]->whole(Label("recompute")).reshape(node.shapes[0]);
      given.inputs.push_back(run_again(node, std::move(input), std::move(gradient), &given.leaves));
      return given;
    });
    return;
  }
  const NodeTensors saved(node);
  measure_node(node, record, [&](Tensor gradient) {
    Grads grads(node.edges.size(), node.wanted);
    node.op->backward(std::move(gradient), saved, grads);
    Given given;
    for (std::size_t i = 0; i < node.edges.size(); ++i)
      given.inputs.push_back(node.wanted.contains(static_cast<int>(i)) ? grads[static_cast<int>(i)] : Tensor());
    return given;
  });
}

}  // namespace lacuna
