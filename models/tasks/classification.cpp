// Classification: cross entropy, or binary cross entropy of each class, of the output `logits` [N, C] with `labels`,
// i64 [N] or probabilities [N, C]. Of probabilities, the largest counts as the label in metrics.
#include "models/task.h"
#include "models/tasks/accuracy.h"
#include "models/tasks/class_targets.h"
#include "models/tasks/metrics.h"
#include "nn/functional.h"
#include "ops/losses/binary_cross_entropy.h"
#include "ops/losses/loss.h"

#include <algorithm>

namespace lacuna {
namespace {

std::vector<Metric> metrics_of(const Settings& settings, const Model& model) {
  if (settings.text("metrics").empty()) return accuracy_metrics(model);
  std::vector<Metric> metrics;
  for (const std::string& name : metric_names(settings.text("metrics"), {}))
    metrics.push_back(class_metric(name, model.num_classes()));
  return metrics;
}

class Classification final : public Task {
 public:
  Classification(const Settings& settings, const Model& model)
      : Task(metrics_of(settings, model)),
        classes_(model.num_classes()),
        label_smoothing_(settings.number("label_smoothing")),
        binary_(settings.text("loss") == "bce"),
        target_threshold_(settings.number("target_threshold")),
        sum_classes_(settings.flag("sum_classes")),
        class_weights_(settings.text("class_weights"), classes_) {
    const std::string& loss = settings.text("loss");
    if (!binary_ && loss != "cross_entropy") reject("task.loss: expected cross_entropy or bce, got {}", loss);
    if (!binary_ && (target_threshold_ >= 0 || sum_classes_))
      reject("task.target_threshold and task.sum_classes: expected with task.loss: bce only");
    if (target_threshold_ >= 0 && label_smoothing_ / static_cast<double>(classes_) > target_threshold_)
      reject(
          "task.target_threshold: {} is below what label_smoothing={} gives every class of {}: all targets would be 1",
          target_threshold_, label_smoothing_, classes_);
  }

  SampleFields targets() const override {
    return {{.name = "labels", .dtype = DType::i64, .shape = {}, .below = classes_}};
  }

  bool reads_by_kernels() const override {
    return !binary_ && !class_weights_.any() && std::ranges::all_of(metrics(), counts_on_device);
  }

  TaskResult run(Model& model, Inputs batch, TaskMode mode) const override {
    Variable labels = batch.take("labels");
    Variable logits = model.forward(std::move(batch)).take("logits");
    Variable placed = class_targets(logits, labels);
    TaskResult result;
    count(logits.tensor(), placed.tensor(), result);
    if (mode == TaskMode::evaluate) show(logits.tensor(), labels.tensor());
    if (mode == TaskMode::train && (binary_ || class_weights_.any())) {
      placed = {};
      result.loss = loss_of_targets(std::move(logits), std::move(labels));
    } else {
      labels = {};
      result.loss = cross_entropy(std::move(logits), std::move(placed), mode == TaskMode::train ? label_smoothing_ : 0);
    }
    return result;
  }

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

  /// The training loss, where it has other targets than `labels`. They are made where the labels lie.
  Variable loss_of_targets(Variable logits, Variable labels) const {
    if (binary_) {
      const Tensor targets =
          on_device(binary_targets(labels.tensor(), classes_, label_smoothing_, target_threshold_), logits.device());
      labels = {};
      const BinaryCrossEntropy mean{class_weights_.values(targets.device())};  // over all elements
      Variable loss = apply(mean, std::move(logits), Variable(targets));
      return sum_classes_ ? static_cast<double>(classes_) * std::move(loss) : std::move(loss);
    }
    const DType type = logits.dtype() == DType::f64 ? DType::f64 : DType::f32;
    const Tensor targets =
        on_device(class_weights_.targets(labels.tensor(), label_smoothing_).to(type), logits.device());
    labels = {};
    return cross_entropy(std::move(logits), Variable(targets));
  }

  std::int64_t classes_;
  double label_smoothing_;
  bool binary_;
  double target_threshold_;
  bool sum_classes_;
  ClassWeights class_weights_;
};

constexpr SettingRange or_none{.low = -1, .high = 1};

const RegisterTask classification(
    "classification",
    {.settings = {{"label_smoothing", 0.0, up_to_one, "share of the uniform distribution in the training targets"},
                  {"loss",
                   std::string("cross_entropy"),
                   {},
                   "in training: `cross_entropy`, or `bce`, the binary cross "
                   "entropy of each class (mean over all)"},
                  {"target_threshold", -1.0, or_none,
                   "of `bce`: targets above it become 1, the others 0; below 0: "
                   "targets stay as they are"},
                  {"sum_classes", false, {}, "of `bce`: the sum over the classes instead of their mean"},
                  {"class_weights",
                   std::string(),
                   {},
                   "a number for each class, as `1, 2.5`, or `balanced`: samples / (classes × samples of the class), "
                   "which `train` counts; torch's `weight` of the cross entropy, and of `bce` its `pos_weight`"},
                  {"metrics",
                   std::string(),
                   {},
                   "some of accuracy, top5_accuracy, f1, macro_f1 and matthews, with commas "
                   "between them; the first one decides which checkpoint is the best; empty: "
                   "those of the data set, or accuracy"}},
     .make = [](const Settings& settings,
                const Model& model) { return std::make_unique<Classification>(settings, model); },
     .head = "classification"});

}  // namespace
}  // namespace lacuna
