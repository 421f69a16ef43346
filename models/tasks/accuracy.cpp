#include "models/tasks/accuracy.h"

#include "ops/losses/loss_kernels.h"
#include "ops/losses/top_k.h"

namespace lacuna {
namespace {}  // namespace

std::vector<Metric> accuracy_metrics(const Model& model) {
  std::vector<Metric> metrics{{.name = "accuracy", .sums = 2, .value = ratio_of_sums}};
  constexpr std::int64_t least = 10;  // classes: of fewer, most predictions are among the first five
  if (model.num_classes() >= least) metrics.push_back({.name = "top5_accuracy", .sums = 2, .value = ratio_of_sums});
  return metrics;
}

std::vector<Tensor> accuracy_sums(const Tensor& logits, const Tensor& labels, std::size_t metrics) {
  constexpr std::int64_t k[] = {1, 5};
  const Device device = logits.device();
  const Tensor correct = Tensor::zeros({static_cast<std::int64_t>(metrics)}, DType::f64, device);
  count_top_k(device, logits, labels, std::span(k).first(metrics), correct);
  std::vector<Tensor> sums;
  for (std::size_t i = 0; i < metrics; ++i) {
    const Tensor sum = Tensor::full({2}, static_cast<double>(logits.rows()), DType::f64, device);
    const auto at = static_cast<std::int64_t>(i);
    sum.leading(0, 1).copy_from(correct.leading(at, at + 1));
    sums.push_back(sum);
  }
  return sums;
}

Variable class_targets(const Variable& logits, const Variable& labels) {
  const bool fits = labels.dtype() == DType::i64 ? labels.shape() == Shape{logits.tensor().rows()}
                                                 : labels.shape() == logits.shape() &&
                                                       (labels.dtype() == DType::f32 || labels.dtype() == DType::f64);
  expect(fits, "classification of logits {} expects labels {} in i64, or probabilities {} in f32 or f64, got {} in {}",
         logits.shape(), Shape{logits.tensor().rows()}, logits.shape(), labels.shape(), name_of(labels.dtype()));
  if (labels.device() == logits.device()) return labels;  // the loss checks the range
  if (labels.dtype() == DType::i64) check_labels(labels.device(), labels.tensor(), logits.shape().back());
  return Variable(on_device(labels.tensor(), logits.device()));
}

}  // namespace lacuna
