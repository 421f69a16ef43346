#include "models/tasks/class_targets.h"

#include "core/error.h"
#include "models/tasks/metrics.h"
#include "ops/losses/loss_kernels.h"

#include <fmt/ranges.h>

#include <charconv>
#include <cmath>
#include <numeric>

namespace lacuna {
namespace {

/// f32 [N, C]
Tensor smoothed(const Tensor& labels, std::int64_t classes, double smoothing) {
  const bool are_labels = labels.dtype() == DType::i64;
  if (are_labels) check_labels(labels.device(), labels, classes);
  const std::int64_t samples = labels.shape()[0];
  Tensor targets =
      Tensor::full({samples, classes}, smoothing / static_cast<double>(classes), DType::f32, labels.device());
  if (labels.device() == Device::meta) return targets;
  const auto kept = static_cast<float>(1 - smoothing);
  auto* const out = targets.data<float>();
  if (are_labels) {
    for (std::int64_t i = 0; i < samples; ++i) out[i * classes + labels.data<std::int64_t>()[i]] += kept;
  } else {
    with_float_type(labels.dtype(), [&]<class T>(Type<T>) {
      for (std::int64_t i = 0; i < targets.count(); ++i) out[i] += kept * static_cast<float>(labels.data<T>()[i]);
    });
  }
  return targets;
}

}  // namespace

Tensor binary_targets(const Tensor& labels, std::int64_t classes, double smoothing, double threshold) {
  Tensor targets = smoothed(labels, classes, smoothing);
  if (threshold < 0 || targets.device() == Device::meta) return targets;
  auto* const out = targets.data<float>();
  for (std::int64_t i = 0; i < targets.count(); ++i) out[i] = out[i] > static_cast<float>(threshold) ? 1.0F : 0.0F;
  return targets;
}

ClassWeights::ClassWeights(std::string_view text, std::int64_t classes)
    : classes_(classes), balanced_(text == "balanced") {
  if (balanced_) return;
  for (const std::string& word : metric_names(text, {})) {
    double weight = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), weight);
    if (error != std::errc() || end != word.data() + word.size() || !(weight > 0) || !std::isfinite(weight))
      reject("task.class_weights: expected `balanced`, or numbers above 0 with commas between them, got {}", word);
    weights_.push_back(weight);
  }
  if (!weights_.empty() && std::ssize(weights_) != classes)
    reject("task.class_weights: expected a number for each of {} classes, got {}", classes, weights_.size());
}

Tensor ClassWeights::targets(const Tensor& labels, double smoothing) const {
  Tensor targets = smoothed(labels, classes_, smoothing);
  const std::vector<double>& weights = values(targets.device());
  if (targets.device() == Device::meta) return targets;
  const double mean = sum(labels) / static_cast<double>(labels.shape()[0]);
  for (std::int64_t i = 0; i < targets.count(); ++i)
    targets.data<float>()[i] *= static_cast<float>(weights[static_cast<std::size_t>(i % classes_)] / mean);
  return targets;
}

double ClassWeights::sum(const Tensor& labels) const {
  const std::int64_t samples = labels.shape()[0];
  if (labels.dtype() != DType::i64 || labels.device() == Device::meta) return static_cast<double>(samples);
  check_labels(labels.device(), labels, classes_);
  const std::vector<double>& weights = values(labels.device());
  double sum = 0;
  for (std::int64_t i = 0; i < samples; ++i)
    sum += weights[static_cast<std::size_t>(labels.data<const std::int64_t>()[i])];
  return sum;
}

const std::vector<double>& ClassWeights::values(Device device) const {
  if (balanced_ && device != Device::meta)
    reject(
        "task.class_weights: `balanced` stands for numbers that balanced_weights gives by the samples of each class");
  return weights_;
}

std::string balanced_weights(std::span<const std::int64_t> counts) {
  const auto samples = static_cast<double>(std::accumulate(counts.begin(), counts.end(), std::int64_t{0}));
  std::vector<double> weights;
  for (const std::int64_t count : counts) {
    if (count == 0)
      reject("task.class_weights: class {} has no training sample, so that `balanced` gives it no weight",
             weights.size());
    weights.push_back(samples / (static_cast<double>(counts.size()) * static_cast<double>(count)));
  }
  return fmt::format("{}", fmt::join(weights, ", "));
}

}  // namespace lacuna
