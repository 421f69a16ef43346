// Regions that are recomputed: forward saves their input alone, backward runs them again on a tape of their own.
#include "autograd/accumulate.h"
#include "autograd/policies/lossless.h"
#include "autograd/tape.h"
#include "core/random.h"

#include <set>

namespace lacuna {
namespace {

/// Draws in backward are those of forward.
class RandomStateScope {
 public:
  explicit RandomStateScope(const RandomState& state) : outer_(std::exchange(random_state(), state)) {}
  ~RandomStateScope() { random_state() = outer_; }
  RandomStateScope(const RandomStateScope&) = delete;
  RandomStateScope& operator=(const RandomStateScope&) = delete;

 private:
  RandomState outer_;
};

/// While it lives, ops that no tape records belong to a region of `tape`; `notes`, if given, is true.
class RegionRun {
 public:
  RegionRun(Tape*& running, Tape* tape, bool* notes = nullptr)
      : running_(running), outer_(std::exchange(running, tape)), notes_(notes) {
    if (notes_ != nullptr) *notes_ = true;
  }
  ~RegionRun() {
    running_ = outer_;
    if (notes_ != nullptr) *notes_ = false;
  }
  RegionRun(const RegionRun&) = delete;
  RegionRun& operator=(const RegionRun&) = delete;

 private:
  Tape*& running_;
  Tape* outer_;
  bool* notes_;
};

}  // namespace

bool recomputes(std::string_view path) {
  const Tape* const tape = Tape::recording();
  return tape != nullptr && tape->root_->policy_.recomputes(path, tape->region_.text());
}

std::int64_t recomputes_together(const SequencePart& part) {
  const Tape* const tape = Tape::recording();
  return tape == nullptr ? 0 : tape->root_->policy_.recomputes_together(part, tape->region_.text());
}

bool is_recomputing() {
  const Tape* const tape = Tape::recording() != nullptr ? Tape::recording() : Tape::running_region();
  return tape != nullptr && (tape->replayed_ != nullptr || tape->trial_);
}

Variable recompute(Label path, Variable x, bool trains, std::function<Variable(Variable)> body) {
  Tape* const tape = Tape::recording();
  expect(tape != nullptr, "{} is to be recomputed, but no tape is recording", path.text());
  if (!trains && !x.requires_grad()) {
    const NoGrad no_grad;  // nothing of it is saved; and a sequence would ask again whether it is a region
    const RegionRun watched(Tape::running_region(), tape);
    return body(std::move(x));
  }
  return tape->add_region(path, std::move(x), std::move(body));
}

Variable Tape::add_region(Label path, Variable x, std::function<Variable(Variable)> body) {
  expect(!consumed_, "this tape was walked back already: record on a new one");
  const Label name("recompute");
  const Edge edge = x.requires_grad() ? x.value_->edge : Edge{};
  if (edge.leaf) ++readers_[edge.leaf.get()];
  expect(edge.node < 0 || edge.tape == id_, "{} takes a value that another tape recorded: detach it first",
         path.text());
  const SavedTensorPtr slot = slot_of(x);
  // Of a sequence each token has its own scale, which the ops in the region see.
  slot->add_user({name, path, input(0), Need::value}, x.shape().rank() == 3 ? Groups::token : Groups::run);
  Node node{.path = path,
            .wanted = x.requires_grad() ? InputSet{0} : InputSet{},
            .edges = {edge},
            .inputs = {x.shape()},
            .saved = {slot},
            .shapes = {x.shape()}};

  const std::int64_t index = std::ssize(nodes_);
  nodes_.push_back(std::move(node));
  Variable result = [&] {
    const NoGrad no_grad;
    const RegionRun run(running_region(), this, &notes_ops_);
    Tensor values = x.tensor();
    // Of an input of the program it matters whether its caller gave it up: the slot waits until the body has.
    const bool waits = slot->facts().op.text().empty();
    if (waits) slot->hold();
    x = {};
    Variable y(body(Variable(std::move(values))).tensor());
    if (waits) slot->release();
    return y;
  }();
  for (const std::shared_ptr<Leaf>& leaf : nodes_.back().leaves) ++readers_[leaf.get()];
  nodes_.back().ops_read = count_read(nodes_.back().ops);
  Variable::Value& value = *result.value_;
  value.is_leaf = false;
  value.path = path;
  value.slot = slot_of(value.tensor, {.op = name, .path = path});
  value.slot->hold();
  value.edge = {.tape = id_, .node = index, .leaf = nullptr};
  nodes_.back().shape = result.shape();
  nodes_.back().replay = [body = std::move(body), state = random_state()](Variable again) {
    const RandomStateScope scope(state);
    return body(std::move(again));
  };
  return result;
}

void Tape::note_region_op(const Operation& op, const std::vector<Variable>& inputs,
                          const std::vector<Tensor>& extra_outputs, const Tensor& result) {
  Node& region = nodes_.back();
  RegionOp noted{.op = Label(op.name()),
                 .shape = result.shape(),
                 .dtype = result.dtype(),
                 .result = result.storage()->id(),
                 .saves_result = !extra_outputs.empty(),
                 .saved_inputs = {}};
  for (const Variable& input : inputs)
    if (input.leaf() != nullptr) region.leaves.push_back(input.value_->edge.leaf);
  for (const Save& row : op.saves()) {
    if (row.from.kind != Source::Kind::input)
      noted.saves_result = true;
    else if (inputs[row.from.index].defined())
      noted.saved_inputs.push_back(inputs[row.from.index].tensor().storage()->id());
  }
  region.ops.push_back(std::move(noted));
}

/// How many of a region's ops, from the first on, gave something that backward reads, or that such an op read: the
/// rest need not run again. In a transformer's block that is the last linear layer and the sum behind it.
std::size_t Tape::count_read(const std::vector<RegionOp>& ops) {
  std::size_t read = ops.size();
  for (std::set<std::uint64_t> saved; read > 0; --read) {
    const RegionOp& last = ops[read - 1];
    if (last.saves_result || saved.contains(last.result)) break;
    saved.insert(last.saved_inputs.begin(), last.saved_inputs.end());
  }
  return read;
}

const Tape::RegionOp* Tape::next_unread(const Operation& op) {
  if (replayed_ == nullptr) return nullptr;
  const std::size_t index = replayed_ops_++;
  expect(index < replayed_->ops.size() && replayed_->ops[index].op.text() == op.name(),
         "{} was recomputed with another op than in forward: {} as number {}", replayed_->path.text(), op.name(),
         index);
  return index < replayed_->ops_read ? nullptr : &replayed_->ops[index];
}

Tensor& Tape::LeafGradients::operator[](const Leaf* leaf) {
  const auto [place, is_new] = places_.emplace(leaf, entries_.size());
  if (is_new) entries_.emplace_back(leaf, Tensor());
  return entries_[place->second].second;
}

const Tensor& Tape::LeafGradients::at(const Leaf* leaf) const { return entries_.at(places_.at(leaf)).second; }

// What the region saves now is read at once: nothing is gained by coding it.
Tensor Tape::run_again(const Node& node, Tensor input, Tensor gradient, LeafGradients* taken) {
  const std::unique_ptr<MemoryPolicy> exact = make_policy("exact");
  Variable x(std::move(input), node.wanted.contains(0));
  if (x.requires_grad()) x.value_->edge.leaf->purpose = Purpose::transient;
  Tape tape(*exact);
  tape.replayed_ = &node;
  tape.region_ = node.path;
  tape.root_ = root_;
  tape.taken_ = taken != nullptr ? taken : taken_;
  tape.observer_ = tape.taken_ != nullptr ? nullptr : observer_;
  Variable result = [&] {
    const Recording recording(tape);
    const RegionRun run(Tape::running_region(), &tape);  // what the body does not record is counted too, as in forward
    return node.replay(x);
  }();
  const Edge from = result.value_->edge;
  expect(from.leaf || from.node >= 0, "{} was recomputed, but its result depends on nothing that wants a gradient",
         node.path.text());
  expect(tape.replayed_ops_ == node.ops.size(), "{} was recomputed by {} ops, after {} in forward", node.path.text(),
         tape.replayed_ops_, node.ops.size());
  result = {};
  // Moved all the way: an op adds to a gradient in place only where nobody else sees it.
  std::vector<std::pair<Edge, Tensor>> gradients;
  gradients.emplace_back(from, std::move(gradient));
  tape.walk_back(std::move(gradients), {});
  expect(!x.requires_grad() || x.grad().defined(), "{} was recomputed, but its input had no part in the result",
         node.path.text());
  return x.requires_grad() ? x.grad() : Tensor();
}

void Tape::replay(Node& node, SensitivityRecord* record) {
  if (record != nullptr) probe(node, *record);
  Tensor input = node.saved[0]->whole(Label("recompute")).reshape(node.shapes[0]);
  release_readers(node);
  Tensor gradient = run_again(node, std::move(input), std::exchange(node.gradient, {}), nullptr);
  if (gradient.defined()) accumulate_grad(node.edges[0], std::move(gradient));
  if (node.edges[0].leaf) leaf_done(node.edges[0].leaf);
}

}  // namespace lacuna
