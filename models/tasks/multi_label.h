// Metrics of classes that do not exclude each other.
#pragma once

#include "models/task.h"

#include <vector>

namespace lacuna {

/// `f1`, over all classes together (micro-F1), and `exact_match`. A class is found where its logit is above 0.
std::vector<Metric> multi_label_metrics();
/// Their sums, which the host counts; logits [N, C], labels [N, C].
std::vector<Tensor> multi_label_sums(const Tensor& logits, const Tensor& labels);

}  // namespace lacuna
