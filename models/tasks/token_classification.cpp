// Classification of tokens: cross entropy of the output `logits` [M, C] of the M tokens that have a label.
#include "models/task.h"
#include "models/tasks/accuracy.h"
#include "models/tasks/text.h"
#include "ops/losses/loss.h"

namespace lacuna {
namespace {

struct TokenOptions {
  double label_smoothing = 0;

  static Fields fields() {
    return {field("label_smoothing", &TokenOptions::label_smoothing, up_to(1), label_smoothing_help)};
  }
};

class TokenClassification final : public Task {
 public:
  TokenClassification(const TokenOptions& options, const Model& model)
      : Task(accuracy_metrics(model)),
        tokens_(field_of(model.inputs(), "tokens")),
        classes_(model.num_classes()),
        label_smoothing_(options.label_smoothing) {}

  SampleFields targets() const override {
    SampleField labels = tokens_;
    labels.name = "labels";
    labels.below = classes_;
    labels.padding = static_cast<double>(no_label);
    return {labels};
  }

  TaskResult run(Model& model, Inputs batch, TaskMode mode) const override {
    auto [rows, labels] = labelled_tokens(batch.take("labels"), model.context().device);
    batch.set("rows", std::move(rows));
    Variable logits = model.forward(std::move(batch)).take("logits");
    labels = class_targets(logits, labels);
    TaskResult result;
    result.sums = accuracy_sums(logits.tensor(), labels.tensor(), metrics().size());
    const CrossEntropy loss{.label_smoothing = mode == TaskMode::train ? label_smoothing_ : 0};
    result.loss = apply(loss, std::move(logits), std::move(labels));
    return result;
  }

 private:
  SampleField tokens_;
  std::int64_t classes_;
  double label_smoothing_;
};

const RegisterTask task("token_classification", {.options = TokenOptions{},
                                                 .make =
                                                     [](const Options& options, const Model& model) {
                                                       return std::make_unique<TokenClassification>(
                                                           options.as<TokenOptions>(), model);
                                                     },
                                                 .head = "tokens"});

}  // namespace
}  // namespace lacuna
