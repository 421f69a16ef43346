// Linear probing: many heads on the cached features of a frozen model, each with its learning rate.
#include "models/probe.h"
#include "data/dataset.h"
#include "models/task.h"
#include "models/tasks/accuracy.h"
#include "nn/functional.h"

#include <algorithm>
#include <utility>

namespace lacuna {
namespace {

/// The best accuracy from [correct of each head, samples].
double best_fraction(std::span<const double> sums) {
  return *std::ranges::max_element(sums.first(sums.size() - 1)) / sums.back();
}

std::vector<Metric> metrics_of(const std::vector<double>& rates) {
  std::vector<Metric> metrics{{.name = "accuracy", .sums = std::ssize(rates) + 1, .value = best_fraction}};
  for (const double rate : rates) metrics.push_back({.name = probe_metric(rate), .sums = 2, .value = ratio_of_sums});
  return metrics;
}

struct ProbeOptions {
  std::vector<double> rates;

  static Fields fields() {
    return {field("rates", &ProbeOptions::rates, at_least(1e-12),
                  "learning rates, times optimizer.lr; a head is trained for each")};
  }
};

std::vector<double> rates_of(const Options& options) {
  const std::vector<double>& rates = options.as<ProbeOptions>().rates;
  if (rates.empty()) reject("task.rates: expected the rate of each head, times optimizer.lr, as [0.1, 0.01]");
  std::vector<double> sorted = rates;
  std::ranges::sort(sorted);
  if (const auto twice = std::ranges::adjacent_find(sorted); twice != sorted.end())
    reject("task.rates: expected different rates, got {} twice", *twice);
  return rates;
}

/// The loss is the sum of the heads' mean cross entropies: the gradient of each head is that of its own.
class Probe final : public Task {
 public:
  explicit Probe(const ProbeHeads& heads) : Task(metrics_of(heads.rates())), classes_(heads.num_classes()) {}

  SampleFields targets() const override { return {class_field(classes_)}; }

  bool is_read_by_kernels(std::string_view field) const override {
    return field == "labels" || is_copied_by_models(field);
  }

  TaskResult run(Model& model, Inputs batch, TaskMode) const override {
    Variable labels = batch.take("labels");
    Outputs outputs = model.forward(std::move(batch));
    const std::int64_t heads = std::ssize(metrics()) - 1;
    const Device device = model.context().device;
    const Tensor all = Tensor::full({heads + 1}, static_cast<double>(labels.tensor().count()), DType::f64, device);
    TaskResult result{.loss = {}, .sums = {all}};
    for (std::int64_t k = 0; k < heads; ++k) {
      Variable logits = outputs.take(fmt::format("logits_{}", k));
      labels = class_targets(logits, labels);
      result.sums.push_back(accuracy_sums(logits.tensor(), labels.tensor(), 1).front());
      all.leading(k, k + 1).copy_from(result.sums.back().leading(0, 1));
      Variable loss = cross_entropy(std::move(logits), labels);
      result.loss = k == 0 ? std::move(loss) : std::move(result.loss) + std::move(loss);
    }
    return result;
  }

 private:
  std::int64_t classes_;
};

const RegisterTask probe("probe", {.options = ProbeOptions{},
                                   // By itself the classifier, with the best head in it, is judged as any other.
                                   .make = [](const Options& options, const Model& model) -> std::unique_ptr<Task> {
                                     rates_of(options);
                                     if (const auto* const heads = dynamic_cast<const ProbeHeads*>(&model))
                                       return std::make_unique<Probe>(*heads);
                                     probed_head(model);
                                     return make_task("classification", {}, model);
                                   },
                                   .head = "classification",
                                   .problem = "single_label_classification",
                                   .heads =
                                       [](const Options& options, const Model& classifier) {
                                         return std::make_unique<ProbeHeads>(classifier, rates_of(options));
                                       }});

}  // namespace
}  // namespace lacuna
