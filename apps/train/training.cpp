#include "apps/train/training.h"

#include "apps/config/model_options.h"
#include "apps/train/calibrate.h"
#include "core/parallel.h"
#include "models/registry.h"
#include "ops/loss.h"
#include "optim/step.h"

#include <fmt/ranges.h>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <map>

namespace lacuna::apps {

MadeModel make_model(const Configuration& configuration, Device device, bool new_head) {
  const Configuration::Train& train = configuration.train;
  std::unique_ptr<Model> model = build_model(
      configuration.model.name, hyper_parameters_of(configuration),
      {.device = device, .seed = static_cast<std::uint64_t>(train.seed), .dtype = precision_type(train.precision)});
  if (configuration.model.from.empty()) return {std::move(model), {}};
  std::filesystem::path path = configuration.model.from;
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    if (std::filesystem::is_symlink(path / "last", ignored))
      reject("model.from: {0} is a run; its weights are those of {0}/last or {0}/best", path.string());
    path /= "model.safetensors";
  }
  const SafetensorsFile file(path);
  const LoadOptions options{.prefix = {}, .new_head = new_head};
  const LoadedWeights loaded =
      device == Device::meta ? check_weights(*model, file, options) : load_weights(*model, file, options);
  return {std::move(model), loaded};
}

DType precision_type(const std::string& precision) {
  if (precision == "f32") return DType::f32;
  if (precision == "bf16") return DType::bf16;
  reject("train.precision: expected f32 or bf16, got {}", precision);
}

void refuse_unmatched(const RuledPolicy& policy) {
  if (const std::vector<std::string> lines = policy.unmatched(); !lines.empty()) reject("{}", fmt::join(lines, "\n"));
}

Training::Training(const Configuration& configuration, Device device)
    : threads_(static_cast<int>(configuration.train.threads)),
      seed_(static_cast<std::uint64_t>(configuration.train.seed)),
      label_smoothing_(configuration.train.label_smoothing),
      clipping_{.norm = configuration.train.clip_norm,
                .parameter_norm = configuration.train.clip_parameter_norm,
                .value = configuration.train.clip_value},
      in_backward_(configuration.optimizer.in_backward),
      policy_(with_rules(make_policy(configuration.memory.policy, configuration.memory.options),
                         configuration.memory.rules, configuration.memory.recompute)) {
  MadeModel made = make_model(configuration, device, true);
  model_ = std::move(made.model);
  loaded_weights_ = made.weights;
  if (!configuration.freeze.train.empty() || !configuration.freeze.freeze.empty())
    freeze_matches_ = freeze(*model_, configuration.freeze);
  const Configuration::Optimizer& optimizer = configuration.optimizer;
  optimizer_ = make_optimizer(optimizer.name, optimizer.options, *model_,
                              {.precision = state_precision(optimizer.state),
                               .seed = seed_,
                               .groups = {.rules = optimizer.groups, .layer_decay = optimizer.layer_decay}});
  if (optimizer.gradients == "bf16")
    for (Parameter* parameter : model_->parameters()) parameter->set_gradient_type(DType::bf16);
  if (configuration.train.ema_decay > 0)
    average_ = std::make_unique<WeightAverage>(*model_, configuration.train.ema_decay);
}

std::int64_t Training::trainable_count() const {
  std::int64_t count = 0;
  for (const Parameter* parameter : model_->parameters())
    if (parameter->trainable()) count += parameter->tensor().count();
  return count;
}

namespace {

BytesByPath saved_now(Tape& tape, Device device) {
  const auto place_of = [](Label op, Label path) {
    return !path.text().empty() ? path : !op.text().empty() ? op : Label("input");
  };
  std::map<Label, std::int64_t> held;
  for (const Held& each : ledger(device).holders())
    if (each.owner.purpose == Purpose::saved) held[place_of(each.owner.op, each.owner.path)] += each.bytes;
  BytesByPath in_order;
  for (const Tape::SavedTensorReport& slot : tape.report())
    if (const auto found = held.extract(place_of(slot.facts.op, slot.facts.path)))
      in_order.emplace_back(found.key(), found.mapped());
  in_order.insert(in_order.end(), held.begin(), held.end());  // what has no slot of its own
  return in_order;
}

}  // namespace

Variable Training::loss(MicroBatch batch, const Tensor& correct) {
  Variable logits = model_->forward(Variable(std::move(batch.images), batch.image_gradient, "images"));
  if (correct.defined()) count_correct(logits.tensor(), batch.targets, correct);
  return apply(CrossEntropy{.label_smoothing = label_smoothing_}, std::move(logits),
               Variable(std::move(batch.targets), false, "targets"));
}

Variable Training::loss_of_part(std::vector<MicroBatch>& batch, std::size_t i, const Tensor& correct) {
  return loss(batch.size() == 1 ? std::move(batch[i]) : batch[i], correct);
}

ErrorMeasure Training::error_measure() const {
  return optimizer_->is_scale_invariant() ? ErrorMeasure::relative : ErrorMeasure::absolute;
}

StepOutcome Training::step(std::vector<MicroBatch> batch, std::int64_t number, double lr, Observer* observer) {
  model_->set_training(true);
  StepOutcome outcome;
  for (const MicroBatch& part : batch) outcome.samples += part.targets.count();
  const std::vector<Parameter*> parameters = model_->parameters();
  OptimizerStep update(*optimizer_, parameters, lr, clipping_);
  // Gradients of several micro-batches exist all at once before the last: then nothing is gained by a second walk back.
  const bool in_backward = in_backward_ && (batch.size() == 1 || !update.needs_all());
  for (std::size_t i = 0; i < batch.size(); ++i) {
    // Each part has draws of its own, and none has those of another step, in however many parts that went.
    constexpr std::uint64_t golden = 0x9E3779B97F4A7C15U;
    const RandomStateScope random({seed_ + i * golden, static_cast<std::uint32_t>(number)});
    const auto begin = std::chrono::steady_clock::now();
    if (i == 0 && calibrate(*this, batch[i], *policy_))
      outcome.measuring_seconds.push_back(
          std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    Tape tape(*policy_);
    tape.set_observer(observer);
    // The batch's loss is the mean over all its samples, whatever the sizes of its parts.
    const double share = static_cast<double>(batch[i].targets.count()) / static_cast<double>(outcome.samples);
    Variable result = [&] {
      const Recording recording(tape);
      return loss_of_part(batch, i, update.correct());
    }();
    const Tensor& value = result.tensor();
    update.add_loss(value, share);
    tape.finalize();
    BytesByPath by_path = saved_now(tape, value.device());
    const std::vector losses{std::pair{result, Tensor::full(value.shape(), share, value.dtype(), value.device())}};
    if (in_backward && i + 1 == batch.size())
      step_in_backward(tape, losses, update);
    else
      tape.backward(losses);
    if (tape.saved_bytes() > outcome.saved_bytes) {
      outcome.saved_bytes = tape.saved_bytes();
      outcome.saved_by_path = std::move(by_path);
    }
  }
  refuse_unmatched(*policy_);
  // Finite losses may have gradients that are not, and once the parameters have them nothing can be saved any more.
  for (const Parameter* parameter : parameters) update.measure(*parameter);
  for (Parameter* parameter : parameters) update.apply(*parameter);
  const StepReport report = update.report();  // the host waits for the device here alone
  outcome.loss = report.loss;
  outcome.correct = report.correct;
  outcome.gradient_norm = report.gradient_norm;
  outcome.updated = report.updated;
  if (report.nonfinite != nullptr) outcome.nonfinite = report.nonfinite->path();
  if (outcome.finite() && average_) average_->update();
  optimizer_->zero_grad();
  return outcome;
}

}  // namespace lacuna::apps
