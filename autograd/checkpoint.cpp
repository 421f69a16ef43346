#include "autograd/checkpoint.h"

#include "autograd/op_mode.h"
#include "autograd/operand_heads.h"
#include "autograd/tape.h"
#include "core/random.h"

#include <algorithm>
#include <set>

namespace lacuna {
namespace {

/// An op of a region, as noted in forward.
struct RegionOp {
  struct Output {
    Shape shape;
    DType dtype;
    std::uint64_t storage;
  };
  Label op;
  std::vector<Output> outputs;
  bool saves_result;                        // backward may read an output, or there are extra ones
  std::vector<std::uint64_t> saved_inputs;  // storages that backward may read
};

int& recomputing_depth() {
  thread_local int depth = 0;
  return depth;
}

struct CheckpointNode final : Node {
  CheckpointFunction function{};
  RandomState state = random_state();
  MemoryPolicy* policy = nullptr;
  std::uint64_t tape_pass = 0;
  std::vector<RegionOp> ops{};
  // Number of ops to recompute: all before the final ones whose results backward does not read.
  std::size_t ops_read = 0;

  void backward(std::vector<Tensor> output_gradients, BackwardPass& pass) override;
};

/// Records the ops of a region's forward pass.
class NoteOps final : public OpMode {
 public:
  explicit NoteOps(CheckpointNode& region) : region_(region) {}

  void after(const Operation& op, const std::vector<Variable>& inputs, const std::vector<Variable>& outputs,
             const std::vector<Tensor>& extra_outputs) override {
    RegionOp noted{.op = Label(op.name()), .outputs = {}, .saves_result = !extra_outputs.empty(), .saved_inputs = {}};
    for (const Variable& one : outputs)
      noted.outputs.push_back({one.shape(), one.dtype(), one.tensor().storage()->id()});
    for (const Variable& input : inputs)
      if (input.leaf() != nullptr && !std::ranges::count(region_.leaves, input.edge().leaf))
        region_.leaves.push_back(input.edge().leaf);
    for (const Save& row : op.saves()) {
      if (row.from.kind != Source::Kind::input) {
        noted.saves_result = true;
      } else if (const Variable& input = inputs[row.from.index]; input.defined()) {
        noted.saved_inputs.push_back(input.tensor().storage()->id());
        // The ops in the region determine how the region's input is held.
        const Source first = op.saves().front().from;
        const std::int64_t heads = op.heads() == 1 || first.kind != Source::Kind::input
                                       ? op.heads()
                                       : operand_heads(op, inputs[first.index].shape().back(), input.shape().back());
        for (const SavedTensorPtr& saved : region_.saved)
          if (saved && saved->is_of(input.tensor())) saved->add_hint(row.groups, heads);
      }
    }
    region_.ops.push_back(std::move(noted));
  }

  /// The number of ops to recompute: up to the last one whose result backward reads. In a transformer block, the last
  /// linear layer and the sum after it are not recomputed.
  static std::size_t count_read(const std::vector<RegionOp>& ops) {
    std::size_t read = ops.size();
    for (std::set<std::uint64_t> saved; read > 0; --read) {
      const RegionOp& last = ops[read - 1];
      if (last.saves_result ||
          std::ranges::any_of(last.outputs, [&](const RegionOp::Output& one) { return saved.contains(one.storage); }))
        break;
      saved.insert(last.saved_inputs.begin(), last.saved_inputs.end());
    }
    return read;
  }

 private:
  CheckpointNode& region_;
};

/// Checks that a recompute runs the same ops as forward, and skips the final ops that backward does not need.
class FollowOps final : public OpMode {
 public:
  explicit FollowOps(const CheckpointNode& region) : region_(region) {}

  std::vector<Tensor> outputs_without_running(const Operation& op, const std::vector<Variable>& inputs) override {
    const std::size_t index = seen_++;
    expect(index < region_.ops.size() && region_.ops[index].op.text() == op.name(),
           "{} was recomputed with another op than in forward: {} as number {}", region_.path.text(), op.name(), index);
    std::vector<Tensor> skipped;
    if (index < region_.ops_read) return skipped;
    for (const RegionOp::Output& one : region_.ops[index].outputs)
      skipped.push_back(Tensor::empty(one.shape, one.dtype, inputs.front().device()));
    return skipped;
  }
  void expect_all() const {
    expect(seen_ == region_.ops.size(), "{} was recomputed by {} ops, after {} in forward", region_.path.text(), seen_,
           region_.ops.size());
  }

 private:
  const CheckpointNode& region_;
  std::size_t seen_ = 0;
};

void CheckpointNode::backward(std::vector<Tensor> output_gradients, BackwardPass& pass) {
  const RandomStateScope draws(state);  // for ops and for quantizers, which also round in the region's backward
  std::vector<Variable> again;
  std::vector<std::shared_ptr<Leaf>> input_leaves;
  for (std::size_t i = 0; i < saved.size(); ++i) {
    again.push_back(saved[i] ? Variable(saved[i]->whole(op).reshape(saved_shapes[i]), edges[i].leads_somewhere())
                             : Variable());
    input_leaves.push_back(again[i].leaf() != nullptr ? again[i].edge().leaf : nullptr);
    if (!input_leaves[i]) continue;
    input_leaves[i]->purpose = Purpose::transient;
    input_leaves[i]->onward = edges[i];
  }
  Tape tape(*policy, tape_pass, path);
  tape.set_observer(pass.observer());
  bool reads_saved = false;  // whether the region's ops read inputs from the quantized copies that forward saved
  for (std::size_t i = 0; i < saved.size(); ++i) {
    if (!saved[i]) continue;
    reads_saved |= saved[i]->is_approximate();
    tape.saved_tensor(again[i])->set_region_input(saved[i]);
  }
  if (!reads_saved) pass.release_readers(*this);
  std::vector<Variable> results = [&] {
    const RecomputingScope recomputing;
    const Recording recording(tape);
    FollowOps follow(*this);
    std::vector<Variable> outputs_again = function(std::move(again));
    follow.expect_all();
    return outputs_again;
  }();
  std::vector<std::pair<Variable, Tensor>> losses;
  for (std::size_t i = 0, differentiable = 0; i < results.size(); ++i) {
    if (!is_floating(results[i].dtype())) continue;
    Tensor gradient = std::move(output_gradients[differentiable++]);
    if (!gradient.defined()) continue;
    expect(results[i].requires_grad(), "{} was recomputed, but output {} depends on nothing that requires a gradient",
           path.text(), i);
    losses.emplace_back(std::move(results[i]), gradient.reshape(results[i].shape()));
  }
  results.clear();

  std::set<const Leaf*> done;
  tape.backward(std::move(losses), {.post_accumulate_grad_hooks = {[&](const Leaf& leaf) {
                                      done.insert(&leaf);
                                      pass.leaf_done(leaf);
                                    }},
                                    .leaf_gradients = pass.leaf_gradients(),
                                    .before_node = pass.before_node()});
  if (reads_saved) pass.release_readers(*this);
  for (const std::shared_ptr<Leaf>& leaf : leaves)
    if (!done.contains(leaf.get())) pass.leaf_done(*leaf);
  for (std::size_t i = 0; i < edges.size(); ++i) {
    if (!input_leaves[i]) continue;
    if (Tensor gradient = std::exchange(input_leaves[i]->gradient, {}); gradient.defined())
      pass.accumulate_grad(*this, i, std::move(gradient));
    if (edges[i].leaf) pass.leaf_done(*edges[i].leaf);
  }
}

}  // namespace

std::vector<Variable> checkpoint(Label path, const CheckpointFunction& function, std::vector<Variable> inputs) {
  Tape* const tape = Tape::recording();
  if (tape == nullptr) return function(std::move(inputs));
  const Label name("recompute");
  auto node = std::make_unique<CheckpointNode>();
  node->op = name;
  node->path = path;
  node->function = function;
  node->policy = &tape->policy();
  node->tape_pass = tape->pass();
  const auto reader_of = [&](std::size_t i) -> Reader {
    return {.op = name, .path = path, .source = lacuna::input(static_cast<int>(i)), .need = Need::value};
  };
  std::vector<Variable> constants;
  bool wanted = false;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const Variable& input = inputs[i];
    wanted = wanted || input.requires_grad();
    node->edges.push_back(input.requires_grad() ? input.edge() : Edge{});
    node->inputs.push_back(input.defined() ? input.shape() : Shape{});
    node->saved.push_back(input.defined() ? tape->saved_tensor(input) : nullptr);
    if (node->saved.back()) node->saved.back()->add_reader(reader_of(i));
    if (node->saved.back()) node->saved.back()->note_use(true);
    constants.push_back(input.defined() ? input.detach() : Variable());
  }
  node->saved_shapes = node->inputs;
  inputs.clear();  // from here on the function owns them

  std::vector<Variable> results = [&] {
    const NoGrad no_grad;
    const NoteOps note(*node);
    return function(std::move(constants));
  }();
  node->ops_read = NoteOps::count_read(node->ops);
  if (!wanted && node->leaves.empty()) {
    for (std::size_t i = 0; i < node->saved.size(); ++i)
      if (node->saved[i]) node->saved[i]->withdraw_reader(reader_of(i));
    return results;
  }
  for (const Variable& result : results)
    if (is_floating(result.dtype())) node->outputs.push_back(result.shape());
  const std::int64_t number = tape->add(std::move(node));
  int index = 0;
  for (Variable& result : results) {
    Variable recorded = Variable::computed(result.tensor(), path);
    result = {};
    const bool differentiable = is_floating(recorded.dtype());
    tape->set_producer(recorded, {.op = name, .path = path}, differentiable ? number : -1,
                       differentiable ? index++ : 0);
    result = std::move(recorded);
  }
  return results;
}

Variable checkpoint(Label path, const std::function<Variable(Variable)>& function, Variable input) {
  std::vector<Variable> inputs;
  inputs.push_back(std::move(input));
  return checkpoint(
             path,
             [function](std::vector<Variable> one) { return std::vector<Variable>{function(std::move(one.front()))}; },
             std::move(inputs))
      .front();
}

std::int64_t recomputes(const ModuleRange& modules) {
  Tape* const tape = Tape::recording();
  if (tape == nullptr) return 0;
  return tape->policy().recomputes(modules, tape->region().text());
}

bool is_recomputing() { return recomputing_depth() > 0; }
RecomputingScope::RecomputingScope() { ++recomputing_depth(); }
RecomputingScope::~RecomputingScope() { --recomputing_depth(); }

}  // namespace lacuna
