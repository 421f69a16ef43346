// Causal language modelling: each token is predicted from those before it.
#include "models/language_model.h"
#include "models/sequences.h"
#include "models/task.h"
#include "models/tasks/metrics.h"
#include "models/tasks/next_tokens.h"
#include "models/tasks/text.h"
#include "nn/linear_cross_entropy.h"

namespace lacuna {
namespace {

struct CausalLmOptions {
  double label_smoothing = 0;

  static Fields fields() {
    return {field("label_smoothing", &CausalLmOptions::label_smoothing, up_to(1), label_smoothing_help)};
  }
};

/// Mean cross entropy of the tokens that have a label, the first of a sequence never (transformers' causal language
/// models). The logits are computed for them only, a block of rows at a time.
class CausalLm final : public Task {
 public:
  CausalLm(const CausalLmOptions& options, const Model& model)
      : Task({perplexity_metric()}),
        tokens_(field_of(model.inputs(), "tokens")),
        label_smoothing_(options.label_smoothing) {
    const auto* const language_model = dynamic_cast<const LanguageModel*>(&model);
    if (language_model == nullptr)
      reject("task causal_lm: expected a model that predicts the next token, as a decoder");
    soft_cap_ = language_model->soft_cap();
  }

  void see(const DatasetInfo& data) override {
    if (has_pairs(data))
      reject(
          "task causal_lm: expected texts, and {} gives pairs of a chosen and a rejected one: task.name=preference "
          "learns from them",
          data.name);
    Task::see(data);
  }

  SampleFields targets() const override { return {token_labels(tokens_)}; }

  Batch prepared(Batch batch) const override {
    const SequencesPtr sequences = sequences_of(Inputs(batch));
    next_labels(*sequences, batch.take("labels"), Device::cpu).add_to(batch);
    return batch;
  }
  bool is_read_by_kernels(std::string_view field) const override {
    return LabelledTokens::has(field) || is_copied_by_models(field);
  }

  TaskResult run(Model& model, Inputs batch, TaskMode mode) const override {
    const Device device = model.context().device;
    std::optional<LabelledTokens> given = LabelledTokens::take(batch, device);
    LabelledTokens next =
        given ? std::move(*given) : next_labels(*sequences_of(batch), batch.take("labels").tensor(), device);
    batch.set("rows", std::move(next.rows));
    Outputs outputs = model.forward(std::move(batch));
    const LinearCrossEntropy loss{.label_smoothing = mode == TaskMode::train ? label_smoothing_ : 0,
                                  .soft_cap = soft_cap_};
    Variable bias = outputs.contains("decoder_bias") ? outputs.take("decoder_bias") : Variable();
    TaskResult result;
    result.loss = next.loss(nn::linear_cross_entropy(outputs.take("hidden"), outputs.take("decoder_weight"),
                                                     std::move(bias), std::move(next.labels), loss));
    result.sums = {sum_and_count(result.loss.tensor(), static_cast<double>(next.count))};
    return result;
  }

  double weight(const Batch& batch, TaskMode) const override {
    const Inputs inputs(batch);
    const Tensor& labels = batch["labels"];
    return static_cast<double>(next_labels(*sequences_of(inputs), labels, labels.device()).count);
  }

 private:
  SampleField tokens_;
  double label_smoothing_, soft_cap_ = 0;
};

const RegisterTask causal_lm("causal_lm", {.options = CausalLmOptions{},
                                           .make =
                                               [](const Options& options, const Model& model) {
                                                 return std::make_unique<CausalLm>(options.as<CausalLmOptions>(),
                                                                                   model);
                                               },
                                           .problem = "causal_lm"});

}  // namespace
}  // namespace lacuna
