// Preferences: a chosen answer becomes likelier than a rejected one (Rafailov et al. 2023, "Direct preference
// optimization").
#include "models/adapters.h"
#include "models/language_model.h"
#include "models/sequences.h"
#include "models/task.h"
#include "models/tasks/metrics.h"
#include "models/tasks/next_tokens.h"
#include "models/tasks/text.h"
#include "nn/adapter.h"
#include "nn/functional.h"
#include "nn/linear_cross_entropy.h"
#include "ops/losses/binary_cross_entropy.h"

#include <optional>
#include <set>
#include <vector>

namespace lacuna {
namespace {

struct PreferenceOptions {
  double beta = 0.1, label_smoothing = 0;

  static Fields fields() {
    return {field("beta", &PreferenceOptions::beta, NumberRange{.low = 1e-6},
                  "strength with which the model is held to its base"),
            field("label_smoothing", &PreferenceOptions::label_smoothing, below(0.5),
                  "share of pairs whose answers are taken to be exchanged")};
  }
};

/// The mean over pairs of -log sigmoid(beta · margin), equation 7 there, where the margin is how much likelier than in
/// the reference the chosen answer is, less the same of the rejected one. An answer's log-probability is the sum over
/// its labelled tokens. The reference is the model without its adapters, so that it costs no weights: it is run in
/// evaluation mode, and keeps nothing. Sequences 2 i and 2 i + 1 of a batch are a pair.
///
/// Metrics: `accuracy`, the share of pairs with a margin above 0, and `margin`, beta times their mean.
class Preference final : public Task {
 public:
  Preference(const PreferenceOptions& options, const Model& model)
      : Task({{.name = "accuracy", .sums = 2, .value = ratio_of_sums},
              {.name = "margin", .sums = 2, .value = ratio_of_sums}}),
        options_(options),
        tokens_(field_of(model.inputs(), "tokens")) {
    const auto* const language_model = dynamic_cast<const LanguageModel*>(&model);
    if (language_model == nullptr)
      reject("task preference: expected a model that predicts the next token, as a decoder");
    loss_.soft_cap = language_model->soft_cap();
  }

  void see(const DatasetInfo& data) override {
    if (dataset_kinds().get(data.name).reads_files && !has_pairs(data))
      reject(
          "task preference: expected pairs of a chosen and a rejected text, as data.name=preference gives them, got {}",
          data.name);
    Task::see(data);
  }

  SampleFields targets() const override { return {token_labels(tokens_)}; }

  void prepare(const Model& model) const override {
    if (!model.adaptation() && model.context().device != Device::meta)  // evaluations are planned without adapters
      reject("task preference: expected adapters (adapter.name=lora): the model without them is the reference");
  }

  /// With the rows and labels of all answers, and how many each has. Batches that plan memory are left as they are.
  Batch prepared(Batch batch) const override {
    if (!batch.contains("sequence_lengths")) return batch;
    const SequencesPtr sequences = sequences_of(Inputs(batch));
    std::vector<std::int64_t> counts;
    next_labels(*sequences, batch.take("labels"), Device::cpu, &counts).add_to(batch);
    batch.set("answer_counts", Tensor::from(std::span<const std::int64_t>(counts), {std::ssize(counts)}));
    return batch;
  }
  bool is_read_by_kernels(std::string_view field) const override {
    return LabelledTokens::has(field) || is_copied_by_models(field);
  }

  TaskResult run(Model& model, Inputs batch, TaskMode mode) const override {
    prepare(model);
    if (mode == TaskMode::train && model.adaptation()) refuse_trained_base(model);
    if (model.context().device == Device::meta && !batch.contains("sequence_lengths")) double_sequences(batch);
    const SequencesPtr sequences = sequences_of(batch);
    if (sequences->count() % 2 != 0) reject("task preference: expected pairs of sequences, got {}", sequences->count());
    const Answers answers = take_answers(batch, *sequences, model.context().device);
    const Inputs copy = batch;
    std::vector<Variable> reference;
    {
      const NoGrad no_grad;
      const nn::WithoutAdapters without;
      const bool training = model.training();
      model.set_training(false);
      reference = costs(model, copy, answers);
      model.set_training(training);
    }
    std::vector<Variable> own = costs(model, std::move(batch), answers);
    std::vector<Variable> margins;
    for (std::size_t i = 0; i < own.size(); i += 2) {
      Variable margin = (std::move(own[i + 1]) - std::move(own[i])) - (reference[i + 1] - reference[i]);
      margins.push_back((std::move(margin) * options_.beta).reshape({1}));
    }
    Variable all = margins.size() == 1 ? margins.front() : concat(std::move(margins), 0);
    const Variable targets(Tensor::full(all.shape(), 1 - options_.label_smoothing, DType::f32, all.device()));
    TaskResult result;
    count_on_host(
        all.device(), [values = all.tensor()] { return sums_of(values); }, result);
    result.loss = lacuna::apply(BinaryCrossEntropy{}, std::move(all), targets);
    return result;
  }

  double weight(const Batch& batch, TaskMode) const override {
    return static_cast<double>(sequences_of(Inputs(batch))->count()) / 2;
  }

 private:
  /// Refuses trained parameters that are not the adapters': the reference would move with them.
  static void refuse_trained_base(const Model& model) {
    std::set<const Parameter*> own;
    for (const nn::Adaptable* const layer : adapted_layers(model))
      for (const Parameter* const parameter : layer->adapter()->parameters()) own.insert(parameter);
    for (const Parameter* const parameter : model.parameters())
      if (parameter->trainable() && !own.contains(parameter))
        reject(
            "task preference: `{}` is trained, and the reference reads it too: freeze.train may name nothing beside "
            "the adapters",
            parameter->path());
  }

  /// Makes two sequences of each one of a batch that stands for samples of pairs, where memory is planned.
  static void double_sequences(Inputs& batch) {
    const SequencesPtr samples = sequences_of(batch);
    std::vector<std::int64_t> ends{0};
    for (std::int64_t n = 0; n < samples->count(); ++n)
      for (int answer = 0; answer < 2; ++answer) ends.push_back(ends.back() + samples->length(n));
    const auto set = [&](std::string_view name, Tensor tensor) {
      batch.take(name);
      batch.set(std::string(name), Variable(std::move(tensor)));
    };
    for (const std::string_view name : {"tokens", "labels"})
      set(name, Tensor::zeros({ends.back()}, DType::i64, batch.at(name).tensor().device(), Purpose::data));
    set("offsets", Tensor::from(std::span<const std::int64_t>(ends), {std::ssize(ends)}));
  }

  /// The labelled tokens of all answers, and how many each has.
  struct Answers {
    LabelledTokens tokens;
    std::vector<std::int64_t> counts;
  };
  static Answers take_answers(Inputs& batch, const Sequences& sequences, Device device) {
    if (std::optional<LabelledTokens> given = LabelledTokens::take(batch, device)) {
      const Tensor counts = batch.take("answer_counts").tensor();
      const auto* const first = counts.data<const std::int64_t>();
      return {std::move(*given), {first, first + counts.count()}};
    }
    std::vector<std::int64_t> counts;
    LabelledTokens tokens = next_labels(sequences, batch.take("labels").tensor(), device, &counts);
    return {std::move(tokens), std::move(counts)};
  }

  /// Minus the log-probability of each sequence's labelled tokens: [] each.
  std::vector<Variable> costs(Model& model, Inputs batch, const Answers& answers) const {
    batch.set("rows", answers.tokens.rows);
    Outputs outputs = model.forward(std::move(batch));
    const Variable hidden = outputs.take("hidden"), weight = outputs.take("decoder_weight"),
                   bias = outputs.contains("decoder_bias") ? outputs.take("decoder_bias") : Variable();
    std::vector<Variable> all;
    std::int64_t begin = 0;
    for (const std::int64_t count : answers.counts) {
      if (count == 0) reject("task preference: an answer has no token with a label");
      const Variable rows = slice(hidden, 1, begin, begin + count),
                     own = slice(answers.tokens.labels, 0, begin, begin + count);
      all.push_back(nn::linear_cross_entropy(rows, weight, bias, own, loss_) * static_cast<double>(count));
      begin += count;
    }
    return all;
  }

  /// Sums of both metrics of `margins` [pairs], which are times beta.
  static std::vector<Tensor> sums_of(const Tensor& margins) {
    if (margins.device() == Device::meta) {
      const Tensor unknown = Tensor::empty({2}, DType::f64, Device::meta);
      return {unknown, unknown};
    }
    double right = 0, sum = 0;
    for (const double margin : margins.to_vector()) {
      right += margin > 0 ? 1 : 0;
      sum += margin;
    }
    const auto pair = [&](double first) {
      const double values[] = {first, static_cast<double>(margins.count())};
      return Tensor::from(std::span<const double>(values), {2});
    };
    return {pair(right), pair(sum)};
  }

  PreferenceOptions options_;
  SampleField tokens_;
  LinearCrossEntropy loss_;
};

const RegisterTask preference("preference",
                              {.options = PreferenceOptions{}, .make = [](const Options& options, const Model& model) {
                                 return std::make_unique<Preference>(options.as<PreferenceOptions>(), model);
                               }});

}  // namespace
}  // namespace lacuna
