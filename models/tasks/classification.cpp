// Classification: cross entropy, or binary cross entropy of each class, of the output `logits` [N, C] with `labels`,
// i64 [N] or probabilities [N, C]. Of probabilities, the largest counts as the label in metrics.
#include "data/dataset.h"
#include "models/prediction.h"
#include "models/task.h"
#include "models/tasks/accuracy.h"
#include "models/tasks/class_figures.h"
#include "models/tasks/class_targets.h"
#include "models/tasks/metrics.h"
#include "nn/functional.h"
#include "ops/losses/binary_cross_entropy.h"
#include "ops/losses/loss.h"

#include <algorithm>
#include <array>

namespace lacuna {
namespace {

enum class Loss : std::uint8_t { cross_entropy, bce };
std::array<std::pair<std::string_view, Loss>, 2> names_of(Loss) {
  return {{{"cross_entropy", Loss::cross_entropy}, {"bce", Loss::bce}}};
}

struct ClassificationOptions {
  double label_smoothing = 0;
  Loss loss = Loss::cross_entropy;
  double target_threshold = -1;
  bool sum_classes = false;
  std::string class_weights, metrics;

  static Fields fields() {
    return {
        field("label_smoothing", &ClassificationOptions::label_smoothing, up_to(1), label_smoothing_help),
        field("loss", &ClassificationOptions::loss, "training loss: cross entropy, or binary cross entropy per class"),
        field("target_threshold", &ClassificationOptions::target_threshold, NumberRange{.low = -1, .high = 1},
              "with `bce`: targets above it become 1, the others 0; below 0: targets are not changed"),
        field("sum_classes", &ClassificationOptions::sum_classes, "with `bce`: sum over the classes, not their mean"),
        field("class_weights", &ClassificationOptions::class_weights,
              "a weight per class, as `1, 2.5`, or `balanced`: samples / (classes × samples of the class); torch's "
              "`weight` of the cross entropy, and of `bce` its `pos_weight`"),
        field("metrics", &ClassificationOptions::metrics,
              "some of accuracy, top5_accuracy, f1, macro_f1 and matthews, with commas; the first decides which "
              "checkpoint is the best; empty: those of the data set, or accuracy")};
  }
};

std::vector<Metric> metrics_of(const ClassificationOptions& options, const Model& model) {
  if (options.metrics.empty()) return accuracy_metrics(model);
  std::vector<Metric> metrics;
  for (const std::string& name : metric_names(options.metrics, {}))
    metrics.push_back(class_metric(name, model.num_classes()));
  return metrics;
}

class Classification final : public Task {
 public:
  Classification(const ClassificationOptions& options, const Model& model)
      : Task(metrics_of(options, model)),
        classes_(model.num_classes()),
        label_smoothing_(options.label_smoothing),
        binary_(options.loss == Loss::bce),
        target_threshold_(options.target_threshold),
        sum_classes_(options.sum_classes),
        class_weights_(options.class_weights, classes_) {
    if (!binary_ && (target_threshold_ >= 0 || sum_classes_))
      reject("task.target_threshold and task.sum_classes: expected with task.loss: bce only");
    if (target_threshold_ >= 0 && label_smoothing_ / static_cast<double>(classes_) > target_threshold_)
      reject(
          "task.target_threshold: {} is below what label_smoothing={} gives every class of {}: all targets would be 1",
          target_threshold_, label_smoothing_, classes_);
  }

  SampleFields targets() const override { return {class_field(classes_)}; }

  Batch prepared(Batch batch) const override {
    if (has_targets()) batch.set("targets", targets_of(batch["labels"]));
    return batch;
  }
  bool is_read_by_kernels(std::string_view field) const override {
    return field == "labels" || field == "targets" || field == "key_lengths" || is_copied_by_models(field);
  }

  TaskResult run(Model& model, Inputs batch, TaskMode mode) const override {
    Variable labels = batch.take("labels"), targets;
    if (batch.contains("targets")) targets = batch.take("targets");
    Variable logits = model.forward(std::move(batch)).take("logits");
    Variable placed = class_targets(logits, labels);
    TaskResult result;
    count(logits.tensor(), placed.tensor(), result);
    if (mode == TaskMode::evaluate) show(logits.tensor(), labels.tensor());
    if (mode == TaskMode::train && has_targets()) {
      placed = {};
      if (!targets.defined()) targets = Variable(targets_of(labels.tensor()));
      labels = {};
      result.loss = loss_of_targets(std::move(logits), std::move(targets));
    } else {
      labels = {};
      result.loss = cross_entropy(std::move(logits), std::move(placed), mode == TaskMode::train ? label_smoothing_ : 0);
    }
    return result;
  }

  double weight(const Batch& batch, TaskMode mode) const override {
    const bool weighted = mode == TaskMode::train && !binary_ && class_weights_.any();
    return weighted ? class_weights_.sum(batch["labels"]) : Task::weight(batch, mode);
  }

  std::vector<Prediction> predict(Model& model, Inputs batch) const override {
    return class_predictions(model.forward(std::move(batch)).take("logits").tensor(), data().classes);
  }

  std::unique_ptr<Figures> figures() const override { return std::make_unique<ClassFigures>(data().classes); }

 private:
  void count(const Tensor& logits, const Tensor& labels, TaskResult& result) const {
    const auto sums = [this, logits, labels] {
      std::vector<Tensor> all;
      for (const Metric& metric : metrics()) all.push_back(class_sums(metric, logits, labels));
      return all;
    };
    if (std::ranges::all_of(metrics(), counts_on_device))
      result.sums = sums();
    else
      count_on_host(logits.device(), sums, result);
  }

  /// Whether the training loss has other targets than `labels`.
  bool has_targets() const { return binary_ || class_weights_.any(); }
  /// These, f32 [N, C], where the labels lie.
  Tensor targets_of(const Tensor& labels) const {
    return binary_ ? binary_targets(labels, classes_, label_smoothing_, target_threshold_)
                   : class_weights_.targets(labels, label_smoothing_);
  }
  Variable loss_of_targets(Variable logits, Variable targets) const {
    Tensor there = on_device(targets.tensor(), logits.device());
    targets = {};
    if (binary_) {
      const BinaryCrossEntropy mean{class_weights_.values(there.device())};  // over all elements
      Variable loss = apply(mean, std::move(logits), Variable(std::move(there)));
      return sum_classes_ ? static_cast<double>(classes_) * std::move(loss) : std::move(loss);
    }
    if (logits.dtype() == DType::f64) there = there.to(DType::f64);
    return cross_entropy(std::move(logits), Variable(std::move(there)));
  }

  std::int64_t classes_;
  double label_smoothing_;
  bool binary_;
  double target_threshold_;
  bool sum_classes_;
  ClassWeights class_weights_;
};

const RegisterTask classification("classification",
                                  {.options = ClassificationOptions{},
                                   .make = [](const Options& options, const Model& model) -> std::unique_ptr<Task> {
                                     return std::make_unique<Classification>(options.as<ClassificationOptions>(),
                                                                             model);
                                   },
                                   .head = "classification",
                                   .problem = "single_label_classification"});

}  // namespace
}  // namespace lacuna
