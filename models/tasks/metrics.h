// Metrics that a task offers beside its own, by name, as sklearn and scipy define them.
#pragma once

#include "models/task.h"

#include <string>
#include <string_view>
#include <vector>

namespace lacuna {

/// The names in `text`, with commas between them; `absent` where it is empty.
std::vector<std::string> metric_names(std::string_view text, std::string_view absent);

/// `accuracy`, `top5_accuracy`, `f1` (of class 1 of two), `macro_f1` (the mean over the classes) and `matthews`
/// (Matthews' correlation coefficient). Refuses other names.
Metric class_metric(const std::string& name, std::int64_t classes);
/// Whether `class_sums` of a metric needs nothing of the host.
bool counts_on_device(const Metric& metric);
/// Sums of a metric over one batch; logits [N, C], labels i64 [N] or probabilities [N, C].
Tensor class_sums(const Metric& metric, const Tensor& logits, const Tensor& labels);

/// Some of `mse`, `pearson` and `spearman` (ties have their mean rank), with commas; empty: `mse`. Refuses other names.
std::vector<Metric> number_metrics(std::string_view names);
/// Sums of these metrics over one batch, which the host counts; predictions and labels of one shape.
std::vector<Tensor> number_sums(const std::vector<Metric>& metrics, const Tensor& predictions, const Tensor& labels);

/// e to the mean loss, `perplexity`; its sums are those of sum_and_count.
Metric perplexity_metric();
/// [mean · count, count] f64, on the device of `mean` [].
Tensor sum_and_count(const Tensor& mean, double count);

}  // namespace lacuna
