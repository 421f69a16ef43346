// The tape: records the ops of a forward pass, and runs backward through them.
//
//   Tape tape(policy);
//   Variable loss = [&] { const Recording recording(tape); return model.forward(batch); }();
//   tape.backward(loss);  // adds to the gradient of every parameter that requires one
//
// For each op the tape keeps a node (node.h) and the tensors that the op's `saves` table lists for the gradients that
// are wanted. While a variable names such a tensor, nothing is decided about it. When the last variable is gone, the
// tape asks the memory policy (policy.h) how to hold the tensor until backward: before the next op allocates, or in
// `finalize`. Not in the variable's destructor, so that an error reaches the caller.
#pragma once

#include "autograd/node.h"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

namespace lacuna {

/// Called with a leaf once its gradient is complete. May take the gradient away and change the leaf's tensor in place.
using GradientHook = std::function<void(const Leaf&)>;

struct BackwardOptions {
  /// Run for each leaf, in this order, as soon as backward has passed every op of this tape that reads the leaf. A leaf
  /// whose gradient a hook took away is not shown to the hooks behind it.
  std::vector<GradientHook> post_accumulate_grad_hooks{};
  /// Keeps what is saved, so that backward can run again, to the same gradients.
  bool retain_graph = false;
  /// Collects the gradients of parameters here, in place of the leaves. Hooks find them here then.
  LeafGradients* leaf_gradients = nullptr;
  /// Called with each node and its number before its backward, with `gradients` complete (calibration.h).
  std::function<void(Node&, std::int64_t)> before_node{};
};

class Tape {
 public:
  /// `policy` must outlive the tape.
  explicit Tape(MemoryPolicy& policy);
  ~Tape();
  Tape(const Tape&) = delete;
  Tape& operator=(const Tape&) = delete;

  /// Decides how each saved tensor is held that is still undecided. `backward` begins with it.
  void finalize();
  /// Adds the gradients of `losses` to those of the leaves behind them. Each loss comes with the gradient to start
  /// from, of its shape and type; undefined: 1, for a loss of one element. Frees what was saved, unless `retain_graph`:
  /// a second call is an error then, as is a call after one that threw.
  void backward(std::vector<std::pair<Variable, Tensor>> losses, const BackwardOptions& options = {});
  void backward(const Variable& loss, const BackwardOptions& options = {}) { backward({{loss, {}}}, options); }

  /// Bytes in the ledger for backward, as it began.
  std::int64_t saved_bytes() const { return saved_bytes_; }
  /// Every saved tensor and how it is held, in the order of forward. Finalizes.
  using SavedTensorReport = lacuna::SavedTensorReport;
  std::vector<SavedTensorReport> report();
  std::size_t size() const { return nodes_.size(); }
  void set_observer(Observer* observer) { observer_ = observer; }

  // For what records nodes of its own, as `record` and `checkpoint` do.

  /// The tape of this thread's innermost Recording; null without one. `recording` is null under NoGrad too.
  static Tape* current();
  static Tape* recording();
  MemoryPolicy& policy() { return policy_; }
  Observer* observer() const { return observer_; }
  /// Decides on the tensors that no variable names any more. Called before an op allocates.
  void finalize_released();
  /// The tape's record of a tensor, made if there is none.
  SavedTensorPtr saved_tensor(const Tensor& tensor, const Producer& producer);
  SavedTensorPtr saved_tensor(const Variable& variable);
  /// Returns the node's number.
  std::int64_t add(std::unique_ptr<Node> node);
  /// `variable` is output number `index` of the node; of no node if that is -1.
  void set_producer(Variable& variable, const Producer& producer, std::int64_t node, int index = 0);

 private:
  class Pass;

  MemoryPolicy& policy_;
  std::uint64_t id_;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::map<std::tuple<std::uint64_t, std::size_t, std::int64_t>, std::weak_ptr<SavedTensor>>
      saved_;                                                               // by storage, offset and bytes
  std::vector<std::weak_ptr<SavedTensor>> order_;                           // as they came
  std::map<std::tuple<Label, Label, Source::Kind, int>, int> occurrences_;  // of op, path and source
  SavedTensorQueue released_;
  std::size_t released_begin_ = 0;                // those before are decided
  std::unordered_map<const Leaf*, int> readers_;  // nodes that read each leaf
  std::int64_t saved_bytes_ = 0;
  bool consumed_ = false;
  Observer* observer_ = nullptr;
};

/// While it lives, ops of this thread are recorded on the tape. Without one nothing is recorded: inference.
class Recording {
 public:
  explicit Recording(Tape& tape) : Recording(&tape, true) {}
  ~Recording();
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

 protected:
  Recording(Tape* tape, bool records);

 private:
  std::pair<Tape*, bool> outer_;
};

/// While it lives, ops of this thread are not recorded, also within a Recording. As torch.no_grad.
class NoGrad : private Recording {
 public:
  NoGrad() : Recording(Tape::current(), false) {}
};

/// What an op returned.
struct RecordedOp {
  std::vector<Variable> outputs;
  std::vector<Tensor> extra_outputs;
};
/// Runs an op, and records it where a tape is recording.
RecordedOp record(const std::shared_ptr<const Operation>& op, const std::vector<Variable>& inputs);

/// Runs `op` on `inputs` and returns its output, or an array of its outputs if it has several:
///
///   Variable y = apply(Linear{}, x, weight, Variable());
///   auto [q, k, v] = apply(SplitQkv{}, std::move(qkv));
///
/// Pass an absent optional input as `Variable()`; move in what is not used again.
template <class Op, class... Inputs>
auto apply(Op op, Inputs&&... inputs) {
  std::vector<Variable> all;
  all.reserve(sizeof...(inputs));
  (all.push_back(std::forward<Inputs>(inputs)), ...);
  RecordedOp recorded = record(std::make_shared<const Bound<Op>>(std::move(op)), std::move(all));
  if constexpr (outputs_of<Op> == 1) {
    return std::move(recorded.outputs.front());
  } else {
    std::array<Variable, outputs_of<Op>> outputs;
    std::ranges::move(recorded.outputs, outputs.begin());
    return outputs;
  }
}

}  // namespace lacuna
