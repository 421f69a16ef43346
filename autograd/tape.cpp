#include "autograd/tape.h"

#include "autograd/accumulate.h"
#include "autograd/op_mode.h"
#include "autograd/op_node.h"
#include "autograd/operand_heads.h"

#include <algorithm>
#include <atomic>

namespace lacuna {
namespace {

std::uint64_t next_tape_id() {
  static std::atomic<std::uint64_t> next{1};
  return next.fetch_add(1, std::memory_order_relaxed);
}

std::tuple<std::uint64_t, std::size_t, std::int64_t> key_of(const Tensor& tensor) {
  return {tensor.storage()->id(), tensor.offset(), tensor.bytes()};
}

/// The tape of this thread, and whether ops are recorded on it.
std::pair<Tape*, bool>& thread_tape() {
  thread_local std::pair<Tape*, bool> tape{nullptr, false};
  return tape;
}

}  // namespace

Recording::Recording(Tape* tape, bool records) : outer_(std::exchange(thread_tape(), {tape, records})) {}
Recording::Recording(Tape& tape) : Recording(&tape, true) {}
Recording::~Recording() { thread_tape() = outer_; }
NoGrad::NoGrad() : Recording(Tape::current(), false) {}

Tape* Tape::current() { return thread_tape().first; }
Tape* Tape::recording() { return thread_tape().second ? thread_tape().first : nullptr; }

OpMode*& OpMode::innermost() {
  thread_local OpMode* mode = nullptr;
  return mode;
}

Tensor& LeafGradients::operator[](const Leaf* leaf) {
  const auto [place, is_new] = places_.emplace(leaf, entries_.size());
  if (is_new) entries_.emplace_back(leaf, Tensor());
  return entries_[place->second].second;
}

Tape::Tape(MemoryPolicy& policy) : policy_(policy), place_{.tape = next_tape_id()} { place_.pass = place_.tape; }
Tape::Tape(MemoryPolicy& policy, std::uint64_t pass, Label region)
    : policy_(policy), place_{.tape = next_tape_id(), .pass = pass, .region = region} {}

Tape::~Tape() {
  // A variable that outlives the tape refers to its saved tensor, and thereby to the sources of a rematerialization.
  for (const std::weak_ptr<SavedTensor>& saved : order_)
    if (const SavedTensorPtr alive = saved.lock()) alive->discard();
}

SavedTensorPtr Tape::saved_tensor(const Tensor& tensor, const Producer& producer) {
  std::weak_ptr<SavedTensor>& known = saved_[key_of(tensor)];
  SavedTensorPtr saved = known.lock();
  if (!saved || saved->is_discarded()) {
    Producer numbered = producer;
    numbered.occurrence = occurrences_[{producer.op, producer.path, producer.source.kind, producer.source.index}]++;
    saved = std::make_shared<SavedTensor>(tensor, policy_, place_, released_, numbered);
    known = saved;
    order_.push_back(saved);
    released_.reserve(order_.capacity());
  }
  return saved;
}

SavedTensorPtr Tape::saved_tensor(const Variable& variable) {
  Variable::Value& value = variable.value();
  if (!value.saved || value.saved->tape() != place_.tape || value.saved->is_discarded()) {
    value.saved = saved_tensor(value.tensor, {.op = {}, .path = value.path});
    value.saved->add_name();
  }
  return value.saved;
}

std::int64_t Tape::add(std::unique_ptr<Node> node) {
  expect(!consumed_, "backward was run on this tape already: record on a new one");
  for (const Edge& edge : node->edges) {
    if (edge.leaf) ++readers_[edge.leaf.get()];
    expect(edge.node < 0 || edge.tape == place_.tape,
           "{} in {} takes a value that another tape recorded: detach it first", node->op.text(), node->path.text());
  }
  for (const std::shared_ptr<Leaf>& leaf : node->leaves) ++readers_[leaf.get()];
  node->gradients.resize(node->outputs.size());
  nodes_.push_back(std::move(node));
  return std::ssize(nodes_) - 1;
}

void Tape::set_producer(Variable& variable, const Producer& producer, std::int64_t node, int index) {
  Variable::Value& value = variable.value();
  value.is_leaf = false;
  value.path = producer.path;
  value.saved = saved_tensor(value.tensor, producer);
  value.saved->add_name();
  if (node >= 0) value.edge = {.tape = place_.tape, .node = node, .output = index, .leaf = nullptr};
}

namespace {

/// Records on `tape` that `op` computed `recorded` from `inputs`. Saves the tensor of each row of `op->saves()` with a
/// wanted gradient in `for_grad_of`.
void add_op(Tape& tape, const std::shared_ptr<const Operation>& op, Label path, const std::vector<Variable>& inputs,
            RecordedOp& recorded) {
  const std::vector<Tensor>& extra_outputs = recorded.extra_outputs;
  const Label name(op->name());
  auto node = std::make_unique<OpNode>();
  node->op = name;
  node->path = path;
  node->operation = op;
  std::vector<SavedTensorPtr> saved_inputs, saved_outputs, saved_extras;
  bool is_view = false;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const bool wants = inputs[i].requires_grad(), is_there = inputs[i].defined();
    if (wants) node->wanted.insert(static_cast<int>(i));
    node->edges.push_back(wants ? inputs[i].edge() : Edge{});
    node->inputs.push_back(is_there ? inputs[i].shape() : Shape{});
    saved_inputs.push_back(is_there ? tape.saved_tensor(inputs[i]) : nullptr);
    is_view = is_view || (is_there && key_of(inputs[i].tensor()) == key_of(recorded.outputs.front().tensor()));
  }
  for (const Variable& result : recorded.outputs) node->outputs.push_back(result.shape());
  OpNode& added = *node;
  std::unique_ptr<Node> unrecorded;  // no gradient flows through it
  std::int64_t number = -1;
  if (added.wanted.empty())
    unrecorded = std::move(node);
  else
    number = tape.add(std::move(node));
  for (std::size_t i = 0; i < extra_outputs.size(); ++i) {
    SavedTensorPtr saved = tape.saved_tensor(
        extra_outputs[i], {.op = name, .path = path, .source = lacuna::extra_output(static_cast<int>(i))});
    saved->add_name();  // held until this op is recorded
    saved_extras.push_back(std::move(saved));
  }
  for (std::size_t i = 0; i < recorded.outputs.size(); ++i) {
    const int index = static_cast<int>(i);
    tape.set_producer(recorded.outputs[i], {.op = name, .path = path, .source = nth_output(index)}, number, index);
    saved_outputs.push_back(tape.saved_tensor(recorded.outputs[i]));
  }
  const auto saved_at = [&](Source source) {
    if (source.kind == Source::Kind::input) return saved_inputs[source.index];
    if (source.kind == Source::Kind::output) return saved_outputs[source.index];
    return source.index < saved_extras.size() ? saved_extras[source.index] : nullptr;
  };
  const auto shape_at = [&](Source source) {
    if (source.kind == Source::Kind::input) return added.inputs[source.index];
    if (source.kind == Source::Kind::output) return added.outputs[source.index];
    return source.index < extra_outputs.size() ? extra_outputs[source.index].shape() : Shape();
  };
  if (number >= 0) {
    const auto heads_of = [&](const Save& row) {
      if (op->heads() == 1) return std::int64_t{1};
      return operand_heads(*op, shape_at(op->saves().front().from).back(), shape_at(row.from).back());
    };
    for (const Save& row : op->saves()) {
      const SavedTensorPtr saved = saved_at(row.from);
      const bool counts = row.when == When::always ||
                          (!tape.policy().quantizes() && (row.when == When::lossless || !extra_outputs.empty()));
      const bool needed = saved != nullptr && counts && row.for_grad_of.intersects(added.wanted);
      if (needed && row.when == When::held)
        saved->add_guest();
      else if (needed)
        saved->add_reader({.op = name,
                           .kind = op->kind(),
                           .slopes = op->slopes(),
                           .path = path,
                           .source = row.from,
                           .need = row.need,
                           .optional = row.optional},
                          row.groups, heads_of(row));
      added.saved.push_back(needed ? saved : nullptr);
      added.saved_shapes.push_back(shape_at(row.from));
    }
  }
  if (!op->rematerializes().empty() && !is_view) {
    Origin origin{op, {}, {}};
    for (const Remat& row : op->rematerializes()) {
      const bool is_given = row.from.kind != Source::Kind::input || row.from.index < inputs.size();
      origin.sources.push_back(is_given ? saved_at(row.from) : nullptr);
      origin.shapes.push_back(is_given ? shape_at(row.from) : Shape{});
    }
    saved_outputs.front()->set_origin(std::move(origin));
  }
  for (const SavedTensorPtr& saved : saved_extras) saved->remove_name();
}

}  // namespace

namespace {

/// Notes on the inputs' saved tensors how the op will use them, before their sources are finalized.
void note_uses(Tape& tape, const Operation& op, const std::vector<Variable>& inputs) {
  InputSet wanted, read;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i].requires_grad()) wanted.insert(static_cast<int>(i));
  for (const Save& row : op.saves())
    if (row.from.kind == Source::Kind::input && row.for_grad_of.intersects(wanted)) read.insert(row.from.index);
  for (const Remat& row : op.rematerializes())
    if (row.from.kind == Source::Kind::input) read.insert(row.from.index);
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i].defined()) tape.saved_tensor(inputs[i])->note_use(read.contains(static_cast<int>(i)));
}

}  // namespace

RecordedOp record(const std::shared_ptr<const Operation>& op, const std::vector<Variable>& inputs) {
  Tape* const tape = Tape::current();
  if (Tape* const recording = Tape::recording()) note_uses(*recording, *op, inputs);
  if (tape != nullptr) tape->finalize_released();
  Owner owner = AllocationScope::current();
  owner.op = Label(op->name());
  const AllocationScope scope(owner);

  std::vector<Tensor> outputs, extra_outputs;
  for (OpMode* mode = OpMode::innermost(); mode != nullptr; mode = mode->outer())
    if (std::vector<Tensor> given = mode->outputs_without_running(*op, inputs); !given.empty())
      outputs = std::move(given);
  if (outputs.empty()) {
    Observer* const observer = tape == nullptr ? nullptr : tape->observer();
    std::vector<Tensor> tensors;
    tensors.reserve(inputs.size());
    for (const Variable& input : inputs) tensors.push_back(input.defined() ? input.tensor() : Tensor());
    if (observer != nullptr) observer->before(Phase::forward, *op, owner.path);
    outputs = op->forward(tensors, extra_outputs);
    if (observer != nullptr) {
      std::vector<Shape> shapes;
      for (const Tensor& tensor : tensors) shapes.push_back(tensor.defined() ? tensor.shape() : Shape());
      const Work work{bytes_of(tensors) + bytes_of(extra_outputs) + bytes_of(outputs),
                      op->macs(shapes, outputs.front().shape())};
      observer->after(Phase::forward, *op, owner.path, work, outputs);
    }
  }
  RecordedOp recorded{.outputs = {}, .extra_outputs = std::move(extra_outputs)};
  for (Tensor& one : outputs) recorded.outputs.push_back(Variable::computed(std::move(one), owner.path));
  if (Tape* const recording = Tape::recording()) add_op(*recording, op, owner.path, inputs, recorded);
  for (OpMode* mode = OpMode::innermost(); mode != nullptr; mode = mode->outer())
    mode->after(*op, inputs, recorded.outputs, recorded.extra_outputs);
  return recorded;
}

void Tape::finalize_released() {
  for (; released_begin_ < released_.size(); ++released_begin_)
    if (const SavedTensorPtr saved = released_[released_begin_].lock()) saved->finalize_if_unnamed();
  released_.clear();
  released_begin_ = 0;
}

void Tape::finalize() {
  finalize_released();
  // The order is reversed because a rematerialized tensor becomes a reader of its sources.
  for (auto saved = order_.rbegin(); saved != order_.rend(); ++saved)
    if (const SavedTensorPtr alive = saved->lock()) alive->finalize();
}

std::vector<SavedTensorReport> Tape::report() {
  finalize();
  std::vector<SavedTensorReport> reports;
  for (const std::weak_ptr<SavedTensor>& saved : order_)
    if (const SavedTensorPtr alive = saved.lock(); alive && alive->is_held()) reports.push_back(alive->report());
  return reports;
}

/// The backward pass of a tape.
class Tape::Pass final : public BackwardPass {
 public:
  Pass(Tape& tape, const BackwardOptions& options) : tape_(tape), options_(options), awaited_(tape.readers_) {}

  /// Sets the initial gradient at `edge`.
  void start(const Edge& edge, Tensor gradient) {
    accumulate(edge, std::move(gradient));
    if (edge.leaf) leaf_done(*edge.leaf);
  }
  void expect_from(const Edge& edge) {
    if (edge.leaf) ++awaited_[edge.leaf.get()];
  }
  void run(Node& node, std::int64_t number) {
    const auto is_known = [](const Tensor& gradient) { return gradient.defined(); };
    if (std::ranges::any_of(node.gradients, is_known)) {
      if (options_.before_node) options_.before_node(node, node_id(tape_.place_.tape, number));
      std::vector<Tensor> gradients(node.outputs.size());
      node.gradients.swap(gradients);
      return node.backward(std::move(gradients), *this);
    }
    release_readers(node);  // no loss depends on the node
    for (const Edge& edge : node.edges)
      if (edge.leaf) leaf_done(*edge.leaf);
    for (const std::shared_ptr<Leaf>& leaf : node.leaves) leaf_done(*leaf);
  }

  Tensor take_gradient(const Edge& edge) override {
    Tensor& there = gradient_at(edge);
    return there.defined() && there.unique() ? std::exchange(there, {}) : Tensor();
  }
  void accumulate_grad(const Node& node, std::size_t input, Tensor gradient) override {
    accumulate(node.edges[input], std::move(gradient));
  }
  void release_readers(Node& node) override {
    for (const SavedTensorPtr& saved : node.saved)
      if (saved) saved->release_reader();
    if (!options_.retain_graph) node.saved.clear();
  }
  void leaf_done(const Leaf& leaf) override {
    const auto readers = awaited_.find(&leaf);
    if (readers == awaited_.end() || --readers->second > 0) return;
    for (const GradientHook& hook : options_.post_accumulate_grad_hooks)
      if (gradient_of(leaf).defined()) hook(leaf);
  }
  LeafGradients* leaf_gradients() override { return options_.leaf_gradients; }
  Observer* observer() override { return tape_.observer_; }
  const NodeHook& before_node() const override { return options_.before_node; }

 private:
  bool collects(const Leaf& leaf) const {
    return options_.leaf_gradients != nullptr && leaf.purpose == Purpose::gradients;
  }
  const Tensor& gradient_of(const Leaf& leaf) const {
    return collects(leaf) ? (*options_.leaf_gradients)[&leaf] : leaf.gradient;
  }
  Tensor& gradient_at(const Edge& edge) {
    if (!edge.leaf)
      return tape_.nodes_[static_cast<std::size_t>(edge.node)]->gradients[static_cast<std::size_t>(edge.output)];
    return collects(*edge.leaf) ? (*options_.leaf_gradients)[edge.leaf.get()] : edge.leaf->gradient;
  }
  void accumulate(const Edge& edge, Tensor gradient) {
    gradient = gradient.reshape(
        edge.leaf ? edge.leaf->shape
                  : tape_.nodes_[static_cast<std::size_t>(edge.node)]->outputs[static_cast<std::size_t>(edge.output)]);
    if (edge.leaf && edge.leaf->gradient_type) gradient = gradient.to(*edge.leaf->gradient_type);
    Tensor& target = gradient_at(edge);
    target = target.defined() ? sum(std::move(target), std::move(gradient)) : std::move(gradient);
    if (edge.leaf && !collects(*edge.leaf) && target.storage()->owner().purpose != edge.leaf->purpose)
      target.storage()->assign({edge.leaf->purpose, {}, edge.leaf->path});
  }

  Tape& tape_;
  const BackwardOptions& options_;
  std::unordered_map<const Leaf*, int> awaited_;  // number of readers that the pass has not passed yet
};

void Tape::backward(std::vector<std::pair<Variable, Tensor>> losses, const BackwardOptions& options) {
  expect(!consumed_,
         "backward was run on this tape before, and what it had saved is freed, or read in part before an error: run "
         "forward again on a new tape, or pass several losses to one call");
  std::vector<std::pair<Edge, Tensor>> starts;
  for (auto& [loss, gradient] : losses) {
    expect(loss.requires_grad(), "backward from a value that depends on no parameter that requires a gradient");
    expect(loss.edge().leaf || loss.edge().tape == place_.tape, "backward from a value that another tape recorded");
    expect(gradient.defined() || loss.tensor().count() == 1,
           "backward from {}: a value with more than one element needs the gradient to start from", loss.shape());
    expect(!gradient.defined() || (gradient.shape() == loss.shape() && gradient.dtype() == loss.dtype()),
           "backward from {} {} with a gradient of {} {}", loss.shape(), name_of(loss.dtype()), gradient.shape(),
           name_of(gradient.dtype()));
    if (!gradient.defined()) gradient = Tensor::full(loss.shape(), 1, loss.dtype(), loss.device());
    // Ops do not write into memory that the caller also holds, but a leaf would keep it as its own gradient.
    if (loss.edge().leaf && !gradient.unique()) gradient = gradient.clone();
    starts.emplace_back(loss.edge(), std::move(gradient));
  }
  losses.clear();
  finalize();
  for (const std::weak_ptr<SavedTensor>& saved : order_)
    if (const SavedTensorPtr alive = saved.lock()) alive->set_retained(options.retain_graph);
  consumed_ = true;  // set even if an error follows, which leaves partial gradients
  if (!starts.empty()) saved_bytes_ = at(ledger(starts.front().second.device()).live(), Purpose::saved);
  Pass pass(*this, options);
  for (const auto& [edge, gradient] : starts) pass.expect_from(edge);
  for (auto& [edge, gradient] : starts) pass.start(edge, std::move(gradient));
  starts.clear();
  for (std::size_t i = nodes_.size(); i-- > 0;) {
    pass.run(*nodes_[i], static_cast<std::int64_t>(i));
    if (!options.retain_graph) nodes_[i].reset();
  }
  consumed_ = !options.retain_graph;
}

}  // namespace lacuna
