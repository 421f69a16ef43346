#include "autograd/calibration.h"

#include "autograd/accumulate.h"
#include "autograd/checkpoint.h"
#include "autograd/plan/bit_allocation.h"
#include "autograd/policies/grouping.h"
#include "autograd/tape.h"
#include "core/random.h"
#include "ops/quantize/quantizer.h"

#include <algorithm>

namespace lacuna {
namespace {

/// Adds the quantized tensors on which the values of `tensor` depend: itself, or those it is rematerialized from.
void add_quantized(SavedTensor& tensor, std::vector<SavedTensor*>& all) {
  if (tensor.quantized() != nullptr && std::ranges::find(all, &tensor) == all.end()) all.push_back(&tensor);
  for (const SavedTensorPtr& source : tensor.sources())
    if (source) add_quantized(*source, all);
}

/// `config` with fewer bits and the same groups, unless these bits have another quantizer.
quant::QuantConfig coarser(const SavedTensorInfo& info, const quant::QuantConfig& config, int bits) {
  const quant::Grouping& grouping = config.grouping;
  const bool same_groups = grouping.kind != quant::Grouping::Kind::consecutive ||
                           &quant::min_error_quantizer(config.bits) == &quant::min_error_quantizer(bits);
  return same_groups ? quant::min_error_config(bits, grouping) : run_config(info, bits, grouping.size);
}

/// A quantized tensor reads as if it had fewer bits while this object lives.
class CoarserScope {
 public:
  CoarserScope(SavedTensor& tensor, int bits) : quantized_(*tensor.quantized()) {
    quantized_.set_coarser(coarser(tensor.info(), quantized_.config(), bits));
  }
  ~CoarserScope() { quantized_.set_coarser({}); }
  CoarserScope(const CoarserScope&) = delete;
  CoarserScope& operator=(const CoarserScope&) = delete;

 private:
  Quantized& quantized_;
};

/// Collects the gradients of a node's backward without changing the tape.
class NodeGradients final : public BackwardPass {
 public:
  NodeGradients(Node& node, std::vector<Tensor> gradients) : inputs(node.edges.size()) {
    node.backward(std::move(gradients), *this);
  }
  Tensor take_gradient(const Edge&) override { return {}; }
  void accumulate_grad(const Node&, std::size_t input, Tensor gradient) override {
    inputs[input] = std::move(gradient);
  }
  void release_readers(Node&) override {}
  void leaf_done(const Leaf&) override {}
  LeafGradients* leaf_gradients() override { return &leaves; }
  Observer* observer() override { return nullptr; }
  const NodeHook& before_node() const override {
    static const NodeHook none;
    return none;
  }
  Purpose purpose() const override { return Purpose::workspace; }

  std::vector<Tensor> inputs;  // undefined if not wanted
  LeafGradients leaves{};      // gradients of the parameters in a region
};

/// Applies `f` to each defined gradient.
template <class F>
std::vector<Tensor> map(const std::vector<Tensor>& gradients, const F& f) {
  std::vector<Tensor> all;
  for (const Tensor& gradient : gradients) all.push_back(gradient.defined() ? f(gradient) : Tensor());
  return all;
}

/// The edge along which a gradient leaves a node; inside a recomputed region, the edge that leaves the region.
const Edge& onward(const Edge& edge) {
  return edge.leaf && edge.leaf->onward.leads_somewhere() ? onward(edge.leaf->onward) : edge;
}

}  // namespace

void BackwardCalibration::operator()(Node& node, std::int64_t id) {
  const AllocationScope scope({Purpose::workspace, node.op, node.path});
  std::vector<SavedTensor*> quantized;
  for (const SavedTensorPtr& saved : node.saved)
    if (saved) add_quantized(*saved, quantized);
  const auto clones = [&] { return map(node.gradients, [](const Tensor& gradient) { return gradient.clone(); }); };
  const NodeGradients exact(node, clones());
  struct Squares {
    double parameters = 0;
    std::vector<SensitivityRecord::Flow> flows{};
  };
  /// Squared norms of `given`, or of its difference from `other`.
  const auto squares = [&](const NodeGradients& given, const NodeGradients* other) {
    Squares sums;
    for (std::size_t i = 0; i < given.inputs.size(); ++i) {
      if (!given.inputs[i].defined()) continue;
      const Tensor from = other == nullptr ? Tensor() : other->inputs[i];
      if (const Edge& to = onward(node.edges[i]); to.leaf)
        sums.parameters += counted_error(given.inputs[i], from, exact.inputs[i], measure_);
      else
        sums.flows.push_back({node_id(to.tape, to.node), squared_difference(given.inputs[i], from)});
    }
    for (const auto& [leaf, gradient] : given.leaves) {
      const Tensor from = other == nullptr ? Tensor() : other->leaves.at(leaf);
      sums.parameters += counted_error(gradient, from, exact.leaves.at(leaf), measure_);
    }
    return sums;
  };
  if (const auto arrived = arriving_.extract(id)) {
    for (Change& change : arrived.mapped()) {
      std::vector<Tensor> gradients(node.outputs.size());
      gradients[change.output] = change.gradient.reshape(node.outputs[change.output]);
      change.gradient = {};
      const Squares behind = squares(NodeGradients(node, std::move(gradients)), nullptr);
      record_.follow(change.change, id, behind.parameters, behind.flows);
    }
  }
  // The node's number on its tape; the tape's number differs between processes.
  const std::int64_t number = id & 0xffffffff;
  const RandomStream signs = random_stream(fmt::format("signs {}", number));
  const auto scattered = squares(
      NodeGradients(node, map(node.gradients, [&](const Tensor& all) { return with_random_signs(all, signs); })),
      nullptr);
  double whole = 0;
  for (const Tensor& gradient : node.gradients)
    if (gradient.defined()) whole += squared_difference(gradient, {});
  record_.add_node(id, whole, scattered.parameters, scattered.flows);

  for (SavedTensor* const tensor : quantized) {
    const int bits = std::min(2, tensor->quantized()->bits() - 1);
    if (bits < 1) continue;
    NodeGradients coarser = [&] {
      const CoarserScope fewer(*tensor, bits);
      return NodeGradients(node, clones());
    }();
    Squares changed = squares(coarser, &exact);
    const std::size_t change = record_.add_change(tensor->key(), bits, changed.parameters, std::move(changed.flows));
    for (std::size_t i = 0; i < coarser.inputs.size(); ++i) {
      const Edge& to = onward(node.edges[i]);
      if (!coarser.inputs[i].defined() || to.leaf) continue;
      arriving_[node_id(to.tape, to.node)].push_back(
          {change, static_cast<std::size_t>(to.output), difference(std::move(coarser.inputs[i]), exact.inputs[i])});
    }
  }
}

namespace {

/// Runs one forward and backward pass of the step and collects its gradients in `gradients`.
void run(MemoryPolicy& policy, const CalibrationStep& step, BackwardOptions options, LeafGradients& gradients) {
  const RecomputingScope recomputing;
  Tape tape(policy);
  const Variable loss = [&] {
    const Recording recording(tape);
    return step();
  }();
  if (!loss.requires_grad()) return;
  options.leaf_gradients = &gradients;
  tape.backward(loss, options);
}

/// Lists the quantized tensors, and rounds one of them with other draws than the policy's.
class Redrawn final : public MemoryPolicy {
 public:
  explicit Redrawn(MemoryPolicy& base) : MemoryPolicy(base.quantizes()), base_(base) {}
  std::string_view name() const override { return base_.name(); }
  Hold decide(const SavedTensorInfo& info) override {
    Hold hold = base_.decide(info);
    if (key.empty() && hold.kind == Hold::quantize && hold.slopes == nullptr) quantized[info.key()] = hold.config.bits;
    if (info.key() == key) ++hold.draw;
    return hold;
  }
  std::int64_t recomputes(const ModuleRange& modules, std::string_view within) override {
    return base_.recomputes(modules, within);
  }
  std::string key{};                       // the key of that tensor; empty: none
  std::map<std::string, int> quantized{};  // bits by key

 private:
  MemoryPolicy& base_;
};

}  // namespace

Calibration calibrate_in_backward(MemoryPolicy& policy, const CalibrationStep& step, ErrorMeasure measure) {
  BackwardCalibration calibration(measure);
  LeafGradients gradients;
  double square = 0;
  const GradientHook release = [&](const Leaf& leaf) {
    Tensor& gradient = gradients[&leaf];
    if (gradient.defined()) square += counted_error(gradient, {}, gradient, measure);
    gradient = {};
  };
  run(policy, step, {.post_accumulate_grad_hooks = {release}, .before_node = std::ref(calibration)}, gradients);
  return {calibration.sensitivities(), square};
}

Calibration calibrate_by_draws(MemoryPolicy& policy, const CalibrationStep& step, ErrorMeasure measure) {
  Redrawn redrawn(policy);
  LeafGradients usual;
  run(redrawn, step, {}, usual);
  Calibration found;
  bool is_meta = false;
  for (const auto& [leaf, gradient] : usual) {
    found.gradient += counted_error(gradient, {}, gradient, measure);
    is_meta = gradient.device() == Device::meta;
  }
  for (const auto& [key, bits] : redrawn.quantized) {
    redrawn.key = key;
    LeafGradients other;
    run(redrawn, step, {}, other);
    double square = 0;
    for (const auto& [leaf, gradient] : usual) square += counted_error(other.at(leaf), gradient, gradient, measure);
    found.sensitivities[key] = square / 2 / code_variance(bits);
    if (is_meta) break;  // one pass suffices to measure memory
  }
  return found;
}

}  // namespace lacuna
