#include "autograd/plan/step_graph.h"

#include "autograd/checkpoint.h"
#include "autograd/policies/quantizing.h"
#include "core/ledger.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

namespace lacuna {
namespace {

std::int64_t mask_bytes(const SavedTensorInfo& info) { return (info.shape.count() + 7) / 8; }

/// Holds every tensor that can be quantized in as many bits, notes each decision, and each op with the memory it
/// brought. Events alternate: before each op what lies between it and the last one, then the op.
class Recorder final : public MemoryPolicy, public Observer {
 public:
  Recorder(StepGraph& graph, int bits, const CostTable& costs)
      : MemoryPolicy(bits != exact_bits),
        graph_(graph),
        bits_(bits),
        costs_(costs),
        account_(ledger(Device::meta)),
        planned_(graph.recorded) {
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
      uses_.push_back({graph_.tensors.size(), reader.op, reader.path});
    }
    tensor.can_quantize = hold.kind == Hold::quantize && worth_quantizing(info);
    tensor.is_input = info.is_input();
    tensor.can_rematerialize = hold.kind == Hold::rematerialize;
    if (hold.signs || hold.kind == Hold::sign_mask) tensor.sign_bytes = mask_bytes(info);
    if (hold.kind == Hold::keep && !info.borrowed) tensor.held_bytes = info.bytes;
    if (hold.kind == Hold::quantize) tensor.held_bytes = held_bytes(tensor.size, tensor.is_input ? 8 : bits_);
    tensor.held_bytes += tensor.sign_bytes;
    tensor.birth = graph_.events.size() + 1;
    producers_.push_back({info.op, info.path, info.occurrence});
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

  void before(Phase phase, const Operation&, Label path) override {
    // Another micro-batch begins: the last one stands for all, since it finds the gradients of those before it.
    if (phase == Phase::forward && graph_.backward_begin > 0 && !is_recomputing()) restart();
    note({.backward = graph_.backward_begin > 0, .path = std::string(path.text())});
  }
  void after(Phase phase, const Operation& op, Label path, const Work& work, std::span<const Tensor>) override {
    const bool backward = phase == Phase::backward;
    if (backward && graph_.backward_begin == 0) graph_.backward_begin = graph_.events.size() - 1;
    (backward ? walked_ : made_)[{Label(op.name()), path}].push_back(graph_.events.size());
    note({.backward = graph_.backward_begin > 0,
          .path = std::string(path.text()),
          .seconds = costs_.op_seconds(work.macs, work.bytes)});
  }

  /// Fills in what is known at the end of the step.
  void finish() {
    note({.backward = true});
    for (std::size_t i = 0; i < graph_.tensors.size(); ++i) {
      GraphTensor& tensor = graph_.tensors[i];
      const auto& [op, path, occurrence] = producers_[i];
      if (const auto made = made_.find({op, path}); made != made_.end())
        tensor.producer = made->second[std::min<std::size_t>(occurrence, made->second.size() - 1)];
      tensor.first_use = graph_.events.size();
      tensor.last_use = graph_.backward_begin;
    }
    for (const auto& [i, op, path] : uses_) {
      GraphTensor& tensor = graph_.tensors[i];
      const auto walked = walked_.find({op, path});
      const bool is_op = walked != walked_.end();
      tensor.last_use = std::max(tensor.last_use, is_op ? walked->second.back() + 1 : last_in(path.text()));
      if (is_op) tensor.first_use = std::min(tensor.first_use, walked->second.front());
    }
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
    producers_.clear();
    made_.clear();
    walked_.clear();
  }
  /// The last event of a region's backward: of the reader `recompute`.
  std::size_t last_in(std::string_view region) const {
    for (std::size_t i = graph_.events.size(); i-- > graph_.backward_begin;)
      if (lies_in(graph_.events[i].path, region)) return i + 1;
    return graph_.backward_begin;
  }
  void note(StepGraph::Event event) {
    event.peak = account_.peak();
    account_.reset_peak();
    graph_.recorded_bytes.peak = std::max(graph_.recorded_bytes.peak, event.peak);
    graph_.events.push_back(std::move(event));
  }
  void note_region(std::string_view path) {
    if (std::ranges::find(graph_.regions, path, &GraphRegion::path) == graph_.regions.end())
      graph_.regions.push_back({.path = std::string(path)});
  }

  struct Use {
    std::size_t tensor;
    Label op, path;
  };
  using Place = std::pair<Label, Label>;  // op and path
  StepGraph& graph_;
  int bits_;
  const CostTable& costs_;
  Ledger& account_;
  PlannedRegions planned_;
  std::vector<Use> uses_;
  std::vector<std::tuple<Label, Label, int>> producers_;  // of each tensor: op, path, occurrence
  std::map<Place, std::vector<std::size_t>> made_, walked_;
  std::map<std::string, std::pair<std::string, std::int64_t>> blocks_;  // sequence and number
};

}  // namespace

void IntervalSweep::add(std::size_t begin, std::size_t end, std::int64_t bytes) {
  if (begin >= end || bytes == 0) return;
  changes_[std::min(begin, changes_.size() - 1)] += bytes;
  changes_[std::min(end, changes_.size() - 1)] -= bytes;
}

std::int64_t IntervalSweep::highest(std::span<const StepGraph::Event> events, std::size_t begin,
                                    std::size_t end) const {
  std::int64_t sum = 0, highest = 0;
  for (std::size_t i = 0; i < end; ++i) {
    sum += changes_[i];
    if (i >= begin) highest = std::max(highest, events[i].peak + sum);
  }
  return highest;
}

std::int64_t GraphTensor::bytes(const MemoryPlan::Choice& choice) const {
  if (choice.kept) return size.exact_bytes;
  if (!can_quantize) return held_bytes;
  return choice.bits == exact_bits ? size.exact_bytes
                                   : lacuna::held_bytes(size, is_input ? 8 : choice.bits) + sign_bytes;
}

StepGraph StepGraph::record(const MetaStep& step, const std::vector<std::string>& regions, int bits,
                            std::int64_t group_size, const CostTable& costs) {
  StepGraph graph;
  graph.recorded = regions;
  graph.group_size = group_size;
  Recorder recorder(graph, bits, costs);
  graph.recorded_bytes.saved = step(recorder, &recorder).saved;
  recorder.finish();
  if (regions.empty()) graph.find_region_contents();
  return graph;
}

void StepGraph::find_region_contents() {
  for (GraphRegion& region : regions) {
    bool found[2] = {};  // in forward, in backward
    for (std::size_t i = 0; i < events.size(); ++i) {
      if (!lies_in(events[i].path, region.path)) continue;
      std::size_t& begin = events[i].backward ? region.backward_begin : region.forward_begin;
      (events[i].backward ? region.backward_end : region.forward_end) = i + 1;
      if (!std::exchange(found[events[i].backward ? 1 : 0], true)) begin = i;
      if (!events[i].backward) region.seconds += events[i].seconds;
    }
    std::size_t last = 0;  // op that makes a tensor which the region's backward reads
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const GraphTensor& tensor = tensors[i];
      if (!is_inside(tensor, region.path)) continue;
      region.inner.push_back(i);
      last = std::max(last, tensor.producer);
    }
    for (std::size_t i = region.forward_begin; i < std::min(last + 1, region.forward_end); ++i)
      if (lies_in(events[i].path, region.path)) region.recompute_seconds += events[i].seconds;
  }
}

bool is_inside(const GraphTensor& tensor, std::string_view path) {
  const auto lies = [path](const std::string& reader) { return lies_in(reader, path); };
  return !tensor.is_input && lies(tensor.path) && std::ranges::all_of(tensor.readers, lies);
}

bool is_output(const GraphTensor& tensor, std::string_view path) {
  return tensor.can_rematerialize && lies_in(tensor.path, path) && !is_inside(tensor, path);
}

StepBytes StepGraph::bytes(std::span<const std::int64_t> held) const {
  IntervalSweep sweep(events.size());
  StepBytes result = recorded_bytes;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    sweep.add(tensors[i].birth, tensors[i].last_use + 1, held[i] - tensors[i].held_bytes);
    result.saved += held[i] - tensors[i].held_bytes;
  }
  result.peak = sweep.highest(events, 0, events.size());
  return result;
}

double StepGraph::seconds() const {
  return std::accumulate(events.begin(), events.end(), 0.0,
                         [](double sum, const Event& event) { return sum + event.seconds; });
}

}  // namespace lacuna
