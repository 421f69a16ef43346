// Regression: mean squared error of the output `logits` [N, K] with `labels` f32 [N, K], or [N] where K is 1.
#include "models/task.h"
#include "ops/mean_squared_error.h"

namespace lacuna {
namespace {

double mean(std::span<const double> sums) { return sums[0] / sums[1]; }

class Regression final : public Task {
 public:
  explicit Regression(const Model& model)
      : Task({{.name = "mse", .higher_is_better = false, .sums = 2, .value = mean}}), outputs_(model.num_classes()) {}

  SampleFields targets() const override {
    return {{.name = "labels", .dtype = DType::f32, .shape = outputs_ == 1 ? Shape{} : Shape{outputs_}}};
  }

  TaskResult run(Model& model, Inputs batch, TaskMode) const override {
    Variable labels = batch.take("labels");
    Variable predictions = model.forward(std::move(batch)).take("logits");
    if (labels.shape().rank() == 1 && outputs_ == 1) predictions = predictions.reshape({predictions.shape()[0]});
    const auto values = static_cast<double>(labels.tensor().count());
    TaskResult result;
    result.loss = apply(MeanSquaredError{}, std::move(predictions), std::move(labels));
    const Tensor& loss = result.loss.tensor();
    const Tensor sums = Tensor::full({2}, values, DType::f64, loss.device());
    if (loss.device() != Device::meta) sums.data<double>()[0] = loss.item() * values;
    result.sums = {sums};
    return result;
  }

 private:
  std::int64_t outputs_;
};

const RegisterTask regression("regression", {.settings = {},
                                             .make = [](const Settings&, const Model& model) {
                                               return std::make_unique<Regression>(model);
                                             },
                                             .head = "classification"});

}  // namespace
}  // namespace lacuna
