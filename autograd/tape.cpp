#include "autograd/tape.h"

#include "autograd/accumulate.h"
#include "autograd/node_tensors.h"

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

std::int64_t bytes_of(std::span<const Tensor> tensors) {
  std::int64_t bytes = 0;
  for (const Tensor& tensor : tensors)
    if (tensor.defined()) bytes += tensor.bytes();
  return bytes;
}

std::vector<Shape> shapes_of(const std::vector<Tensor>& tensors) {
  std::vector<Shape> shapes;
  for (const Tensor& tensor : tensors) shapes.push_back(tensor.defined() ? tensor.shape() : Shape());
  return shapes;
}

/// A gradient of one factor is a product of the other with that of the result: as many multiply-adds as forward each,
/// whether one input holds one factor or both.
std::int64_t macs_of_gradients(const Operation& op, std::span<const Shape> inputs, const Shape& y, InputSet wanted) {
  const InputSet factors = op.matmul_operands();
  return factors.empty() ? 0 : 2 * op.macs(inputs, y) * (factors & wanted).size() / factors.size();
}

}  // namespace

Tape::Tape(MemoryPolicy& policy) : policy_(policy), id_(next_tape_id()) {}

Tape::~Tape() {
  // A variable that lives on knows its slot, and that slot what it would be derived from.
  for (const std::weak_ptr<SavedTensor>& slot : order_)
    if (const SavedTensorPtr alive = slot.lock()) alive->discard();
}

Tape*& Tape::recording() {
  thread_local Tape* tape = nullptr;
  return tape;
}

Tape*& Tape::running_region() {
  thread_local Tape* tape = nullptr;
  return tape;
}

SavedTensorPtr Tape::slot_of(const Tensor& tensor, const Producer& maker) {
  std::weak_ptr<SavedTensor>& known = slots_[key_of(tensor)];
  SavedTensorPtr slot = known.lock();
  if (!slot || slot->is_discarded()) {
    Producer numbered = maker;
    numbered.occurrence = occurrences_[{maker.op, maker.path, maker.source.kind, maker.source.index}]++;
    slot = std::make_shared<SavedTensor>(tensor, policy_, id_, queue_, numbered);
    known = slot;
    order_.push_back(slot);
    queue_.reserve(order_.capacity());
  }
  return slot;
}

SavedTensorPtr Tape::slot_of(const Variable& variable) {
  Variable::Value& value = *variable.value_;
  if (!value.slot || value.slot->tape() != id_ || value.slot->is_discarded()) {
    value.slot = slot_of(value.tensor, {.op = {}, .path = value.path});
    value.slot->hold();
  }
  return value.slot;
}

void Tape::add_node(const std::shared_ptr<const Operation>& op, Label path, const std::vector<Variable>& inputs,
                    Variable& result, const std::vector<Tensor>& extra_outputs) {
  expect(!consumed_, "this tape was walked back already: record on a new one");
  const Label name(op->name());
  InputSet wanted;
  std::vector<Edge> edges;
  std::vector<SavedTensorPtr> input_slots;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const bool wants = inputs[i].requires_grad();
    if (wants) wanted.insert(static_cast<int>(i));
    edges.push_back(wants ? inputs[i].value_->edge : Edge{});
    if (edges.back().leaf) ++readers_[edges.back().leaf.get()];
    expect(!wants || edges.back().node < 0 || edges.back().tape == id_,
           "{} in {} takes a value that another tape recorded: detach it first", op->name(), path.text());
    input_slots.push_back(inputs[i].defined() ? slot_of(inputs[i]) : nullptr);
  }
  std::vector<SavedTensorPtr> aux_slots;
  for (std::size_t i = 0; i < extra_outputs.size(); ++i) {
    SavedTensorPtr slot =
        slot_of(extra_outputs[i], {.op = name, .path = path, .source = lacuna::extra_output(static_cast<int>(i))});
    slot->hold();  // until this op is recorded
    aux_slots.push_back(std::move(slot));
  }

  Variable::Value& value = *result.value_;
  const bool is_view = std::any_of(inputs.begin(), inputs.end(), [&](const Variable& input) {
    return input.defined() && key_of(input.tensor()) == key_of(value.tensor);
  });
  value.slot = slot_of(value.tensor, {.op = name, .path = path});
  value.slot->hold();
  const auto slot_at = [&](Source source) -> const SavedTensorPtr& {
    if (source.kind == Source::Kind::input) return input_slots[source.index];
    return source.kind == Source::Kind::extra_output ? aux_slots[source.index] : value.slot;
  };
  const auto shape_at = [&](Source source) {
    if (source.kind == Source::Kind::input)
      return inputs[source.index].defined() ? inputs[source.index].shape() : Shape{};
    return source.kind == Source::Kind::extra_output ? extra_outputs[source.index].shape() : value.tensor.shape();
  };
  if (!op->rematerializes().empty() && !is_view) {
    Origin origin{op, {}, {}};
    for (const Remat& row : op->rematerializes()) {
      origin.sources.push_back(slot_at(row.from));
      origin.shapes.push_back(shape_at(row.from));
    }
    value.slot->set_origin(std::move(origin));
  }

  if (!wanted.empty()) {
    Node node{.op = op, .path = path, .wanted = wanted, .edges = std::move(edges), .shape = value.tensor.shape()};
    for (const Variable& input : inputs) node.inputs.push_back(input.defined() ? input.shape() : Shape{});
    for (const Save& row : op->saves()) {
      const SavedTensorPtr& slot = slot_at(row.from);
      const bool needed = slot != nullptr && row.for_grad_of.intersects(wanted);
      if (needed)
        slot->add_user({.op = name, .path = path, .source = row.from, .need = row.need, .optional = row.optional},
                       row.groups, op->heads());
      node.saved.push_back(needed ? slot : nullptr);
      node.shapes.push_back(shape_at(row.from));
    }
    value.edge = {.tape = id_, .node = static_cast<std::int64_t>(nodes_.size()), .leaf = nullptr};
    nodes_.push_back(std::move(node));
  }
  for (const SavedTensorPtr& slot : aux_slots) slot->release();
}

std::pair<Variable, std::vector<Tensor>> Tape::run(const std::shared_ptr<const Operation>& op,
                                                   const std::vector<Variable>& inputs) {
  Owner owner = AllocationScope::current();
  owner.op = Label(op->name());
  const AllocationScope scope(owner);
  Tape* const tape = recording();
  Tape* const watched = tape != nullptr ? tape : running_region();  // a region runs forward off the tape
  if (watched != nullptr) watched->finalize_queued();
  Observer* const observer = watched == nullptr ? nullptr : watched->observer_;
  const RegionOp* const unread = watched == nullptr ? nullptr : watched->next_unread(*op);

  std::vector<Tensor> tensors;
  tensors.reserve(inputs.size());
  for (const Variable& input : inputs) tensors.push_back(input.defined() ? input.tensor() : Tensor());
  std::vector<Tensor> extra_outputs;
  if (observer != nullptr && unread == nullptr) observer->before(Phase::forward, *op, owner.path);
  Tensor out = unread != nullptr ? Tensor::empty(unread->shape, unread->dtype, inputs.front().device())
                                 : op->forward(tensors, extra_outputs);
  if (observer != nullptr && unread == nullptr) {
    const Work work{bytes_of(tensors) + bytes_of(extra_outputs) + out.bytes(),
                    op->macs(shapes_of(tensors), out.shape())};
    observer->after(Phase::forward, *op, owner.path, work, {&out, 1});
  }
  tensors.clear();

  Variable result(std::move(out));
  result.value_->is_leaf = false;
  result.value_->path = owner.path;
  if (tape != nullptr) {
    tape->add_node(op, owner.path, inputs, result, extra_outputs);
  } else if (watched != nullptr && watched->notes_ops_) {
    watched->note_region_op(*op, inputs, extra_outputs, result.tensor());
  }
  return {std::move(result), std::move(extra_outputs)};
}

std::pair<Variable, std::vector<Tensor>> record(const std::shared_ptr<const Operation>& op,
                                                const std::vector<Variable>& inputs) {
  return Tape::run(op, inputs);
}

void Tape::finalize_queued() {
  for (; queue_begin_ < queue_.size(); ++queue_begin_)
    if (const SavedTensorPtr released = queue_[queue_begin_].lock()) released->finalize_if_unnamed();
  queue_.clear();
  queue_begin_ = 0;
}

void Tape::finalize() {
  finalize_queued();
  // Later ones first: what is derived becomes a user of what it is derived from.
  for (auto slot = order_.rbegin(); slot != order_.rend(); ++slot)
    if (const SavedTensorPtr alive = slot->lock()) alive->finalize();
}

std::vector<Tape::SavedTensorReport> Tape::report() {
  finalize();
  std::vector<SavedTensorReport> reports;
  for (const std::weak_ptr<SavedTensor>& slot : order_) {
    const SavedTensorPtr alive = slot.lock();
    if (!alive) continue;
    SavedTensorReport report{alive->facts(),
                             alive->how(),
                             alive->held_bytes(),
                             alive->bits(),
                             alive->keeps_slope(),
                             alive->keeps_signs(),
                             {}};
    if (report.facts.users.empty() || report.hold == Hold::drop) continue;
    report.users.assign(report.facts.users.begin(), report.facts.users.end());
    report.facts.users = {};
    reports.push_back(std::move(report));
  }
  return reports;
}

Tensor& Tape::pending(const Edge& edge) {
  if (!edge.leaf) return nodes_[static_cast<std::size_t>(edge.node)].gradient;
  const bool taken = taken_ != nullptr && edge.leaf->purpose == Purpose::gradients;
  return taken ? (*taken_)[edge.leaf.get()] : edge.leaf->gradient;
}

void Tape::accumulate_grad(const Edge& edge, Tensor gradient) {
  const Shape& shape = edge.leaf ? edge.leaf->shape : nodes_[static_cast<std::size_t>(edge.node)].shape;
  gradient = gradient.reshape(shape);
  if (edge.leaf && edge.leaf->gradient_type) gradient = gradient.to(*edge.leaf->gradient_type);
  Tensor& target = pending(edge);
  target = target.defined() ? sum(std::move(target), std::move(gradient)) : std::move(gradient);
  const bool theirs = edge.leaf && &target == &edge.leaf->gradient;
  if (theirs && target.storage()->owner().purpose != edge.leaf->purpose)
    target.storage()->assign({edge.leaf->purpose, {}, edge.leaf->path});
}

void Tape::leaf_done(const std::shared_ptr<Leaf>& leaf) {
  if (taken_ != nullptr) return;
  const auto readers = root_->awaited_.find(leaf.get());
  if (readers == root_->awaited_.end() || --readers->second > 0) return;
  for (const GradientHook& hook : root_->running_->post_accumulate_grad_hooks)
    if (leaf->gradient.defined()) hook(*leaf);
}

void Tape::walk_back(Node& node, SensitivityRecord* record) {
  if (node.replay) return replay(node, record);
  if (record != nullptr) probe(node, *record);
  Owner owner{Purpose::transient, Label(node.op->name()), node.path};
  const AllocationScope scope(owner);
  Grads grads(node.edges.size(), node.wanted);
  for (std::size_t i = 0; i < node.edges.size(); ++i) {
    const int input = static_cast<int>(i);
    if (!node.wanted.contains(input) || !node.op->accumulates_into().contains(input)) continue;
    if (node.edges[i].leaf && node.edges[i].leaf->gradient_type) continue;  // an op adds to its own type
    if (Tensor& there = pending(node.edges[i]); there.defined() && there.unique())
      grads[input] = std::exchange(there, {}).reshape(node.inputs[i]);
  }
  const NodeTensors saved(node);
  if (observer_ != nullptr) {
    std::int64_t bytes = node.gradient.bytes();
    for (const SavedTensorPtr& slot : node.saved)
      if (slot) bytes += slot->read_bytes();
    observer_->before(Phase::backward, *node.op, node.path);
    node.op->backward(std::move(node.gradient), saved, grads);
    std::vector<Tensor> given;
    for (std::size_t i = 0; i < grads.size(); ++i)
      if (grads[static_cast<int>(i)].defined()) given.push_back(grads[static_cast<int>(i)]);
    observer_->after(Phase::backward, *node.op, node.path,
                     {bytes + bytes_of(given), macs_of_gradients(*node.op, node.inputs, node.shape, node.wanted)},
                     given);
  } else {
    node.op->backward(std::move(node.gradient), saved, grads);
  }
  release_readers(node);
  for (std::size_t i = 0; i < node.edges.size(); ++i) {
    const int input = static_cast<int>(i);
    if (!node.wanted.contains(input)) continue;
    expect(grads[input].defined(), "{} gave no gradient for input {}, which wants one", node.op->name(), i);
    accumulate_grad(node.edges[i], std::move(grads[input]));
    if (node.edges[i].leaf) leaf_done(node.edges[i].leaf);
  }
}

void Tape::release_readers(Node& node) const {
  for (const SavedTensorPtr& slot : node.saved)
    if (slot) slot->release_reader();
  if (!running_->retain_graph) node.saved.clear();
}

void Tape::backward(const std::vector<std::pair<Variable, Tensor>>& losses, const BackwardOptions& options) {
  expect(!consumed_,
         "backward was run on this tape before, and what it had saved is freed, or read in part before an error: run "
         "forward again on a new tape, or pass several losses to one call");
  for (const auto& [loss, product] : losses) {
    expect(loss.requires_grad(), "backward from a value that depends on no parameter that wants a gradient");
    expect(loss.value_->edge.leaf || loss.value_->edge.tape == id_, "backward from a value that another tape recorded");
    expect(product.defined() || loss.tensor().count() == 1,
           "backward from {}: a value with more than one element needs the gradient to start from", loss.shape());
    expect(!product.defined() || (product.shape() == loss.shape() && product.dtype() == loss.dtype()),
           "backward from {} {} with a gradient of {} {}", loss.shape(), name_of(loss.dtype()), product.shape(),
           name_of(product.dtype()));
  }
  std::vector<std::pair<Edge, Tensor>> gradients;
  for (const auto& [loss, product] : losses)
    gradients.emplace_back(loss.value_->edge, product.defined()
                                                  ? product.clone()
                                                  : Tensor::full(loss.shape(), 1, loss.dtype(), loss.device()));
  walk_back(std::move(gradients), options);
}

void Tape::walk_back(std::vector<std::pair<Edge, Tensor>> gradients, const BackwardOptions& options) {
  finalize();
  for (const std::weak_ptr<SavedTensor>& slot : order_)
    if (const SavedTensorPtr alive = slot.lock()) alive->set_retained(options.retain_graph);
  consumed_ = true;  // also after an error, which leaves half of the gradients behind
  running_ = &options;
  awaited_.clear();
  if (!options.post_accumulate_grad_hooks.empty()) {
    awaited_ = readers_;
    for (const auto& [edge, gradient] : gradients)
      if (edge.leaf) ++awaited_[edge.leaf.get()];
  }
  if (!gradients.empty()) saved_bytes_ = at(ledger(gradients.front().second.device()).live(), Purpose::saved);
  for (auto& [edge, gradient] : gradients) {
    accumulate_grad(edge, std::move(gradient));
    if (edge.leaf) leaf_done(edge.leaf);
  }
  gradients.clear();
  SensitivityRecord* const record =
      replayed_ != nullptr || options.retain_graph ? nullptr : policy_.sensitivity_record();
  for (auto node = nodes_.rbegin(); node != nodes_.rend(); ++node) {
    if (node->gradient.defined()) {
      walk_back(*node, record);
    } else {  // no loss depends on it
      release_readers(*node);
      for (const Edge& edge : node->edges)
        if (edge.leaf) leaf_done(edge.leaf);
      for (const std::shared_ptr<Leaf>& leaf : node->leaves) leaf_done(leaf);
    }
    if (!options.retain_graph) *node = Node{};
  }
  consumed_ = !options.retain_graph;
  if (replayed_ == nullptr && !trial_ && !options.retain_graph) policy_.end_pass();
}

}  // namespace lacuna
