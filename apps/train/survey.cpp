#include "apps/train/survey.h"

#include "apps/config/resolve.h"
#include "apps/train/crowding.h"
#include "apps/train/measure.h"
#include "autograd/calibration.h"
#include "autograd/plan/bit_allocation.h"
#include "autograd/policies/lossless.h"
#include "autograd/policies/quantizing.h"
#include "autograd/policies/rules.h"
#include "core/allocator.h"

#include <algorithm>
#include <cmath>

namespace lacuna::apps {
namespace {

SavedTensorName name_of(const SavedTensorInfo& facts) { return {std::string(facts.path.text()), facts.name()}; }

/// Holds in 8 bits what can be coded, and notes it.
class Surveyor final : public QuantizingPolicy {
 public:
  Surveyor(StepSurvey& found, std::int64_t group_size) : found_(found), group_size_(group_size) {}
  std::string_view name() const override { return "survey"; }
  std::int64_t recomputes(const ModuleRange& modules, std::string_view) override {
    if (modules.is_sequence()) {
      if (modules.is_whole()) found_.sequences.push_back({std::string(modules.path), 0, modules.count});
    } else if (std::ranges::find(found_.regions, modules.path) == found_.regions.end()) {
      found_.regions.emplace_back(modules.path);
    }
    return 0;
  }

  const std::map<std::string, SavedTensorName>& names() const { return names_; }

 private:
  quant::QuantConfig config_of(const SavedTensorInfo& facts) override {
    const BitChoice choice = bit_choice(facts, group_size_);
    found_.tensors.push_back({.name = name_of(facts),
                              .op = std::string(facts.maker()),
                              .elements = facts.shape.count(),
                              .bytes = facts.bytes,
                              .range_bytes = choice.range_bytes,
                              .hadamard_bytes = choice.hadamard_bytes});
    names_[facts.key()] = name_of(facts);
    return run_config(facts, 8, group_size_);
  }

  StepSurvey& found_;
  std::int64_t group_size_;
  std::map<std::string, SavedTensorName> names_;  // by the slot's key
};

/// Holds as `exact` does, and notes what is derived.
class Deriving final : public MemoryPolicy {
 public:
  explicit Deriving(std::vector<Rematerializable>& found) : found_(found) {}
  std::string_view name() const override { return "survey"; }
  Hold decide(const SavedTensorInfo& facts) override {
    const Hold decision = decide_exactly(facts);
    if (decision.kind != Hold::rematerialize) return decision;
    found_.push_back({.name = name_of(facts), .bytes = facts.bytes});
    return decision;
  }

 private:
  std::vector<Rematerializable>& found_;
};

std::int64_t group_size(const Configuration& configuration) {
  const auto given = configuration.memory.options.find("group_size");
  return given == configuration.memory.options.end() ? HoldRule{}.group_size
                                                     : static_cast<std::int64_t>(std::get<double>(given->second));
}

/// Without the policy: whoever surveys brings another.
Configuration without_policy(Configuration configuration) {
  configuration.memory = {};
  return configuration;
}

/// Has `policy` decide on every tensor of the step, on `meta`. Returns how its optimizer takes errors of the gradient.
ErrorMeasure settle_forward(const Configuration& configuration, std::unique_ptr<MemoryPolicy> policy) {
  Training training(without_policy(configuration), Device::meta);
  Tape tape(*policy);
  {
    const Recording recording(tape);
    std::vector<Batch> batch = made_up_batch(configuration, training);
    training.loss_of_part(batch, 0);
  }
  tape.finalize();
  return training.error_measure();
}

}  // namespace

StepSurvey survey(const Configuration& configuration, const std::vector<std::string>& recompute) {
  StepSurvey found;
  found.measure = settle_forward(
      configuration, with_rules(std::make_unique<Surveyor>(found, group_size(configuration)), {}, recompute));
  return found;
}

std::vector<Rematerializable> rematerialized_tensors(const Configuration& configuration,
                                                     const std::vector<std::string>& recompute) {
  std::vector<Rematerializable> found;
  settle_forward(configuration, with_rules(std::make_unique<Deriving>(found), {}, recompute));
  return found;
}

namespace {

/// One forward and backward pass that probes every tensor; empty on `meta`, where it shows what it takes.
Sensitivities probe_step(const Configuration& small, std::int64_t group_size, Device device) {
  StepSurvey found;
  Surveyor surveyor(found, group_size);
  Training training(small, device);
  const RandomStateScope random({.seed = static_cast<std::uint64_t>(small.train.seed), .step = 0});
  Tape tape(surveyor);
  const ErrorMeasure measure = training.error_measure();
  BackwardCalibration calibration(measure);
  const Variable loss = [&] {
    const Recording recording(tape);
    std::vector<Batch> batch = made_up_batch(small, training);
    return training.loss_of_part(batch, 0);
  }();
  if (!loss.requires_grad()) return {};
  tape.backward(loss, {.before_node = std::ref(calibration)});
  double gradient = 0;  // squared, in the measure of the errors
  for (const Parameter* parameter : training.model().parameters())
    if (parameter->trainable() && parameter->grad().defined())
      gradient += counted_error(parameter->grad(), {}, parameter->grad(), measure);
  Sensitivities sensitivities;
  if (!std::isfinite(gradient) || gradient == 0) return sensitivities;
  const std::map<std::string, double> measured_variances = calibration.sensitivities();
  for (const auto& [key, name] : surveyor.names())
    if (const auto measured = measured_variances.find(key); measured != measured_variances.end())
      sensitivities[name] = measured->second / gradient;
  return sensitivities;
}

}  // namespace

Sensitivities measure_sensitivities(const Configuration& configuration, std::int64_t bytes) {
  if (device_of(configuration) == Device::meta) return {};
  Configuration small = without_policy(configuration);
  small.train.accumulate = 1;
  small.train.batch_size = std::min<std::int64_t>(2, small.train.batch_size);
  const std::int64_t size = group_size(configuration);
  Ledger& account = ledger(Device::meta);
  account.reset_peak();
  probe_step(small, size, Device::meta);
  if (account.peak() > bytes) return {};
  warn_if_crowded();
  try {
    return probe_step(small, size, device_of(small));
  } catch (const OutOfMemory&) {  // free blocks between others were too small: no plan of bytes sees those
    return {};
  }
}

}  // namespace lacuna::apps
