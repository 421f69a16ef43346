// Captured steps of a trainer: the work of a step on cuda as one graph, replayed with other numbers and batches.
#include "autograd/policies/adaptive.h"
#include "core/allocator.h"
#include "core/backend.h"
#include "core/collectives.h"
#include "core/device_graph.h"
#include "core/ledger.h"
#include "models/sequences.h"
#include "models/trainer.h"
#include "ops/losses/loss_kernels.h"
#include "optim/step.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <iterator>
#include <limits>
#include <list>
#include <numeric>
#include <span>
#include <utility>

namespace lacuna {
namespace {

/// Steps before a capture: they create library plans, and the first two of a run other state that is created once.
constexpr std::int64_t steps_before = 1, first_steps_before = 2;
constexpr std::int64_t patience = 40;     // signatures that are new, until the run says so
constexpr std::int64_t most_graphs = 16;  // padded texts have as many lengths (data/collate.cpp)
constexpr std::int64_t most_signatures = 32;
constexpr std::int64_t most_need = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t most_compared = std::int64_t{1} << 20;  // bytes of a batch that the host reads

/// The numbers that a replay reads from the host: rate, number of the step, weights and shares of the micro-batches.
constexpr std::int64_t at_step = 1, at_weights = 2;

/// Throws Error (the input's fault) for labels that the task has no class for, and lengths beyond the padding: the
/// device does not check.
void check_numbers(const Batch& batch, const Task& task) {
  check_lengths(batch);
  for (const SampleField& target : task.targets())
    if (target.below > 0 && batch.contains(target.name) && task.is_read_by_kernels(target.name) &&
        batch[target.name].dtype() == DType::i64)
      check_labels(Device::cpu, batch[target.name].to(Device::cpu), target.below);
}

}  // namespace

/// A step of one signature.
struct Trainer::Captured {
  const std::uint32_t* clock() const {
    return reinterpret_cast<const std::uint32_t*>(numbers.data<const std::byte>() + at_step * sizeof(double));
  }
  Factor number(std::int64_t i) const { return numbers.leading(i, i + 1).reshape({}); }
  ~Captured() { forget(); }
  void forget() {
    if (arrived) wait_for(numbers.device(), *std::exchange(arrived, nullptr));  // its copies write to `ahead`
    ahead.clear();
    graph.reset();  // first, since it uses the memory of the others
    update.reset();
    totals.reset();
    inputs.clear();
  }

  std::string signature{};
  std::int64_t taken = 0;                   // steps with that signature
  bool failed = false;                      // cannot be captured
  std::int64_t need = most_need;            // upper bound of a queued step's bytes, without those held
  Tensor numbers{};                         // f64 [2 + 2 · micro-batches]
  std::vector<Batch> inputs{};              // batches that the captured step reads
  std::vector<Batch> ahead{};               // the next ones, while a step runs; empty of single steps
  std::unique_ptr<StreamMark> arrived{};    // behind the copies to `ahead`; null: there are none
  std::unique_ptr<StreamMark> consumed{};   // behind the last read of `ahead`
  std::shared_ptr<RunningTotals> totals{};  // totals that it adds to
  std::shared_ptr<OptimizerStep> update{};
  std::int64_t saved_bytes = 0;
  std::unique_ptr<DeviceGraph> graph{};  // destroyed first
};

/// Steps by signature, the latest first. Their graphs share one memory, since one of them runs at a time.
struct Trainer::Graphs {
  std::list<Captured>::iterator find(const std::string& signature) {
    return std::ranges::find(steps, signature, &Captured::signature);
  }
  void forget() {
    for (Captured& step : steps) step.forget();
    memory.reset();
    goes_on = {};
  }

  std::shared_ptr<GraphMemory> memory{};  // null: there is no graph
  Tensor goes_on{};                       // i32 [], see OptimizerStep; undefined: each step is read before the next one
  std::list<Captured> steps{};
  std::int64_t different = 0;  // new signatures since the last capture
  bool any = false;            // whether a step was ever captured
  bool told = false;           // why steps are not captured
};

Trainer::Trainer(const TrainedState& state, const Task& task, const StepOptions& options)
    : state_(state), task_(task), options_{.step = options}, parameters_(state.model.parameters()) {
  expect(
      !options.exchange.in_8_bits || !options.in_backward ||
          (options.clipping.norm == 0 && state.optimizer.loss_scale() == nullptr),
      "gradients in 8 bits add what earlier ones lost: expected one backward pass a step, and in backward the norm of "
      "all gradients and a loss scale take two");
  if (options.shard_gradients) options_.step.exchange.owners = &state.optimizer;
}

Trainer::~Trainer() = default;

std::int64_t Trainer::captured_bytes() const { return graphs_ && graphs_->memory ? graphs_->memory->bytes() : 0; }

bool Trainer::captures_steps() const { return options_.step.graph && !options_.step.input_gradients; }

// An adaptive policy decides before each step whether it calibrates on the batch.
bool Trainer::sends_ahead() const { return adaptive_of(state_.policy) == nullptr; }

void Trainer::release_captured() {
  settle();
  if (graphs_) graphs_->forget();
}

// A length that can never be captured would have all others captured anew behind each of its steps.
void Trainer::make_room() {
  settle();
  if (!graphs_ || !graphs_->memory) return;
  const Device device = state_.model.context().device;
  const std::int64_t capacity = allocator(device).capacity(), budget = options_.step.budget;
  const std::int64_t usable = capacity - capacity / 16;  // gaps between tensors take a part
  const std::int64_t left = (budget > 0 ? std::min(budget, usable) : usable) - ledger(device).total();
  if (graphs_->steps.empty() || !graphs_->steps.front().failed || graphs_->steps.front().need > left) graphs_->forget();
}

void Trainer::note_need(std::int64_t held) {
  if (!graphs_ || graphs_->steps.empty()) return;
  Captured& step = graphs_->steps.front();
  step.need = std::min(step.need, ledger(state_.model.context().device).peak() - held);
}

Trainer::Way Trainer::leave_captured() {
  settle();
  if (graphs_) {
    graphs_->forget();
    graphs_->steps.clear();
  }
  return Way::queued;
}

std::optional<std::string> Trainer::signature_of(const std::vector<Batch>& batch) const {
  std::string signature;
  std::int64_t compared = 0;
  for (const Batch& part : batch) {
    signature += fmt::format("{} samples:", part.samples);
    for (const auto& [name, tensor] : part) {
      signature += fmt::format(" {} {} {}", name, name_of(tensor.dtype()), tensor.shape());
      if (task_.is_read_by_kernels(name)) continue;
      compared += tensor.bytes();
      if (compared > most_compared || tensor.device() != Device::cpu) return {};
      signature.append(reinterpret_cast<const char*>(tensor.data<const std::byte>()),
                       static_cast<std::size_t>(tensor.bytes()));
    }
  }
  for (const Parameter* const parameter : parameters_) signature += parameter->trainable() ? '1' : '0';
  return signature;
}

std::optional<std::vector<Batch>> Trainer::captured_inputs(std::vector<Batch> batch) const {
  for (Batch& part : batch) part = task_.prepared(std::move(part));
  if (!signature_of(batch)) return {};
  return on_device_of(batch);
}

std::vector<Batch> Trainer::on_device_of(std::vector<Batch> batch) const {
  for (Batch& part : batch)
    for (const auto& [name, tensor] : Batch(part))
      if (task_.is_read_by_kernels(name))
        part.set(name, Tensor::empty(tensor.shape(), tensor.dtype(), state_.model.context().device, Purpose::data));
  return batch;
}

Trainer::Way Trainer::way_of(const std::vector<Batch>& batch, const StepHooks& hooks, StepResult& result) {
  if (!captures_steps() || state_.model.context().device.kind != DeviceKind::cuda) return Way::queued;
  if (!graphs_) graphs_ = std::make_unique<Graphs>();
  Graphs& graphs = *graphs_;
  const auto tell = [&](std::string why) {
    if (!std::exchange(graphs.told, true)) result.not_captured = std::move(why);
  };
  if (hooks.observer != nullptr) return leave_captured();
  std::optional<std::string> signature = signature_of(batch);
  if (!signature) {
    tell("the host reads much of each batch");
    return leave_captured();
  }
  const auto known = graphs.find(*signature);
  if (known != graphs.steps.end()) {
    graphs.steps.splice(graphs.steps.begin(), graphs.steps, known);
  } else {
    if (++graphs.different == patience)
      tell("shapes of batches, or where their sequences begin, differ from step to step");
    graphs.steps.emplace_front().signature = std::move(*signature);
    if (std::ssize(graphs.steps) > most_signatures) graphs.steps.pop_back();
  }
  Captured& step = graphs.steps.front();
  if (step.taken++ < (graphs.any ? steps_before : first_steps_before) || step.failed) return Way::queued;
  return step.graph ? Way::replayed : Way::captured;
}

bool Trainer::capture(const std::vector<Batch>& batch, const StepHooks& hooks, StepResult& result) {
  settle();
  Graphs& graphs = *graphs_;
  Captured& step = graphs.steps.front();
  const Device device = state_.model.context().device;
  graphs.different = 0;
  const auto attempt = [&] {
    step.forget();
    std::int64_t others = 0;
    for (Captured& other : graphs.steps)
      if (other.graph && ++others == most_graphs) other.forget();  // the one that was least recently used
    if (!graphs.memory) graphs.memory = std::make_shared<GraphMemory>(device);
    if (may_settle_later() && !graphs.goes_on.defined())
      graphs.goes_on = Tensor::full({}, 1, DType::i32, device, Purpose::workspace);
    step.inputs = on_device_of(batch);
    if (train_ && sends_ahead()) step.ahead = on_device_of(batch);
    const std::int64_t parts = std::ssize(batch);
    step.totals = std::make_shared<RunningTotals>(task_);
    step.numbers = Tensor::zeros({at_weights + 2 * parts}, DType::f64, device, Purpose::workspace);
    std::vector<Factor> weights, shares;
    for (std::int64_t i = 0; i < parts; ++i) {
      weights.push_back(step.number(at_weights + i));
      shares.push_back(step.number(at_weights + parts + i));
    }
    state_.model.set_training(true);
    if (exchange_) exchange_->check_order(false);  // the host sends nothing; the steps before had the same order
    const auto work = [&] {
      step.update = std::make_shared<OptimizerStep>(state_.optimizer, parameters_, step.numbers.leading(0, 1),
                                                    graphs.goes_on, options_.step.clipping);
      step.saved_bytes = queue(step.inputs, weights, shares, 0, *step.update, *step.totals, hooks, step.clock());
    };
    step.graph = std::make_unique<DeviceGraph>(device, work, options_.step.budget, graphs.memory);
  };
  enum Outcome : std::int64_t { done, failed_alone, failed_beside_others };
  while (true) {
    const bool has_others = graphs.memory != nullptr;
    std::string problem;
    try {
      attempt();
    } catch (const Error& error) {
      problem = error.what();
    }
    if (exchange_) exchange_->check_order(true);
    step.consumed = backend(device).mark(stream_of(device));
    const std::int64_t outcome = largest_of_ranks(state_.ranks, problem.empty() ? done
                                                                : has_others    ? failed_beside_others
                                                                                : failed_alone);
    if (outcome == done) {
      graphs.any = true;
      return true;
    }
    state_.optimizer.zero_grad();
    graphs.forget();    // of several ranks, each does
    exchange_.reset();  // it may wait for gradients of the step
    open_exchange();
    if (outcome == failed_beside_others) continue;  // without their memory it may fit
    step.failed = true;
    if (!std::exchange(graphs.told, true))
      result.not_captured = problem.empty() ? "another rank cannot capture them" : problem;
    return false;
  }
}

void Trainer::send_ahead(Work& next) {
  const std::optional<std::string> signature = graphs_ ? signature_of(next.batch) : std::nullopt;
  if (!signature) return;
  const auto found = graphs_->find(*signature);
  if (found == graphs_->steps.end() || found->ahead.empty()) return;
  Captured& step = *found;
  const Device device = state_.model.context().device;
  Backend& own = backend(device);
  const Stream stream = own.input_stream(device.index);
  own.wait_for(stream, *step.consumed);
  for (std::size_t i = 0; i < next.batch.size(); ++i)
    for (const auto& [name, tensor] : next.batch[i])
      if (task_.is_read_by_kernels(name) && tensor.device() == Device::cpu)
        own.copy_in(stream, step.ahead[i].at(name).raw(), tensor.data<const std::byte>(),
                    static_cast<std::size_t>(tensor.bytes()));
  step.arrived = own.mark(stream);
  next.is_sent = true;
}

// With several ranks the host's messages follow the steps; of an average and a loss scale the host reads each step.
bool Trainer::may_settle_later() const {
  return train_ && state_.ranks.size() == 1 && state_.average == nullptr && state_.optimizer.loss_scale() == nullptr;
}

void Trainer::settle() {
  if (!started_) return;
  const std::unique_ptr<Started> step = std::move(started_);
  const std::vector<double> numbers = step->numbers.read();
  const auto figures = static_cast<std::size_t>(step->update->figures().count());
  StepResult result = std::move(step->result);
  note(step->update->report(std::span(numbers).first(figures)), result);
  result.totals = step->totals->totals_of(std::span(numbers).subspan(figures), step->weight);
  step->tell(std::move(result));
}

std::optional<StepResult> Trainer::replay(const Work& work, const Agreement& agreed, std::int64_t number,
                                          double learning_rate, const std::function<void()>& meanwhile, bool may_wait,
                                          StepResult result) {
  Captured& step = graphs_->steps.front();
  const Device device = state_.model.context().device;
  const bool is_there = work.is_sent && step.arrived;  // it was forgotten where the step is captured anew
  for (const Batch& part : work.batch) check_numbers(part, task_);
  if (is_there) wait_for(device, *std::exchange(step.arrived, nullptr));
  for (std::size_t i = 0; i < work.batch.size(); ++i)
    for (const auto& [name, tensor] : work.batch[i])
      if (task_.is_read_by_kernels(name)) step.inputs[i].at(name).copy_from(is_there ? step.ahead[i].at(name) : tensor);
  if (is_there) step.consumed = backend(device).mark(stream_of(device));
  std::vector<double> numbers{learning_rate, std::bit_cast<double>(static_cast<std::uint64_t>(number))};
  numbers.insert(numbers.end(), work.weights.begin(), work.weights.end());
  numbers.insert(numbers.end(), agreed.shares.begin(), agreed.shares.end());
  backend(device).copy_in(stream_of(device), step.numbers.raw(), numbers.data(), numbers.size() * sizeof(double));
  step.graph->replay();
  for (const Parameter* const parameter : parameters_)
    if (parameter->trainable()) parameter->tensor().bump_version();
  result.saved_bytes = step.saved_bytes;
  const double weight = std::accumulate(work.weights.begin(), work.weights.end(), 0.0);
  const auto update = step.update;  // a report may end in the step being forgotten
  const auto totals = step.totals;
  std::vector<Tensor> read{update->figures()};
  std::ranges::copy(totals->numbers(), std::back_inserter(read));
  std::unique_ptr<Started> started;
  if (may_wait && may_settle_later() && read.size() > 1)
    started = std::make_unique<Started>(result, DeviceNumbers(read), weight, update, totals);
  settle();
  if (meanwhile) meanwhile();
  if (started) {
    started_ = std::move(started);
    state_.optimizer.zero_grad();
    return {};
  }
  finish(*update, number, result);
  result.totals = totals->read_replayed(weight, state_.ranks);
  return result;
}

}  // namespace lacuna
