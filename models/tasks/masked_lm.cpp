// Masked language modelling: the tokens that were hidden are found again.
#include "core/random.h"
#include "data/pipeline.h"
#include "data/vocabulary.h"
#include "models/prediction.h"
#include "models/sequences.h"
#include "models/task.h"
#include "models/tasks/metrics.h"
#include "models/tasks/text.h"
#include "nn/linear_cross_entropy.h"
#include "ops/products/linear.h"

#include <algorithm>
#include <cmath>
#include <functional>

namespace lacuna {
namespace {

struct MaskedLmOptions {
  double probability = 0.15;
  std::int64_t mask_id = -1;
  double label_smoothing = 0;

  static Fields fields() {
    return {field("probability", &MaskedLmOptions::probability, NumberRange{.low = 1e-3, .high = 1},
                  "probability that a token is masked"),
            field("mask_id", &MaskedLmOptions::mask_id, between(-1, 1e9), "id of [MASK]; -1: the tokenizer's"),
            field("label_smoothing", &MaskedLmOptions::label_smoothing, up_to(1), label_smoothing_help)};
  }
};

/// Hides tokens as Devlin et al. 2019, section 3.1, and transformers' DataCollatorForLanguageModeling do: each with
/// `probability`, never a special one, wherever it stands; 80 % become [MASK], 10 % any token of the vocabulary, 10 %
/// stay. The data set says which tokens these are. The draws are a function of the sample's `draw` (see with_draws) and
/// the place in it. A batch that has `labels` of each token (−100 elsewhere) is taken as it is.
///
/// The logits of the vocabulary are computed for hidden tokens only, a block of rows at a time.
class MaskedLm final : public Task {
 public:
  MaskedLm(const MaskedLmOptions& options, const Model& model)
      : Task({perplexity_metric()}),
        outputs_(model.num_classes()),
        given_mask_(options.mask_id),
        probability_(options.probability),
        label_smoothing_(options.label_smoothing) {}

  void see(const DatasetInfo& data) override {
    Task::see(data);
    vocabulary_ = data.vocabulary;
    if (vocabulary_.size == 0) return;  // `hide` rejects batches then
    if (given_mask_ >= 0) vocabulary_.mask = given_mask_;
    if (vocabulary_.mask < 0)
      reject(
          "task masked_lm: the vocabulary of the data set has no [MASK]: expected task.mask_id, the id of the token "
          "that stands for hidden ones");
    if (vocabulary_.mask >= outputs_)
      reject("task masked_lm: expected a mask_id below {}, the model's vocabulary, got {}", outputs_, vocabulary_.mask);
    vocabulary_.size = std::min(vocabulary_.size, outputs_);
    vocabulary_.special.push_back(vocabulary_.mask);
  }

  SampleFields targets() const override {
    return {{.name = std::string(sample_draw), .dtype = DType::i64, .shape = {}, .below = std::int64_t{1} << 31}};
  }

  Batch prepared(Batch batch) const override {
    Inputs inputs(batch);
    const Variable labels = labels_of(inputs, Device::cpu);
    batch.set("tokens", inputs.at("tokens").tensor());
    for (const std::string_view used : {sample_draw, std::string_view("labels")})
      if (batch.contains(used)) batch.take(used);
    labelled_tokens(labels, Device::cpu).add_to(batch);
    return batch;
  }
  bool is_read_by_kernels(std::string_view field) const override {
    return LabelledTokens::has(field) || is_copied_by_models(field);
  }

  TaskResult run(Model& model, Inputs batch, TaskMode mode) const override {
    const Device device = model.context().device;
    std::optional<LabelledTokens> given = LabelledTokens::take(batch, device);
    LabelledTokens labelled = given ? std::move(*given) : [&] {
      const Variable labels = labels_of(batch, device);
      return labelled_tokens(labels, device, most_hidden(labels.tensor().count()));
    }();
    batch.set("rows", std::move(labelled.rows));
    Outputs outputs = model.forward(std::move(batch));
    TaskResult result;
    const LinearCrossEntropy loss{.label_smoothing = mode == TaskMode::train ? label_smoothing_ : 0};
    result.loss =
        labelled.loss(nn::linear_cross_entropy(outputs.take("hidden"), outputs.take("decoder_weight"),
                                               outputs.take("decoder_bias"), std::move(labelled.labels), loss));
    result.sums = {sum_and_count(result.loss.tensor(), static_cast<double>(labelled.count))};
    return result;
  }

  /// The likeliest words for each mask of a text, and their probabilities.
  std::vector<Prediction> predict(Model& model, Inputs batch) const override {
    constexpr std::int64_t most_words = 5;
    if (vocabulary_.tokens.empty()) reject("task masked_lm: expected a tokenizer, whose tokens have names, to predict");
    const SequencesPtr sequences = sequences_of(batch);
    const Tensor tokens = batch.at("tokens").tensor();
    const Tensor labels =
        Tensor::full(tokens.shape(), static_cast<double>(no_label), DType::i64, tokens.device(), Purpose::data);
    const auto is_mask = [&](std::int64_t row) { return tokens.data<const std::int64_t>()[row] == vocabulary_.mask; };
    for (std::int64_t i = 0; i < tokens.count(); ++i)
      if (is_mask(i)) labels.data<std::int64_t>()[i] = vocabulary_.mask;
    batch.set("rows", labelled_tokens(Variable(labels), model.context().device).rows);
    Outputs outputs = model.forward(std::move(batch));
    const Variable hidden = outputs.take("hidden");
    const Variable logits = apply(Linear{}, hidden.reshape({hidden.tensor().rows(), hidden.shape().back()}),
                                  outputs.take("decoder_weight"), outputs.take("decoder_bias"));
    std::vector<Prediction> of_masks = class_predictions(logits.tensor(), vocabulary_.tokens);
    std::vector<Prediction> all;
    auto next = of_masks.begin();
    for (std::int64_t n = 0; n < sequences->count(); ++n) {
      std::vector<std::vector<std::string>> words;
      std::vector<std::vector<double>> probabilities;
      for (std::int64_t row = sequences->begin(n); row < sequences->begin(n) + sequences->length(n); ++row) {
        if (!is_mask(row)) continue;
        std::vector<Prediction::Class>& classes = next++->classes;
        if (!std::isfinite(classes.front().probability)) fail("the model's output is not finite");
        const auto end = classes.begin() + std::min(most_words, std::ssize(classes));
        std::ranges::partial_sort(classes, end, std::greater{}, &Prediction::Class::probability);
        words.emplace_back();
        probabilities.emplace_back();
        for (auto word = classes.begin(); word != end; ++word) {
          words.back().push_back(word->name);
          probabilities.back().push_back(word->probability);
        }
      }
      all.push_back({.values = {{"words", std::move(words)}, {"probabilities", std::move(probabilities)}}});
    }
    return all;
  }

  double weight(const Batch& batch, TaskMode) const override {
    Inputs inputs(batch);
    return static_cast<double>(count_labelled(labels_of(inputs, inputs.at("tokens").device()).tensor()));
  }

 private:
  /// The most of `count` tokens that are hidden: six deviations above p · n, which one batch in 10⁹ exceeds.
  std::int64_t most_hidden(std::int64_t count) const {
    const double expected = probability_ * static_cast<double>(count);
    return static_cast<std::int64_t>(std::ceil(expected + 6 * std::sqrt(expected * (1 - probability_))));
  }

  /// The labels of a batch that has them; of another one, hides tokens for a model on `device`.
  Variable labels_of(Inputs& batch, Device device) const {
    Variable labels = batch.contains("labels") ? batch.take("labels") : Variable();
    const bool of_tokens = labels.defined() && labels.shape() == batch.at("tokens").shape();
    return of_tokens ? labels : hide(batch, device);
  }

  /// Hides tokens of the batch for a model on `device`; returns the labels.
  Variable hide(Inputs& batch, Device device) const {
    const Tensor tokens = batch.at("tokens").tensor();
    const Tensor labels =
        Tensor::full(tokens.shape(), static_cast<double>(no_label), DType::i64, tokens.device(), Purpose::data);
    if (device == Device::meta) return Variable(labels);
    if (vocabulary_.size == 0)
      reject("task masked_lm: expected a data set that says which tokens are special (Task::see)");
    const SequencesPtr sequences = sequences_of(batch);
    const Tensor hidden = tokens.clone(Purpose::data);
    const auto* const id = tokens.data<const std::int64_t>();
    std::int64_t* const to = hidden.data<std::int64_t>();
    std::int64_t* const label = labels.data<std::int64_t>();
    if (!batch.contains(sample_draw)) reject("task masked_lm: expected a batch with `{}` i64 [N]", sample_draw);
    const Tensor draw = batch.take(sample_draw).tensor();
    const auto below = [](double share) { return static_cast<std::uint32_t>(std::ldexp(share, 32) - 1); };
    for (std::int64_t n = 0; n < sequences->count(); ++n) {
      const std::int64_t begin = sequences->begin(n), length = sequences->length(n);
      const RandomStream stream{.seed = static_cast<std::uint64_t>(draw.data<const std::int64_t>()[n]),
                                .site = random_site("masked_lm")};
      for (std::int64_t i = begin; i < begin + length; ++i) {
        if (std::ranges::find(vocabulary_.special, id[i]) != vocabulary_.special.end()) continue;
        const auto draws = stream.draw(static_cast<std::uint64_t>(i - begin));
        if (draws[0] > below(probability_)) continue;
        label[i] = id[i];
        if (draws[1] <= below(0.8))
          to[i] = vocabulary_.mask;
        else if (draws[1] <= below(0.9))
          to[i] =
              static_cast<std::int64_t>(std::uint64_t{draws[2]} * static_cast<std::uint64_t>(vocabulary_.size) >> 32);
      }
    }
    batch.take("tokens");
    batch.set("tokens", Variable(hidden));
    return Variable(labels);
  }

  std::int64_t outputs_, given_mask_;
  Vocabulary vocabulary_;
  double probability_, label_smoothing_;
};

const RegisterTask masked_lm("masked_lm", {.options = MaskedLmOptions{},
                                           .make =
                                               [](const Options& options, const Model& model) {
                                                 return std::make_unique<MaskedLm>(options.as<MaskedLmOptions>(),
                                                                                   model);
                                               },
                                           .head = "masked_lm",
                                           .problem = "masked_lm"});

}  // namespace
}  // namespace lacuna
