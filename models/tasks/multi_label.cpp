// Classes that do not exclude each other: binary cross entropy of the output `logits` [N, C] with `labels` f32 [N, C].
#include "models/tasks/multi_label.h"

#include "models/prediction.h"
#include "models/tasks/label_figures.h"
#include "ops/losses/binary_cross_entropy.h"

namespace lacuna {
namespace {

/// sums: true positives, false positives, false negatives.
double micro_f1(std::span<const double> sums) {
  const double all = 2 * sums[0] + sums[1] + sums[2];
  return all > 0 ? 2 * sums[0] / all : 0;
}

}  // namespace

std::vector<Metric> multi_label_metrics() {
  return {{.name = "f1", .sums = 3, .value = micro_f1}, {.name = "exact_match", .sums = 2, .value = ratio_of_sums}};
}

std::vector<Tensor> multi_label_sums(const Tensor& logits, const Tensor& labels) {
  const Device device = logits.device();
  const Tensor f1 = Tensor::zeros({3}, DType::f64, device), exact = Tensor::zeros({2}, DType::f64, device);
  if (device == Device::meta) return {f1, exact};
  std::vector<double> found_or_not(3), rows_right(2);
  const std::vector<double> z = logits.to_vector(), wanted = labels.to_vector();
  expect(z.size() == wanted.size(), "multi_label: expected labels {}, got {}", logits.shape(), labels.shape());
  const std::int64_t classes = logits.shape().back();
  for (std::int64_t row = 0; row < logits.rows(); ++row) {
    bool all_right = true;
    for (std::int64_t c = 0; c < classes; ++c) {
      const auto at = static_cast<std::size_t>(row * classes + c);
      const bool found = z[at] > 0, is = wanted[at] > 0.5;
      all_right = all_right && found == is;
      if (found || is) ++found_or_not[found && is ? 0 : found ? 1 : 2];
    }
    rows_right[0] += all_right ? 1 : 0;
    ++rows_right[1];
  }
  f1.copy_from(Tensor::from(std::span<const double>(found_or_not), {3}));
  exact.copy_from(Tensor::from(std::span<const double>(rows_right), {2}));
  return {f1, exact};
}

namespace {

class MultiLabel final : public Task {
 public:
  explicit MultiLabel(const Model& model) : Task(multi_label_metrics()), classes_(model.num_classes()) {
    if (classes_ < 1) reject("task multi_label: expected a model with classes, got num_classes {}", classes_);
  }

  SampleFields targets() const override {
    return {{.name = "labels", .kind = FieldKind::label, .dtype = DType::f32, .shape = {classes_}}};
  }

  bool is_read_by_kernels(std::string_view field) const override {
    return field == "labels" || field == "key_lengths" || is_copied_by_models(field);
  }

  TaskResult run(Model& model, Inputs batch, TaskMode mode) const override {
    Variable labels = batch.take("labels");
    Variable logits = model.forward(std::move(batch)).take("logits");
    if (mode == TaskMode::evaluate) show(logits.tensor(), labels.tensor());
    TaskResult result;
    count_on_host(
        logits.device(), [z = logits.tensor(), wanted = labels.tensor()] { return multi_label_sums(z, wanted); },
        result);
    result.loss =
        apply(BinaryCrossEntropy{}, std::move(logits), Variable(on_device(labels.tensor(), model.context().device)));
    return result;
  }

  std::vector<Prediction> predict(Model& model, Inputs batch) const override {
    return class_predictions(model.forward(std::move(batch)).take("logits").tensor(), data().classes, "labels");
  }

  std::unique_ptr<Figures> figures() const override { return std::make_unique<LabelFigures>(data().classes); }

 private:
  std::int64_t classes_;
};

const RegisterTask multi_label("multi_label",
                               {.options = {},
                                .make = [](const Options&,
                                           const Model& model) { return std::make_unique<MultiLabel>(model); },
                                .head = "classification",
                                .problem = "multi_label_classification"});

}  // namespace
}  // namespace lacuna
