// Sentence embeddings from pairs of texts: cosine similarity, and contrast with the other pairs of the batch.
#include "models/prediction.h"
#include "models/task.h"
#include "models/tasks/accuracy.h"
#include "models/tasks/metrics.h"
#include "nn/functional.h"
#include "ops/losses/mean_squared_error.h"
#include "ops/norms/l2_normalize.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace lacuna {
namespace {

/// The second text of each sample, `pair_<name>` with its own offsets, behind the first ones in one batch of 2 N
/// sequences. Packed only.
Inputs joined(Inputs batch, const SampleFields& fields) {
  const auto appended = [](const Tensor& a, const Tensor& b, std::int64_t skip, std::int64_t more) {
    const std::int64_t count = a.count() + b.count() - skip;
    const Tensor both = Tensor::empty({count}, DType::i64, a.device(), Purpose::data);
    if (a.device() == Device::meta) return both;
    std::int64_t* const to = both.data<std::int64_t>();
    std::copy_n(a.data<const std::int64_t>(), a.count(), to);
    std::transform(b.data<const std::int64_t>() + skip, b.data<const std::int64_t>() + b.count(), to + a.count(),
                   [more](std::int64_t value) { return value + more; });
    return both;
  };
  if (!batch.contains("offsets") || !batch.contains("pair_offsets"))
    reject("pairs of texts: expected packed batches with `offsets` and `pair_offsets`");
  Inputs all;
  for (const SampleField& field : fields) {
    if (!batch.contains(field.name)) continue;
    const Variable first = batch.take(field.name), second = batch.take("pair_" + field.name);
    all.set(field.name, Variable(appended(first.tensor(), second.tensor(), 0, 0)));
  }
  const Tensor first = batch.take("offsets").tensor(), second = batch.take("pair_offsets").tensor();
  all.set("offsets", Variable(appended(first, second, 1, first.data<const std::int64_t>()[first.count() - 1])));
  return all;
}

/// A batch in which the second texts lie behind the first ones already.
Batch joined_batch(Batch batch, const SampleFields& fields) {
  const Inputs all = joined(Inputs(batch), fields);
  for (const auto& [name, tensor] : Batch(batch))
    if (name.starts_with("pair_")) batch.take(name);
  for (const auto& [name, variable] : all) batch.set(name, variable.tensor());
  return batch;
}

SampleFields pair_fields(const SampleFields& fields) {
  SampleFields pairs;
  for (SampleField field : fields) {
    field.name = "pair_" + field.name;
    field.lengths = "pair_offsets";
    pairs.push_back(std::move(field));
  }
  return pairs;
}

/// Unit vectors of the first and the second texts, [N, C] each.
std::pair<Variable, Variable> embed(Model& model, Inputs batch) {
  if (batch.contains("pair_offsets")) batch = joined(std::move(batch), model.inputs());
  Variable unit = apply(L2Normalize{}, model.forward(std::move(batch)).take("embeddings"));  // [2 N, C]
  const std::int64_t count = unit.shape()[0] / 2;
  Variable first = slice(unit, 0, 0, count);
  return {std::move(first), slice(std::move(unit), 0, count, 2 * count)};
}

/// The embedding of each text, as the model gives it.
std::vector<Prediction> embedding_predictions(Model& model, Inputs batch) {
  std::vector<Prediction> all;
  for (const std::vector<double>& row : rows_of(model.forward(std::move(batch)).take("embeddings").tensor()))
    all.push_back({.values = {{"embedding", row}}});
  return all;
}

struct SimilarityOptions {
  std::string metrics;

  static Fields fields() {
    return {
        field("metrics", &SimilarityOptions::metrics,
              "mse, pearson or spearman of the cosines, several with commas; empty: those of the data set, or mse")};
  }
};

/// Mean squared error of the cosine of a pair's embeddings with its label, as sentence-transformers'
/// CosineSimilarityLoss; labels f32 [N].
class SentenceSimilarity final : public Task {
 public:
  SentenceSimilarity(const SimilarityOptions& options, const Model& model)
      : Task(number_metrics(options.metrics)), inputs_(model.inputs()) {}

  SampleFields targets() const override {
    SampleFields fields = pair_fields(inputs_);
    fields.push_back({.name = "labels", .dtype = DType::f32, .shape = {}});
    return fields;
  }

  Batch prepared(Batch batch) const override { return joined_batch(std::move(batch), inputs_); }
  bool is_read_by_kernels(std::string_view field) const override {
    return field == "labels" || is_copied_by_models(field);
  }

  TaskResult run(Model& model, Inputs batch, TaskMode) const override {
    Variable labels = batch.take("labels", model.context().device);
    auto [first, second] = embed(model, std::move(batch));
    const std::int64_t count = first.shape()[0], width = first.shape()[1];
    Variable cosine = matmul(first.reshape({count, 1, width}), second.reshape({count, 1, width}), true);
    cosine = cosine.reshape({count});
    TaskResult result;
    count_on_host(
        cosine.device(),
        [this, found = cosine.tensor(), wanted = labels.tensor()] { return number_sums(metrics(), found, wanted); },
        result);
    result.loss = apply(MeanSquaredError{}, std::move(cosine), std::move(labels));
    return result;
  }

  std::vector<Prediction> predict(Model& model, Inputs batch) const override {
    return embedding_predictions(model, std::move(batch));
  }

 private:
  SampleFields inputs_;
};

struct ContrastiveOptions {
  double scale = 20;

  static Fields fields() {
    return {field("scale", &ContrastiveOptions::scale, NumberRange{.low = 1e-3, .high = 1e6},
                  "factor of the cosines: 1 / temperature")};
  }
};

/// The second text of a pair is to be told from those of the others: cross entropy of scale · cosine [N, N] with the
/// pair's own number (Henderson et al. 2017; sentence-transformers' MultipleNegativesRankingLoss).
class Contrastive final : public Task {
 public:
  Contrastive(const ContrastiveOptions& options, const Model& model)
      : Task({{.name = "accuracy", .sums = 2, .value = ratio_of_sums}}),
        inputs_(model.inputs()),
        scale_(options.scale) {}

  SampleFields targets() const override { return pair_fields(inputs_); }

  Batch prepared(Batch batch) const override { return joined_batch(std::move(batch), inputs_); }
  bool is_read_by_kernels(std::string_view field) const override { return is_copied_by_models(field); }

  TaskResult run(Model& model, Inputs batch, TaskMode) const override {
    auto [first, second] = embed(model, std::move(batch));
    const std::int64_t count = first.shape()[0];
    Variable scores = scale_ * matmul(std::move(first), std::move(second), true);  // [N, N]
    Variable labels = own_numbers(count, scores.tensor().device());
    TaskResult result;
    result.sums = accuracy_sums(scores.tensor(), labels.tensor(), 1);
    result.loss = cross_entropy(std::move(scores), std::move(labels));
    return result;
  }

  std::vector<Prediction> predict(Model& model, Inputs batch) const override {
    return embedding_predictions(model, std::move(batch));
  }

 private:
  static Variable own_numbers(std::int64_t count, Device device) {
    if (device == Device::meta) return Variable(Tensor::empty({count}, DType::i64, device));
    std::vector<std::int64_t> numbers(static_cast<std::size_t>(count));
    std::iota(numbers.begin(), numbers.end(), 0);
    return Variable(Tensor::from(std::span<const std::int64_t>(numbers), {count}, device));
  }

  SampleFields inputs_;
  double scale_;
};

const RegisterTask similarity("sentence_similarity", {.options = SimilarityOptions{},
                                                      .make =
                                                          [](const Options& options, const Model& model) {
                                                            return std::make_unique<SentenceSimilarity>(
                                                                options.as<SimilarityOptions>(), model);
                                                          },
                                                      .head = "embedding",
                                                      .problem = "embedding",
                                                      .learns_numbers = true});
const RegisterTask contrastive("contrastive", {.options = ContrastiveOptions{},
                                               .make =
                                                   [](const Options& options, const Model& model) {
                                                     return std::make_unique<Contrastive>(
                                                         options.as<ContrastiveOptions>(), model);
                                                   },
                                               .head = "embedding"});

}  // namespace
}  // namespace lacuna
