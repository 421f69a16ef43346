// Classification: cross entropy of the output `logits` [N, C] with `labels`, i64 [N] or probabilities [N, C].
#include "models/task.h"
#include "models/tasks/accuracy.h"
#include "models/tasks/metrics.h"
#include "ops/loss.h"

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
        label_smoothing_(settings.number("label_smoothing")) {}

  SampleFields targets() const override {
    return {{.name = "labels", .dtype = DType::i64, .shape = {}, .below = classes_}};
  }

  TaskResult run(Model& model, Inputs batch, TaskMode mode) const override {
    Variable labels = batch.take("labels");
    Variable logits = model.forward(std::move(batch)).take("logits");
    check_class_targets(logits, labels);
    TaskResult result;
    for (const Metric& metric : metrics()) result.sums.push_back(class_sums(metric, logits.tensor(), labels.tensor()));
    const CrossEntropy loss{.label_smoothing = mode == TaskMode::train ? label_smoothing_ : 0};
    result.loss = apply(loss, std::move(logits), std::move(labels));
    return result;
  }

 private:
  std::int64_t classes_;
  double label_smoothing_;
};

const RegisterTask classification(
    "classification",
    {.settings = {{"label_smoothing", 0.0, up_to_one, "share of the uniform distribution in the training targets"},
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
