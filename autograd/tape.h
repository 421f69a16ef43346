// The tape: what happened in forward, in order, and the walk back.
#pragma once

#include "autograd/variable.h"

#include <deque>
#include <functional>
#include <map>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

namespace lacuna {

enum class Phase : std::uint8_t { forward, backward };

/// What one op did in one direction.
struct Work {
  std::int64_t bytes = 0;  // read and written, each tensor once
  std::int64_t macs = 0;   // by definition (Operation::macs)
};

/// Watches ops run: a profiler, a search for the first NaN.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void before(Phase phase, const Operation& op, Label path) = 0;
  /// `results`: the op's output, or the gradients it gave.
  virtual void after(Phase phase, const Operation& op, Label path, const Work& work,
                     std::span<const Tensor> results) = 0;
};

/// Called with a leaf once its gradient is complete. May take the gradient away and change the leaf's tensor in place.
using GradientHook = std::function<void(const Leaf&)>;

struct BackwardOptions {
  /// Run for each leaf, in this order, as soon as backward has passed every op of this tape that reads the leaf. A leaf
  /// whose gradient a hook took away is not shown to the hooks behind it.
  std::vector<GradientHook> post_accumulate_grad_hooks{};
  /// Keeps what is saved, so that backward can run again, to the same gradients.
  bool retain_graph = false;
};

class Tape {
 public:
  /// The policy must outlive the tape.
  explicit Tape(MemoryPolicy& policy);
  ~Tape();
  Tape(const Tape&) = delete;
  Tape& operator=(const Tape&) = delete;

  /// Decides how each saved tensor is held that is still undecided. `backward` begins with it.
  void finalize();
  /// Adds the gradients of `losses` to those of the leaves behind them. Each loss comes with the gradient to start
  /// from, of its shape and type; undefined: 1, for a loss of one element. Frees what was saved, unless `retain_graph`:
  /// a second call is an error then, as is a call after one that threw.
  void backward(const Variable& loss, const BackwardOptions& options = {}) { backward({{loss, {}}}, options); }
  void backward(const std::vector<std::pair<Variable, Tensor>>& losses, const BackwardOptions& options = {});

  /// Bytes held for backward, as they stood when it began.
  std::int64_t saved_bytes() const { return saved_bytes_; }
  /// Every tensor that backward needs and how it is held, in the order of forward. Settles.
  struct SavedTensorReport {
    SavedTensorInfo facts;
    Hold hold;
    std::int64_t bytes;
    int bits;    // of codes
    bool slope;  // the codes are of the curve's slope there
    bool signs;  // one bit an element, alone or besides
    std::vector<Reader> users;
  };
  std::vector<SavedTensorReport> report();

  /// The pass is a trial: running statistics stay as they are, and the policy is not told that it is over.
  void set_trial() { trial_ = true; }
  /// How the sensitivities that backward notes count errors.
  void set_error_measure(ErrorMeasure measure) { error_measure_ = measure; }

  std::size_t size() const { return nodes_.size(); }
  void set_observer(Observer* observer) { observer_ = observer; }

 private:
  friend class Recording;
  friend class NoGrad;
  friend std::pair<Variable, std::vector<Tensor>> record(const std::shared_ptr<const Operation>& op,
                                                         const std::vector<Variable>& inputs);
  friend bool recomputes(std::string_view path);
  friend std::int64_t recomputes_together(const SequencePart& part);
  friend bool is_recomputing();
  friend Variable recompute(Label path, Variable x, bool trains, std::function<Variable(Variable)> body);
  /// What an op that runs forward for a region gave, and what backward would read for it, whatever is wanted.
  struct RegionOp {
    Label op;
    Shape shape;
    DType dtype;
    std::uint64_t result;                     // its storage
    bool saves_result;                        // or a result beside the output
    std::vector<std::uint64_t> saved_inputs;  // their storages
  };
  struct Node {
    std::shared_ptr<const Operation> op{};        // null for a region
    std::function<Variable(Variable)> replay{};   // of a region: its forward pass
    std::vector<std::shared_ptr<Leaf>> leaves{};  // of a region: those that its ops read, as often as they do
    std::vector<RegionOp> ops{};                  // of a region: its ops in order
    std::size_t ops_read = 0;                     // of a region: those before the ones whose results nobody reads again
    Label path{};
    InputSet wanted{};
    std::vector<Edge> edges{};            // where each input's gradient goes
    std::vector<Shape> inputs{};          // the shapes the inputs had for this op
    std::vector<SavedTensorPtr> saved{};  // as op->saves(); null where no wanted gradient needs the row
    std::vector<Shape> shapes{};          // the shapes those tensors had for this op
    Shape shape{};                        // the output's
    Tensor gradient{};                    // of the output, as far as it is known
  };
  class NodeTensors;

  static Tape*& recording();
  /// The tape that a region runs forward for, while nothing is recorded.
  static Tape*& running_region();
  static std::pair<Variable, std::vector<Tensor>> run(const std::shared_ptr<const Operation>& op,
                                                      const std::vector<Variable>& inputs);
  SavedTensorPtr slot_of(const Tensor& tensor, const Producer& maker);
  SavedTensorPtr slot_of(const Variable& variable);
  void add_node(const std::shared_ptr<const Operation>& op, Label path, const std::vector<Variable>& inputs,
                Variable& result, const std::vector<Tensor>& extra_outputs);
  Variable add_region(Label path, Variable x, std::function<Variable(Variable)> body);
  static std::size_t count_read(const std::vector<RegionOp>& ops);
  void note_region_op(const Operation& op, const std::vector<Variable>& inputs,
                      const std::vector<Tensor>& extra_outputs, const Tensor& result);
  /// Of a region that runs again: what the op that comes next gave in forward, if nobody reads that again.
  const RegionOp* next_unread(const Operation& op);
  void walk_back(std::vector<std::pair<Edge, Tensor>> gradients, const BackwardOptions& options);
  void walk_back(Node& node, SensitivityRecord* record);
  /// Its backward has read what was saved for it.
  void release_readers(Node& node) const;
  void replay(Node& node, SensitivityRecord* record);
  /// Of leaves, in the order in which they first came: sums over all are to have the same bits in every run.
  class LeafGradients {
   public:
    using Entry = std::pair<const Leaf*, Tensor>;
    /// Undefined at first; stays where it is.
    Tensor& operator[](const Leaf* leaf);
    const Tensor& at(const Leaf* leaf) const;
    std::deque<Entry>::const_iterator begin() const { return entries_.begin(); }
    std::deque<Entry>::const_iterator end() const { return entries_.end(); }

   private:
    std::deque<Entry> entries_;
    std::unordered_map<const Leaf*, std::size_t> places_;
  };
  /// Runs a region forward and back on a tape of its own; returns the gradient of its input. Those of its parameters go
  /// where they belong, or into `taken`.
  Tensor run_again(const Node& node, Tensor input, Tensor gradient, LeafGradients* taken);
  /// Runs the node's backward as it is and with coarser codes, and notes the difference; the tape stays as it was.
  void probe(Node& node, SensitivityRecord& record);
  struct Given;
  template <class Run>
  void measure_node(Node& node, SensitivityRecord& record, const Run& run);
  /// The pending gradient at the end of an edge.
  Tensor& pending(const Edge& edge);
  /// A change of a node's gradient that waits to be followed through the node.
  struct Followed {
    std::size_t change;  // its number in the record
    Tensor gradient;     // as the node's output
  };
  void accumulate_grad(const Edge& edge, Tensor gradient);
  /// Backward has passed one of the ops that read the leaf.
  void leaf_done(const std::shared_ptr<Leaf>& leaf);
  /// Decides on the tensors that were released since the last op.
  void finalize_queued();

  MemoryPolicy& policy_;
  std::uint64_t id_;
  std::vector<Node> nodes_;
  std::map<std::tuple<std::uint64_t, std::size_t, std::int64_t>, std::weak_ptr<SavedTensor>>
      slots_;                                      // storage, offset, bytes
  std::vector<std::weak_ptr<SavedTensor>> order_;  // saved tensors as they came
  SavedTensorQueue queue_;
  std::size_t queue_begin_ = 0;                                             // what lies before is finalized
  std::map<std::tuple<Label, Label, Source::Kind, int>, int> occurrences_;  // of op, path and source
  std::int64_t saved_bytes_ = 0;
  bool consumed_ = false;
  std::unordered_map<const Leaf*, int> readers_;  // how many ops read each leaf
  std::unordered_map<const Leaf*, int> awaited_;  // the same, of those not walked back yet
  const BackwardOptions* running_{};              // of the backward pass that is running
  Tape* root_ = this;                             // of a region's tape: the one that the region stands on
  ErrorMeasure error_measure_ = ErrorMeasure::absolute;
  bool notes_ops_ = false;          // a region runs forward, whose ops are noted
  const Node* replayed_ = nullptr;  // of a region's tape, recorded in backward: the region
  std::size_t replayed_ops_ = 0;    // of those, how many have come
  bool trial_ = false;
  Label region_{};                                                    // the path of that region
  std::unordered_map<std::int64_t, std::vector<Followed>> followed_;  // by node, while backward is measured
  LeafGradients* taken_ = nullptr;  // where gradients of parameters go in their place, while a region is measured
  Observer* observer_ = nullptr;
};

/// While it lives, ops of this thread are recorded on the tape. Without one nothing is recorded: inference.
class Recording {
 public:
  explicit Recording(Tape& tape) : outer_(std::exchange(Tape::recording(), &tape)) {}
  ~Recording() { Tape::recording() = outer_; }
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

 private:
  Tape* outer_;
};

/// While it lives, ops of this thread are not recorded, also within a Recording.
class NoGrad {
 public:
  NoGrad() : outer_(std::exchange(Tape::recording(), nullptr)) {}
  ~NoGrad() { Tape::recording() = outer_; }
  NoGrad(const NoGrad&) = delete;
  NoGrad& operator=(const NoGrad&) = delete;

 private:
  Tape* outer_;
};

/// Runs an op, and records it where a tape is recording. Returns its output and its auxiliary results.
std::pair<Variable, std::vector<Tensor>> record(const std::shared_ptr<const Operation>& op,
                                                const std::vector<Variable>& inputs);

/// Runs `op` on `inputs`. Pass an absent optional input as `Variable()`; move what is not used again.
template <class Op, class... Inputs>
Variable apply(Op op, Inputs&&... inputs) {
  std::vector<Variable> all;
  all.reserve(sizeof...(inputs));
  (all.push_back(std::forward<Inputs>(inputs)), ...);
  return record(std::make_shared<const Bound<Op>>(std::move(op)), std::move(all)).first;
}

/// Whether the policy of the tape that records, if any, recomputes the module at `path`.
bool recomputes(std::string_view path);
/// The same for modules in a row, as MemoryPolicy answers.
std::int64_t recomputes_together(const SequencePart& part);
/// Whether forward code runs for another time over the same batch: in backward, or for a trial.
bool is_recomputing();
/// Runs `body(x)` saving nothing but x: backward runs it again, with the same random state, on a tape of its own, as
/// far as it reads what the ops give. The body runs the same ops each time, and reads values through ops alone.
/// `trains`: some parameter in it wants a gradient.
Variable recompute(Label path, Variable x, bool trains, std::function<Variable(Variable)> body);

}  // namespace lacuna
