#include "apps/training.h"

#include "apps/model_options.h"
#include "autograd/rules.h"
#include "core/parallel.h"
#include "models/registry.h"
#include "ops/loss.h"
#include "optim/clip.h"

#include <cmath>
#include <filesystem>

namespace lacuna::apps {

MadeModel make_model(const Configuration& configuration, Device device, bool new_head) {
  const Configuration::Train& train = configuration.train;
  std::unique_ptr<Model> model = build_model(
      configuration.model.name, hyper_parameters_of(configuration),
      {.device = device, .seed = static_cast<std::uint64_t>(train.seed), .dtype = precision_type(train.precision)});
  if (configuration.model.from.empty()) return {std::move(model), {}};
  std::filesystem::path path = configuration.model.from;
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) path /= "model.safetensors";
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

Training::Training(const Configuration& configuration, Device device)
    : seed_(static_cast<std::uint64_t>(configuration.train.seed)),
      label_smoothing_(configuration.train.label_smoothing),
      clip_norm_(configuration.train.clip_norm),
      policy_(refine(make_policy(configuration.memory.policy, configuration.memory.options), configuration.memory.rules,
                     configuration.memory.recompute)) {
  set_threads(static_cast<int>(configuration.train.threads));
  MadeModel made = make_model(configuration, device, true);
  model_ = std::move(made.model);
  loaded_weights_ = made.weights;
  if (!configuration.freeze.train.empty() || !configuration.freeze.freeze.empty())
    freeze_matches_ = freeze(*model_, configuration.freeze);
  SettingValues settings = configuration.optimizer.options;
  optimizer_ = make_optimizer(configuration.optimizer.name, settings, *model_);
}

std::int64_t Training::trainable_count() const {
  std::int64_t count = 0;
  for (const Parameter* parameter : model_->parameters())
    if (parameter->trainable()) count += parameter->tensor().count();
  return count;
}

namespace {

BytesByPath saved_now(Device device) {
  const Label input("input");
  BytesByPath bytes;
  for (const Held& held : ledger(device).holders()) {
    const Owner& owner = held.owner;
    if (owner.purpose != Purpose::saved) continue;
    bytes[!owner.path.text().empty() ? owner.path : !owner.op.text().empty() ? owner.op : input] += held.bytes;
  }
  return bytes;
}

}  // namespace

Variable Training::loss(const MicroBatch& batch, std::int64_t* correct) {
  Variable logits = model_->forward(Variable(batch.images, batch.image_gradient, "images"));
  if (correct != nullptr) *correct += count_correct(logits.tensor(), batch.targets);
  return apply(CrossEntropy{.label_smoothing = label_smoothing_}, std::move(logits), Variable(batch.targets));
}

StepOutcome Training::step(std::span<const MicroBatch> batch, std::int64_t number, double lr, Observer* observer) {
  model_->set_training(true);
  StepOutcome outcome;
  for (const MicroBatch& part : batch) outcome.samples += part.images.shape().front();
  for (std::size_t i = 0; i < batch.size(); ++i) {
    random_state() = {seed_, static_cast<std::uint32_t>(static_cast<std::size_t>(number) * batch.size() + i)};
    Tape tape(*policy_);
    tape.set_observer(observer);
    Variable result = [&] {
      const Recording recording(tape);
      return loss(batch[i], &outcome.correct);
    }();
    // The batch's loss is the mean over all its samples, whatever the sizes of its parts.
    const double share = static_cast<double>(batch[i].images.shape().front()) / static_cast<double>(outcome.samples);
    const Tensor& value = result.tensor();
    outcome.loss += value.device() == Device::meta ? 0 : value.item() * share;
    if (!std::isfinite(outcome.loss)) {
      optimizer_->zero_grad();
      return outcome;
    }
    tape.settle();
    BytesByPath by_path = saved_now(value.device());
    tape.backward({{result, Tensor::full(value.shape(), share, value.dtype(), value.device())}});
    if (tape.saved_bytes() > outcome.saved_bytes) {
      outcome.saved_bytes = tape.saved_bytes();
      outcome.saved_by_path = std::move(by_path);
    }
  }
  std::string unmatched;
  for (const std::string& line : policy_->unmatched()) unmatched += (unmatched.empty() ? "" : "\n") + line;
  if (!unmatched.empty()) reject("{}", unmatched);
  // Finite losses may have gradients that are not, and once the parameters have them nothing can be saved any more.
  outcome.gradient_norm = gradient_norm(model_->parameters());
  if (outcome.finite()) optimizer_->step(lr, clip_norm_ > 0 ? clip_factor(outcome.gradient_norm, clip_norm_) : 1);
  optimizer_->zero_grad();
  return outcome;
}

}  // namespace lacuna::apps
