// Accuracies and the check of targets, for tasks of classification.
#pragma once

#include "models/task.h"

#include <cstddef>
#include <vector>

namespace lacuna {

/// `accuracy`, and of ten classes or more `top5_accuracy`.
std::vector<Metric> accuracy_metrics(const Model& model);

/// [correct, samples] for the first `metrics` of accuracy_metrics; logits [N, C].
std::vector<Tensor> accuracy_sums(const Tensor& logits, const Tensor& labels, std::size_t metrics);

/// `labels` on the device of `logits` [N, C]. Throws Error unless they are i64 [N] or probabilities f32 or f64 [N, C],
/// and for labels outside [0, C) on the host.
Variable class_targets(const Variable& logits, const Variable& labels);

}  // namespace lacuna
