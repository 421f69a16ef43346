// Classification of tokens: cross entropy of the output `logits` [M, C] of the M tokens that have a label.
#include "models/prediction.h"
#include "models/sequences.h"
#include "models/task.h"
#include "models/tasks/accuracy.h"
#include "models/tasks/label_figures.h"
#include "models/tasks/text.h"
#include "ops/losses/loss.h"

#include <algorithm>

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
    labels.kind = FieldKind::label;
    labels.below = classes_;
    labels.padding = static_cast<double>(no_label);
    return {labels};
  }

  TaskResult run(Model& model, Inputs batch, TaskMode mode) const override {
    auto [rows, labels] = labelled_tokens(batch.take("labels"), model.context().device);
    batch.set("rows", std::move(rows));
    Variable logits = model.forward(std::move(batch)).take("logits");
    labels = class_targets(logits, labels);
    if (mode == TaskMode::evaluate) show(logits.tensor(), labels.tensor());
    TaskResult result;
    result.sums = accuracy_sums(logits.tensor(), labels.tensor(), metrics().size());
    const CrossEntropy loss{.label_smoothing = mode == TaskMode::train ? label_smoothing_ : 0};
    result.loss = apply(loss, std::move(logits), std::move(labels));
    return result;
  }

  /// The tokens that stand for text, the best class of each and its probability.
  std::vector<Prediction> predict(Model& model, Inputs batch) const override {
    const std::optional<TokenTexts> texts = TokenTexts::take(batch);
    if (!texts) reject("task token_classification: expected a batch with `spans` and `passage` to predict");
    const SequencesPtr sequences = sequences_of(batch);
    const std::vector<Prediction> of_tokens =
        class_predictions(model.forward(std::move(batch)).take("logits").tensor(), data().classes);
    std::vector<Prediction> all;
    for (std::int64_t n = 0; n < sequences->count(); ++n) {
      std::vector<std::string> tokens, labels;
      std::vector<double> probabilities;
      for (std::int64_t row = sequences->begin(n); row < sequences->begin(n) + sequences->length(n); ++row) {
        if (!texts->has_text(row)) continue;
        const auto& classes = of_tokens[static_cast<std::size_t>(row)].classes;
        tokens.emplace_back(texts->text(n, row, row));
        const auto best = std::ranges::max_element(classes, {}, &Prediction::Class::probability);
        labels.push_back(best->name);
        probabilities.push_back(best->probability);
      }
      all.push_back({.values = {{"tokens", tokens}, {"labels", labels}, {"probabilities", probabilities}}});
    }
    return all;
  }

  std::unique_ptr<Figures> figures() const override { return std::make_unique<LabelFigures>(data().classes); }

 private:
  SampleField tokens_;
  std::int64_t classes_;
  double label_smoothing_;
};

const RegisterTask token_classification("token_classification", {.options = TokenOptions{},
                                                                 .make =
                                                                     [](const Options& options, const Model& model) {
                                                                       return std::make_unique<TokenClassification>(
                                                                           options.as<TokenOptions>(), model);
                                                                     },
                                                                 .head = "tokens",
                                                                 .problem = "tokens"});

}  // namespace
}  // namespace lacuna
