// Classification: cross entropy of the output `logits` [N, C] with `labels`, i64 [N] or probabilities [N, C].
#include "models/task.h"
#include "ops/loss.h"
#include "ops/top_k.h"

namespace lacuna {
namespace {

double fraction(std::span<const double> sums) { return sums[0] / sums[1]; }

std::vector<Metric> metrics_of(const Model& model) {
  std::vector<Metric> metrics{{.name = "accuracy", .sums = 2, .value = fraction}};
  constexpr std::int64_t least = 10;  // classes: of fewer, most predictions are among the first five
  if (model.num_classes() >= least) metrics.push_back({.name = "top5_accuracy", .sums = 2, .value = fraction});
  return metrics;
}

class Classification final : public Task {
 public:
  Classification(const Settings& settings, const Model& model)
      : Task(metrics_of(model)), classes_(model.num_classes()), label_smoothing_(settings.number("label_smoothing")) {}

  SampleFields targets() const override {
    return {{.name = "labels", .dtype = DType::i64, .shape = {}, .below = classes_}};
  }

  TaskResult run(Model& model, Inputs batch, TaskMode mode) const override {
    Variable labels = batch.take("labels");
    Variable logits = model.forward(std::move(batch)).take("logits");
    const bool are_labels = labels.dtype() == DType::i64;
    expect(are_labels
               ? labels.shape() == Shape{logits.tensor().rows()}
               : labels.shape() == logits.shape() && (labels.dtype() == DType::f32 || labels.dtype() == DType::f64),
           "classification of logits {} expects labels {} in i64, or probabilities {} in f32 or f64, got {} in {}",
           logits.shape(), Shape{logits.tensor().rows()}, logits.shape(), labels.shape(), name_of(labels.dtype()));
    TaskResult result;
    count(logits.tensor(), labels.tensor(), result.sums);
    const CrossEntropy loss{.label_smoothing = mode == TaskMode::train ? label_smoothing_ : 0};
    result.loss = apply(loss, std::move(logits), std::move(labels));
    return result;
  }

 private:
  /// [correct, samples] for each metric.
  void count(const Tensor& logits, const Tensor& labels, std::vector<Tensor>& sums) const {
    constexpr std::int64_t k[] = {1, 5};
    const std::size_t metric_count = metrics().size();
    const Device device = logits.device();
    const Tensor correct = Tensor::zeros({static_cast<std::int64_t>(metric_count)}, DType::f64, device);
    count_top_k(device, logits, labels, std::span(k).first(metric_count), correct);
    for (std::size_t i = 0; i < metric_count; ++i) {
      const Tensor sum = Tensor::full({2}, static_cast<double>(logits.rows()), DType::f64, device);
      const auto at = static_cast<std::int64_t>(i);
      sum.leading(0, 1).copy_from(correct.leading(at, at + 1));
      sums.push_back(sum);
    }
  }

  std::int64_t classes_;
  double label_smoothing_;
};

const RegisterTask classification("classification",
                                  {.settings = {{"label_smoothing", 0.0, up_to_one,
                                                 "share of the uniform distribution in the training targets"}},
                                   .make = [](const Settings& settings, const Model& model) {
                                     return std::make_unique<Classification>(settings, model);
                                   }});

}  // namespace
}  // namespace lacuna
