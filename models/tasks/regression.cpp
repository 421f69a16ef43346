// Regression: mean squared error of the output `logits` [N, K] with `labels` f32 [N, K], or [N] where K is 1.
#include "models/prediction.h"
#include "models/task.h"
#include "models/tasks/metrics.h"
#include "ops/losses/mean_squared_error.h"

namespace lacuna {
namespace {

struct RegressionOptions {
  std::string metrics;

  static Fields fields() {
    return {field("metrics", &RegressionOptions::metrics,
                  "mse, pearson or spearman, several with commas; empty: those of the data set, or mse")};
  }
};

class Regression final : public Task {
 public:
  Regression(const RegressionOptions& options, const Model& model)
      : Task(number_metrics(options.metrics)), outputs_(model.num_classes()) {}

  SampleFields targets() const override {
    return {{.name = "labels", .dtype = DType::f32, .shape = outputs_ == 1 ? Shape{} : Shape{outputs_}}};
  }

  bool is_read_by_kernels(std::string_view field) const override {
    return field == "labels" || field == "key_lengths" || is_copied_by_models(field);
  }

  TaskResult run(Model& model, Inputs batch, TaskMode) const override {
    const Variable labels = batch.take("labels");
    Variable predictions = model.forward(std::move(batch)).take("logits");
    if (labels.shape().rank() == 1 && outputs_ == 1) predictions = predictions.reshape({predictions.shape()[0]});
    TaskResult result;
    count_on_host(
        predictions.device(),
        [this, found = predictions.tensor(), wanted = labels.tensor()] {
          return number_sums(metrics(), found, wanted);
        },
        result);
    result.loss =
        apply(MeanSquaredError{}, std::move(predictions), Variable(on_device(labels.tensor(), model.context().device)));
    return result;
  }

  std::vector<Prediction> predict(Model& model, Inputs batch) const override {
    std::vector<Prediction> all;
    for (const std::vector<double>& row : rows_of(model.forward(std::move(batch)).take("logits").tensor()))
      all.push_back({.values = {{"value", row.size() == 1 ? Prediction::Value(row.front()) : Prediction::Value(row)}}});
    return all;
  }

 private:
  std::int64_t outputs_;
};

const RegisterTask regression("regression", {.options = RegressionOptions{},
                                             .make =
                                                 [](const Options& options, const Model& model) {
                                                   return std::make_unique<Regression>(options.as<RegressionOptions>(),
                                                                                       model);
                                                 },
                                             .head = "classification",
                                             .problem = "regression",
                                             .learns_numbers = true});

}  // namespace
}  // namespace lacuna
