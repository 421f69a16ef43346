// Captured steps of a trainer: the work of a step on cuda as one graph, replayed with other numbers and batches.
#include "core/backend.h"
#include "core/collectives.h"
#include "core/device_graph.h"
#include "models/trainer.h"
#include "ops/losses/loss_kernels.h"
#include "optim/step.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <iterator>
#include <numeric>
#include <span>
#include <utility>

namespace lacuna {
namespace {

constexpr std::int64_t steps_before = 2;  // they create library plans and other state that is created once
constexpr std::int64_t patience = 8;      // steps that differ from those before, until the run says so
constexpr std::int64_t most_compared = std::int64_t{1} << 20;  // bytes of a batch that the host reads

/// The numbers that a replay reads from the host: rate, number of the step, weights and shares of the micro-batches.
constexpr std::int64_t at_step = 1, at_weights = 2;

/// Throws Error (the input's fault) for labels that the task has no class for: the device does not check.
void check_numbers(const Batch& batch, const Task& task) {
  for (const SampleField& target : task.targets())
    if (target.below > 0 && batch.contains(target.name) && task.is_read_by_kernels(target.name) &&
        batch[target.name].dtype() == DType::i64)
      check_labels(Device::cpu, batch[target.name].to(Device::cpu), target.below);
}

}  // namespace

struct Trainer::Graph {
  const std::uint32_t* clock() const {
    return reinterpret_cast<const std::uint32_t*>(numbers.data<const std::byte>() + at_step * sizeof(double));
  }
  Factor number(std::int64_t i) const { return numbers.leading(i, i + 1).reshape({}); }
  ~Graph() { forget(); }
  void forget() {
    if (arrived) wait_for(numbers.device(), *std::exchange(arrived, nullptr));  // its copies write to `ahead`
    ahead.clear();
    graph.reset();  // first, since it uses the memory of the others
    update.reset();
    totals.reset();
    inputs.clear();
  }

  std::optional<std::string> signature{};   // of the steps before
  std::int64_t alike = 0;                   // steps in a row with that signature
  std::int64_t different = 0;               // steps with another signature than those before, since the last capture
  bool failed = false;                      // a step with that signature could not be captured
  bool told = false;                        // why steps are not captured
  Tensor numbers{};                         // f64 [2 + 2 · micro-batches]
  std::vector<Batch> inputs{};              // batches that the captured step reads
  std::vector<Batch> ahead{};               // the next ones, while that step runs; empty of single steps
  std::unique_ptr<StreamMark> arrived{};    // behind the copies to `ahead`; null: there are none
  std::unique_ptr<StreamMark> consumed{};   // behind the last read of `ahead`
  std::unique_ptr<RunningTotals> totals{};  // totals that it adds to
  std::unique_ptr<OptimizerStep> update{};
  std::int64_t saved_bytes = 0;
  std::unique_ptr<DeviceGraph> graph{};  // destroyed first
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

std::int64_t Trainer::captured_bytes() const { return graph_ && graph_->graph ? graph_->graph->bytes() : 0; }

bool Trainer::captures_steps() const { return options_.step.graph && !options_.step.input_gradients; }

// An adaptive policy decides before each step whether it calibrates on the batch.
bool Trainer::sends_ahead() const { return adaptive_of(state_.policy) == nullptr; }

void Trainer::release_captured() {
  settle();
  if (captured_bytes() == 0) return;
  graph_->forget();
  graph_->alike = steps_before;
}

Trainer::Way Trainer::leave_captured() {
  settle();
  if (graph_) {
    graph_->forget();
    graph_->signature.reset();
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
  if (!graph_) graph_ = std::make_unique<Graph>();
  Graph& step = *graph_;
  const auto tell = [&](std::string why) {
    if (!std::exchange(step.told, true)) result.not_captured = std::move(why);
  };
  if (hooks.observer != nullptr) return leave_captured();
  std::optional<std::string> signature = signature_of(batch);
  if (!signature) {
    tell("the host reads much of each batch");
    return leave_captured();
  }
  if (signature != step.signature) {
    if (step.signature && ++step.different == patience)
      tell("shapes of batches, or where their sequences begin, differ from step to step");
    settle();
    step.forget();
    step.signature = std::move(signature);
    step.alike = 0;
    step.failed = false;
  }
  if (step.alike++ < steps_before || step.failed) return Way::queued;
  return step.graph ? Way::replayed : Way::captured;
}

bool Trainer::capture(const std::vector<Batch>& batch, const StepHooks& hooks, StepResult& result) {
  Graph& step = *graph_;
  const Device device = state_.model.context().device;
  step.forget();
  step.different = 0;
  std::string problem;
  try {
    step.inputs = on_device_of(batch);
    if (train_ && sends_ahead()) step.ahead = on_device_of(batch);
    const std::int64_t parts = std::ssize(batch);
    step.totals = std::make_unique<RunningTotals>(task_);
    step.numbers = Tensor::zeros({at_weights + 2 * parts}, DType::f64, device, Purpose::workspace);
    const Tensor goes_on =
        may_settle_later() ? Tensor::full({}, 1, DType::i32, device, Purpose::workspace) : Tensor();
    std::vector<Factor> weights, shares;
    for (std::int64_t i = 0; i < parts; ++i) {
      weights.push_back(step.number(at_weights + i));
      shares.push_back(step.number(at_weights + parts + i));
    }
    state_.model.set_training(true);
    if (exchange_) exchange_->check_order(false);  // the host sends nothing; the steps before had the same order
    const auto work = [&] {
      step.update = std::make_unique<OptimizerStep>(state_.optimizer, parameters_, step.numbers.leading(0, 1),
                                                    goes_on, options_.step.clipping);
      step.saved_bytes = queue(step.inputs, weights, shares, 0, *step.update, *step.totals, hooks, step.clock());
    };
    step.graph = std::make_unique<DeviceGraph>(device, work, options_.step.budget);
  } catch (const Error& error) {
    problem = error.what();
  }
  if (exchange_) exchange_->check_order(true);
  step.consumed = backend(device).mark(stream_of(device));
  if (largest_of_ranks(state_.ranks, problem.empty() ? 0 : 1) == 0) return true;
  state_.optimizer.zero_grad();
  step.forget();
  step.failed = true;
  if (!std::exchange(step.told, true))
    result.not_captured = problem.empty() ? "another rank cannot capture them" : problem;
  exchange_.reset();  // it may wait for gradients of the step
  open_exchange();
  return false;
}

void Trainer::send_ahead(Work& next) {
  if (!graph_ || !graph_->graph || graph_->ahead.empty() || signature_of(next.batch) != graph_->signature) return;
  Graph& step = *graph_;
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
  const auto figures = static_cast<std::size_t>(graph_->update->figures().count());
  StepResult result = std::move(step->result);
  note(graph_->update->report(std::span(numbers).first(figures)), result);
  result.totals = graph_->totals->totals_of(std::span(numbers).subspan(figures), step->weight);
  step->tell(std::move(result));
}

std::optional<StepResult> Trainer::replay(const Work& work, const Agreement& agreed, std::int64_t number,
                                          double learning_rate, const std::function<void()>& meanwhile, bool may_wait,
                                          StepResult result) {
  Graph& step = *graph_;
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
  std::vector<Tensor> read{step.update->figures()};
  std::ranges::copy(step.totals->numbers(), std::back_inserter(read));
  std::unique_ptr<Started> started;
  if (may_wait && may_settle_later() && read.size() > 1)
    started = std::make_unique<Started>(result, DeviceNumbers(read), weight, step.totals->samples());
  settle();
  if (meanwhile) meanwhile();
  if (started) {
    started_ = std::move(started);
    state_.optimizer.zero_grad();
    return {};
  }
  finish(*step.update, number, result);
  result.totals = step.totals->read_replayed(weight, state_.ranks);
  return result;
}

}  // namespace lacuna
