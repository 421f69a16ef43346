#include "autograd/plan/step_graph.h"

#include "autograd/checkpoint.h"
#include "autograd/op_mode.h"
#include "autograd/policies/lossless.h"
#include "autograd/policies/quantizing.h"
#include "core/ledger.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <unordered_map>
#include <utility>

namespace lacuna {
namespace {

std::int64_t mask_bytes(const SavedTensorInfo& info) { return (info.shape.count() + 7) / 8; }

/// Quantizes every tensor that can be to the given bits, and records each decision and each op with its memory. Events
/// alternate: the interval before an op, then the op.
class Recorder final : public MemoryPolicy, public Observer, public OpMode {
 public:
  Recorder(StepGraph& graph, const std::vector<std::string>& regions, int bits, const CostTable& costs)
      : MemoryPolicy(bits != exact_bits),
        graph_(graph),
        bits_(bits),
        costs_(costs),
        account_(ledger(Device::meta)),
        planned_(regions) {
    account_.reset_peak();
  }
  std::string_view name() const override { return "recorder"; }

  Hold decide(const SavedTensorInfo& info) override {
    const Hold hold = planned_hold(info, bits_, quantizes(), graph_.group_size);
    GraphTensor tensor{.key = info.key(), .path = std::string(info.path.text())};
    tensor.size = bit_choice(info, graph_.group_size);
    tensor.size.exact_bytes = info.bytes;
    for (const Reader& reader : info.readers) {
      tensor.readers.emplace_back(reader.path.text());
      uses_.push_back({graph_.tensors.size(), reader.op, reader.path, reader.rematerializes});
    }
    tensor.can_quantize = hold.kind == Hold::quantize && worth_quantizing(info);
    SavedTensorInfo valued = info;
    valued.need = std::max(info.need, Need::value);
    tensor.worth_quantizing = worth_quantizing(valued);
    tensor.is_input = info.is_input();
    tensor.is_statistic = info.source.kind == Source::Kind::extra_output;
    tensor.in_region = !info.region.text().empty();
    tensor.can_rematerialize = hold.kind == Hold::rematerialize;
    if (tensor.can_rematerialize && info.readers.size() > 1 && !(quantizes() && info.approximate))
      tensor.again_bytes = info.bytes;
    makers_[{info.op, info.path}] = graph_.tensors.size();
    tensor.can_offload = can_offload(hold, info) && !tensor.is_input;
    if (hold.signs || hold.kind == Hold::sign_mask) tensor.sign_bytes = mask_bytes(info);
    if (hold.kind == Hold::keep && !info.borrowed) tensor.held_bytes = info.bytes;
    if (hold.kind == Hold::quantize) tensor.held_bytes = held_bytes(tensor.size, tensor.is_input ? 8 : bits_);
    tensor.held_bytes += tensor.sign_bytes;
    if (const auto made = made_.find({info.op, info.path}); made != made_.end())
      tensor.made = made->second[std::min(static_cast<std::size_t>(info.occurrence), made->second.size() - 1)];
    tensor.birth = graph_.events.size() + 1;
    graph_.tensors.push_back(std::move(tensor));
    return hold;
  }

  std::int64_t recomputes(const ModuleRange& modules, std::string_view within) override {
    if (!modules.is_sequence())
      note_region(modules.path);
    else if (modules.is_whole())
      for (std::int64_t i = 0; i < modules.count; ++i)
        blocks_.emplace(fmt::format("{}.{}", modules.path, i), std::pair(std::string(modules.path), i));
    return planned_.recomputes(modules, within);
  }

  void before(Phase phase, const Operation& op, Label path) override {
    // Another micro-batch begins. The last one represents all, since gradients of earlier ones exist during it.
    if (phase == Phase::forward && graph_.backward_begin > 0 && !is_recomputing()) restart();
    if (phase == Phase::backward) entered_.emplace(Place{Label(op.name()), path}, graph_.events.size());
    note({.backward = graph_.backward_begin > 0, .path = std::string(path.text())});
  }
  void after(Phase phase, const Operation& op, Label path, const Work& work, std::span<const Tensor>) override {
    const bool backward = phase == Phase::backward;
    if (!backward && !is_recomputing()) made_[{Label(op.name()), path}].push_back(graph_.events.size());
    if (backward && graph_.backward_begin == 0) graph_.backward_begin = graph_.events.size() - 1;
    if (backward) walked_[{Label(op.name()), path}] = graph_.events.size() + 1;
    note({.backward = graph_.backward_begin > 0,
          .path = std::string(path.text()),
          .seconds = costs_.op_seconds(work.macs, work.bytes)});
  }

  void after(const Operation& op, const std::vector<Variable>& inputs, const std::vector<Variable>& outputs,
             const std::vector<Tensor>&) override {
    if (is_recomputing() || graph_.events.empty()) return;
    const std::size_t event = graph_.events.size() - 1;
    for (const Variable& input : inputs)
      if (input.defined())
        if (const auto known = values_.find(input.tensor().storage()->id()); known != values_.end())
          known->second.users.insert(graph_.events[event].path);
    for (const Variable& output : outputs)
      values_.try_emplace(output.tensor().storage()->id(),
                          Value{event, Label(op.name()), output.shape(), output.dtype()});
  }

  /// Fills in the values that are known only at the end of the step.
  void finish() {
    note({.backward = true});
    for (GraphTensor& tensor : graph_.tensors) {
      tensor.last_use = graph_.backward_begin;
      tensor.first_use = graph_.events.size();
    }
    for (const auto& [i, op, path, rematerializes] : uses_) {
      GraphTensor& tensor = graph_.tensors[i];
      const auto walked = walked_.find({op, path});
      tensor.last_use = std::max(tensor.last_use, walked != walked_.end() ? walked->second : last_in(path.text()));
      const auto entered = entered_.find({op, path});
      tensor.first_use =
          std::min(tensor.first_use, entered != entered_.end() ? entered->second : first_in(path.text()));
    }
    // The sources of a rematerialized tensor are read with it.
    constexpr int longest_chain = 3;
    for (int i = 0; i < longest_chain; ++i)
      for (const Use& use : uses_)
        if (const auto made = makers_.find({use.op, use.path}); use.rematerializes && made != makers_.end())
          graph_.tensors[use.tensor].first_use =
              std::min(graph_.tensors[use.tensor].first_use, graph_.tensors[made->second].first_use);
    note_users();
    for (GraphRegion& region : graph_.regions)
      if (const auto block = blocks_.find(region.path); block != blocks_.end())
        std::tie(region.sequence, region.index) = block->second;
  }

 private:
  void restart() {
    graph_.tensors.clear();
    graph_.events.clear();
    graph_.backward_begin = 0;
    uses_.clear();
    made_.clear();
    makers_.clear();
    values_.clear();
    walked_.clear();
    entered_.clear();
  }
  /// The last event of a region's backward, for the reader `recompute`.
  std::size_t last_in(std::string_view region) const {
    for (std::size_t i = graph_.events.size(); i-- > graph_.backward_begin;)
      if (lies_in(graph_.events[i].path, region)) return i + 1;
    return graph_.backward_begin;
  }
  std::size_t first_in(std::string_view region) const {
    for (std::size_t i = graph_.backward_begin; i < graph_.events.size(); ++i)
      if (lies_in(graph_.events[i].path, region)) return i;
    return graph_.backward_begin;
  }
  void note(StepGraph::Event event) {
    event.peak = account_.peak();
    event.live = account_.total();
    account_.reset_peak();
    graph_.recorded_bytes.peak = std::max(graph_.recorded_bytes.peak, event.peak);
    graph_.events.push_back(std::move(event));
  }
  void note_region(std::string_view path) {
    if (std::ranges::find(graph_.regions, path, &GraphRegion::path) == graph_.regions.end())
      graph_.regions.push_back({.path = std::string(path)});
  }

  /// Fills in the users of tensors. Values that backward does not read are tensors of no bytes.
  void note_users() {
    std::map<std::size_t, const Value*> by_event;
    std::unordered_map<std::string_view, std::size_t> first_backward;  // by path
    for (std::size_t i = graph_.backward_begin; i < graph_.events.size(); ++i)
      first_backward.emplace(graph_.events[i].path, i);
    for (const auto& [id, value] : values_) by_event.emplace(value.made, &value);
    for (GraphTensor& tensor : graph_.tensors)
      if (const auto found = by_event.find(tensor.made); found != by_event.end() && !tensor.is_statistic) {
        tensor.users.assign(found->second->users.begin(), found->second->users.end());
        by_event.erase(found);
      }
    for (const auto& [event, value] : by_event) {
      const Label path(graph_.events[event].path);
      const SavedTensorInfo info{.op = value->op,
                                 .path = path,
                                 .shape = value->shape,
                                 .dtype = value->dtype,
                                 .bytes = value->shape.count() * size_of(value->dtype),
                                 .need = Need::value,
                                 .readers = {}};
      GraphTensor tensor{.key = info.key(), .path = std::string(path.text())};
      tensor.size = bit_choice(info, graph_.group_size);
      tensor.size.exact_bytes = info.bytes;
      tensor.users.assign(value->users.begin(), value->users.end());
      tensor.worth_quantizing = worth_quantizing(info);
      tensor.made = event;
      tensor.birth = event + 1;
      tensor.last_use = graph_.backward_begin;
      for (const std::string& user : tensor.users)
        if (const auto first = first_backward.find(user); first != first_backward.end())
          tensor.last_use = std::max(tensor.last_use, first->second);
      tensor.first_use = graph_.events.size();
      graph_.tensors.push_back(std::move(tensor));
    }
  }

  struct Value {
    std::size_t made;
    Label op;
    Shape shape;
    DType dtype;
    std::set<std::string> users{};  // paths of ops
  };
  struct Use {
    std::size_t tensor;
    Label op, path;
    bool rematerializes;
  };
  using Place = std::pair<Label, Label>;  // op and path
  StepGraph& graph_;
  int bits_;
  const CostTable& costs_;
  Ledger& account_;
  PlannedRegions planned_;
  std::vector<Use> uses_;
  std::unordered_map<std::uint64_t, Value> values_;                     // by storage
  std::map<Place, std::vector<std::size_t>> made_;                      // events of the op's forward
  std::map<Place, std::size_t> makers_;                                 // the last tensor that the op made
  std::map<Place, std::size_t> entered_;                                // first event of the op's backward
  std::map<Place, std::size_t> walked_;                                 // one past the last event of the op's backward
  std::map<std::string, std::pair<std::string, std::int64_t>> blocks_;  // sequence and index of a block
};

}  // namespace

std::int64_t GraphTensor::bytes(const MemoryPlan::Choice& choice) const {
  if (choice.offloaded) return 0;
  if (choice.kept) return size.exact_bytes;
  if (!can_quantize) return held_bytes;
  return choice.bits == exact_bits ? size.exact_bytes
                                   : lacuna::held_bytes(size, is_input ? 8 : choice.bits) + sign_bytes;
}

StepGraph StepGraph::record(const MetaStep& step, const std::vector<std::string>& regions, int bits,
                            std::int64_t group_size, const CostTable& costs) {
  StepGraph graph;
  graph.group_size = group_size;
  Recorder recorder(graph, regions, bits, costs);
  graph.recorded_bytes.saved = step(recorder, &recorder).saved;
  recorder.finish();
  return graph;
}

std::vector<std::int64_t> StepGraph::totals(std::span<const HeldBytes> held) const {
  std::vector<std::int64_t> changes(events.size() + 1, 0), totals;  // at each event
  const auto add = [&](std::size_t from, std::size_t last, std::int64_t bytes) {
    changes[std::min(from, events.size())] += bytes;
    changes[std::min(last + 1, events.size())] -= bytes;
  };
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    add(tensors[i].birth, tensors[i].last_use, held[i].bytes - tensors[i].held_bytes);
    if (held[i].later != 0) add(held[i].from, tensors[i].last_use, held[i].later);
  }
  std::int64_t more = 0;
  for (std::size_t i = 0; i < events.size(); ++i) totals.push_back(events[i].peak + (more += changes[i]));
  return totals;
}

std::int64_t StepGraph::saved(std::span<const HeldBytes> held) const {
  std::int64_t saved = recorded_bytes.saved;
  for (std::size_t i = 0; i < tensors.size(); ++i)
    if (!tensors[i].in_region) saved += held[i].bytes - tensors[i].held_bytes;
  return saved;
}

double StepGraph::seconds() const {
  return std::accumulate(events.begin(), events.end(), 0.0,
                         [](double sum, const Event& event) { return sum + event.seconds; });
}

}  // namespace lacuna
