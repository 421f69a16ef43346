// Classification of tokens: cross entropy of the output `logits` [M, C] of the M tokens that have a label, and the
// entities that they make up.
#include "data/text/entity_labels.h"
#include "models/prediction.h"
#include "models/sequences.h"
#include "models/task.h"
#include "models/tasks/accuracy.h"
#include "models/tasks/entities.h"
#include "models/tasks/label_figures.h"
#include "models/tasks/metrics.h"
#include "models/tasks/text.h"
#include "ops/losses/loss.h"

#include <fmt/ranges.h>

#include <algorithm>

namespace lacuna {
namespace {

struct TokenOptions {
  double label_smoothing = 0;
  std::string metrics;

  static Fields fields() {
    return {field("label_smoothing", &TokenOptions::label_smoothing, up_to(1), label_smoothing_help),
            field("metrics", &TokenOptions::metrics,
                  "some of accuracy and top5_accuracy of tokens, and f1, precision and recall of entities as seqeval "
                  "counts them, with commas; the first decides which checkpoint is the best; empty: those of the data "
                  "set, or accuracy")};
  }
};

std::vector<Metric> metrics_of(const TokenOptions& options, const Model& model) {
  if (options.metrics.empty()) return accuracy_metrics(model);
  std::vector<Metric> metrics;
  for (const std::string& name : metric_names(options.metrics, {})) {
    const std::optional<Metric> of_entities = entity_metric(name);
    if (!of_entities && name != "accuracy" && name != "top5_accuracy")
      reject("task.metrics: expected some of accuracy, top5_accuracy, f1, precision and recall, got {}", name);
    metrics.push_back(of_entities ? *of_entities : class_metric(name, model.num_classes()));
  }
  return metrics;
}

class TokenClassification final : public Task {
 public:
  TokenClassification(const TokenOptions& options, const Model& model)
      : Task(metrics_of(options, model)),
        tokens_(field_of(model.inputs(), "tokens")),
        classes_(model.num_classes()),
        label_smoothing_(options.label_smoothing) {}

  void see(const DatasetInfo& data) override {
    Task::see(data);
    if (!data.classes.empty() && !std::ranges::all_of(metrics(), counts_on_device) && !are_entity_labels(data.classes))
      reject("task.metrics: entities need labels as O, B-PER and I-PER, got {}", fmt::join(data.classes, ", "));
  }

  SampleFields targets() const override {
    SampleField labels = tokens_;
    labels.name = "labels";
    labels.kind = FieldKind::label;
    labels.below = classes_;
    labels.padding = static_cast<double>(no_label);
    return {labels};
  }

  Batch prepared(Batch batch) const override {
    const SequencesPtr sequences = sequences_of(Inputs(batch));
    const Tensor labels = batch.take("labels");
    labelled_tokens(Variable(labels), Device::cpu).add_to(batch);
    const std::vector<std::int64_t> sentences = labelled_ends(*sequences, labels);
    batch.set("sentences", Tensor::from(std::span(sentences), {std::ssize(sentences)}));
    return batch;
  }
  bool is_read_by_kernels(std::string_view field) const override {
    return LabelledTokens::has(field) || is_copied_by_models(field);
  }

  TaskResult run(Model& model, Inputs batch, TaskMode mode) const override {
    const Device device = model.context().device;
    std::optional<LabelledTokens> given = LabelledTokens::take(batch, device);
    std::vector<std::int64_t> sentences;
    LabelledTokens labelled = given ? std::move(*given) : [&] {
      const Variable of_tokens = batch.take("labels");
      sentences = labelled_ends(*sequences_of(batch), of_tokens.tensor());
      return labelled_tokens(of_tokens, device);
    }();
    if (given) {
      const Tensor ends = batch.take("sentences").tensor();
      sentences.assign(ends.data<const std::int64_t>(), ends.data<const std::int64_t>() + ends.count());
    }
    batch.set("rows", std::move(labelled.rows));
    Variable logits = model.forward(std::move(batch)).take("logits");
    Variable labels = class_targets(logits, labelled.labels);
    TaskResult result;
    if (labelled.count == 0) {
      for (const Metric& metric : metrics())
        result.sums.push_back(Tensor::zeros({metric.sums}, DType::f64, logits.device()));
    } else {
      if (mode == TaskMode::evaluate) show(logits.tensor(), labels.tensor());
      count(sentences, logits.tensor(), labels.tensor(), result);
    }
    const CrossEntropy loss{.label_smoothing = mode == TaskMode::train ? label_smoothing_ : 0};
    result.loss = labelled.loss(apply(loss, std::move(logits), std::move(labels)));
    return result;
  }

  double weight(const Batch& batch, TaskMode) const override {
    return static_cast<double>(count_labelled(batch["labels"]));
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
  void count(const std::vector<std::int64_t>& sentences, const Tensor& logits, const Tensor& labels,
             TaskResult& result) const {
    const auto sums = [this, logits, labels, sentences] {
      std::vector<Tensor> all;
      for (const Metric& metric : metrics())
        all.push_back(counts_on_device(metric) ? class_sums(metric, logits, labels)
                                               : entity_sums(data().classes, sentences, logits, labels));
      return all;
    };
    if (std::ranges::all_of(metrics(), counts_on_device))
      result.sums = sums();
    else
      count_on_host(logits.device(), sums, result);
  }

  /// The end of each sequence's labelled tokens among those of all; empty on `meta`.
  static std::vector<std::int64_t> labelled_ends(const Sequences& sequences, const Tensor& labels) {
    std::vector<std::int64_t> ends;
    if (labels.device() == Device::meta) return ends;
    const auto* const label = labels.data<const std::int64_t>();
    for (std::int64_t n = 0, end = 0; n < sequences.count(); ++n) {
      for (std::int64_t i = sequences.begin(n); i < sequences.begin(n) + sequences.length(n); ++i)
        end += label[i] == no_label ? 0 : 1;
      ends.push_back(end);
    }
    return ends;
  }

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
