// Captured steps of a trainer: the work of a step on cuda as one graph, replayed with other numbers and batches.
#include "autograd/policies/adaptive.h"
#include "core/backend.h"
#include "core/device_graph.h"
#include "models/trainer.h"
#include "ops/losses/loss_kernels.h"
#include "optim/step.h"

#include <cstddef>
#include <span>
#include <utility>

namespace lacuna {
namespace {

constexpr std::int64_t steps_before = 2;  // they create library plans and other state that is created once

/// The numbers that a replay reads from the host.
struct StepNumbers {
  double rate;
  std::uint32_t step;
};

/// Throws Error (the input's fault) for labels that the task has no class for: the device does not check.
void check_numbers(const Batch& batch, const Task& task) {
  for (const SampleField& target : task.targets())
    if (target.below > 0 && batch.contains(target.name) && batch[target.name].dtype() == DType::i64)
      check_labels(Device::cpu, batch[target.name].to(Device::cpu), target.below);
}

}  // namespace

struct Trainer::Graph {
  const std::uint32_t* clock() const {
    return reinterpret_cast<const std::uint32_t*>(numbers.data<const std::byte>() + offsetof(StepNumbers, step));
  }
  void forget() {
    graph.reset();  // first, since it uses the memory of the others
    update.reset();
    totals.reset();
    inputs.clear();
  }

  std::optional<std::string> signature{};   // of the steps before
  std::int64_t alike = 0;                   // steps in a row with that signature
  Tensor numbers{};                         // f64 [2]: the bytes of StepNumbers
  std::vector<Batch> inputs{};              // batches that the captured step reads
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

bool Trainer::captures_steps() const {
  return options_.step.graph && state_.ranks.size() == 1 && task_.reads_by_kernels() && !options_.step.input_gradients;
}

void Trainer::release_captured() {
  if (captured_bytes() == 0) return;
  graph_->forget();
  graph_->alike = steps_before;
}

std::optional<std::string> Trainer::signature_of(const std::vector<Batch>& batch, const StepHooks& hooks) const {
  const Device device = state_.model.context().device;
  Adaptive* const adaptive = adaptive_of(state_.policy);
  if (device.kind != DeviceKind::cuda || !captures_steps() || hooks.observer != nullptr ||
      (adaptive != nullptr && adaptive->calibration_due()))
    return {};
  std::string signature;
  for (const Batch& part : batch) {
    if (!part.packed().empty()) return {};  // the host reads where each sample begins
    signature += fmt::format("{} samples:", part.samples);
    for (const auto& [name, tensor] : part)
      signature += fmt::format(" {} {} {}", name, name_of(tensor.dtype()), tensor.shape());
  }
  for (const Parameter* const parameter : parameters_) signature += parameter->trainable() ? '1' : '0';
  return signature;
}

bool Trainer::replay(const std::vector<Batch>& batch, std::int64_t number, double learning_rate, const StepHooks& hooks,
                     StepResult& result) {
  const std::optional<std::string> signature = signature_of(batch, hooks);
  if (!graph_) {
    if (!signature) return false;
    graph_ = std::make_unique<Graph>();
  }
  Graph& step = *graph_;
  if (signature != step.signature) {
    step.forget();
    step.signature = signature;
    step.alike = 0;
  }
  if (!signature || step.alike++ < steps_before) return false;
  const Device device = state_.model.context().device;
  if (!step.graph) {
    if (step.alike > steps_before + 1) return false;  // it could not be captured
    step.inputs = batch;
    for (Batch& part : step.inputs)
      for (const auto& [name, tensor] : Batch(part))
        part.set(name, Tensor::empty(tensor.shape(), tensor.dtype(), device, Purpose::data));
    step.totals = std::make_unique<RunningTotals>(task_);
    static_assert(sizeof(StepNumbers) == 2 * sizeof(double));
    step.numbers = Tensor::zeros({2}, DType::f64, device, Purpose::workspace);
    state_.model.set_training(true);
    try {
      step.graph = std::make_unique<DeviceGraph>(device, [&] {
        step.update = std::make_unique<OptimizerStep>(state_.optimizer, parameters_, step.numbers.leading(0, 1),
                                                      options_.step.clipping);
        step.saved_bytes =
            queue(step.inputs, shares_of(step.inputs), 0, *step.update, *step.totals, hooks, step.clock());
      });
    } catch (const Error& error) {
      state_.optimizer.zero_grad();
      result.not_captured = error.what();
      step.forget();
      return false;
    }
  }
  for (const Batch& part : batch) check_numbers(part, task_);
  for (std::size_t i = 0; i < batch.size(); ++i)
    for (const auto& [name, tensor] : batch[i]) step.inputs[i].at(name).copy_from(tensor);
  const StepNumbers numbers{.rate = learning_rate, .step = static_cast<std::uint32_t>(number)};
  backend(device).copy_in(stream_of(device), step.numbers.raw(), &numbers, sizeof numbers);
  step.graph->replay();
  for (const Parameter* const parameter : parameters_)
    if (parameter->trainable()) parameter->tensor().bump_version();
  result.saved_bytes = step.saved_bytes;
  finish(*step.update, number, result);
  result.totals = step.totals->read(state_.ranks);
  return true;
}

}  // namespace lacuna
