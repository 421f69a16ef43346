// The tape: records the ops of a forward pass, and runs backward through them.
//
//   Tape tape(policy);
//   Variable loss = [&] { const Recording recording(tape); return model.forward(batch); }();
//   tape.backward(loss);  // adds to the gradient of every parameter that requires one
//
// The tape records a node (node.h) per op. It saves the tensors (saved_tensor.h) of those rows of the op's `saves`
// table (core/op.h) whose gradients are wanted: a linear layer with a frozen weight saves no input. Once no variable
// names a tensor, the memory policy (policy.h) decides how to hold it until backward. The tape asks the policy before
// the next op allocates, not in the variable's destructor, so that errors can be caught.
#pragma once

#include "autograd/apply.h"
#include "autograd/node.h"

#include <functional>
#include <map>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

namespace lacuna {

/// Called with a leaf once its gradient is complete. May take the gradient and change the leaf's tensor in place.
using GradientHook = std::function<void(const Leaf&)>;

struct BackwardOptions {
  /// Hooks called in this order for each leaf once its gradient is complete. If a hook takes the gradient, later hooks
  /// are not called for that leaf.
  std::vector<GradientHook> post_accumulate_grad_hooks{};
  /// Keeps the saved tensors for another backward pass.
  bool retain_graph = false;
  /// Collects the gradients of parameters in this map and leaves those of the leaves unchanged.
  LeafGradients* leaf_gradients = nullptr;
  /// Called before each node's backward, also within checkpointed regions (calibration.h).
  NodeHook before_node{};
};

class Tape {
 public:
  /// `policy` must outlive the tape.
  explicit Tape(MemoryPolicy& policy);
  /// The tape on which the checkpointed region `region` is recomputed during the backward pass `pass` of an outer tape.
  Tape(MemoryPolicy& policy, std::uint64_t pass, Label region);
  ~Tape();
  Tape(const Tape&) = delete;
  Tape& operator=(const Tape&) = delete;

  /// Decides how each remaining saved tensor is held. `backward` calls it first.
  void finalize();
  /// Accumulates the gradients of `losses` in the leaves. Each loss comes with its own gradient, of the same shape and
  /// type; undefined means 1, for a loss of one element. Frees the saved tensors, so a second call is an error unless
  /// `retain_graph` is set. A call after one that threw is an error too.
  void backward(std::vector<std::pair<Variable, Tensor>> losses, const BackwardOptions& options = {});
  void backward(const Variable& loss, const BackwardOptions& options = {}) { backward({{loss, {}}}, options); }

  /// Bytes that the ledger counted as saved when backward began.
  std::int64_t saved_bytes() const { return saved_bytes_; }
  /// Finalizes, and reports how each saved tensor is held, in the order of forward.
  using SavedTensorReport = lacuna::SavedTensorReport;
  std::vector<SavedTensorReport> report();
  std::size_t size() const { return nodes_.size(); }
  void set_observer(Observer* observer) { observer_ = observer; }

  // For code that adds nodes: `record` and `checkpoint`.

  /// The tape of this thread's innermost Recording, or null.
  static Tape* current();
  /// The tape that records ops: `current`, but null under NoGrad.
  static Tape* recording();
  MemoryPolicy& policy() { return policy_; }
  /// The id of the step's outermost tape, whose backward pass recomputes regions on separate tapes.
  std::uint64_t pass() const { return place_.pass; }
  /// The region that is being recomputed; empty in forward.
  Label region() const { return place_.region; }
  Observer* observer() const { return observer_; }
  /// Finalizes the tensors that no variable names any more. Called before an op allocates.
  void finalize_released();
  /// The tape's record of a tensor, created if there is none.
  SavedTensorPtr saved_tensor(const Tensor& tensor, const Producer& producer);
  SavedTensorPtr saved_tensor(const Variable& variable);
  /// Adds a node and returns its number.
  std::int64_t add(std::unique_ptr<Node> node);
  /// Marks `variable` as output `index` of the node, or of no node if `node` is -1.
  void set_producer(Variable& variable, const Producer& producer, std::int64_t node, int index = 0);

 private:
  class Pass;

  MemoryPolicy& policy_;
  TapePlace place_;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::map<std::tuple<std::uint64_t, std::size_t, std::int64_t>, std::weak_ptr<SavedTensor>>
      saved_;                                                               // by storage, offset and bytes
  std::vector<std::weak_ptr<SavedTensor>> order_;                           // in the order of forward
  std::map<std::tuple<Label, Label, Source::Kind, int>, int> occurrences_;  // by op, path and source
  SavedTensorQueue released_;
  std::size_t released_begin_ = 0;                // the first entry of `released_` that is not finalized
  std::unordered_map<const Leaf*, int> readers_;  // number of nodes that read each leaf
  std::int64_t saved_bytes_ = 0;
  bool consumed_ = false;
  Observer* observer_ = nullptr;
};

}  // namespace lacuna
