// The loss weighs what it is a mean of: steps and evaluations do not depend on how samples are cut into parts.
#include "autograd/policies/adaptive.h"
#include "autograd/policy.h"
#include "core/parallel.h"
#include "data/pipeline.h"
#include "data/text/language/language_dataset.h"
#include "models/adapters.h"
#include "models/registry.h"
#include "models/trainer.h"
#include "tests/thread_ranks.h"

#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace lacuna {
namespace {

struct WeighedCase {
  std::string name, task, head;
  std::string target = "class";  // of random_tokens
  OptionValues options{};
  /// Changes a batch that the data set gave; may be null.
  void (*change)(Batch& batch) = nullptr;
  std::vector<std::int64_t> lengths{20, 2, 5, 2, 2, 2, 3, 2};
};

/// No label in the second half of the samples.
void drop_second_half(Batch& batch) {
  const Tensor labels = batch["labels"].clone();
  for (std::int64_t i = labels.count() / 2; i < labels.count(); ++i) labels.data<std::int64_t>()[i] = -100;
  batch.set("labels", labels);
}

const std::vector<WeighedCase> weighed_cases{
    {"labelled tokens", "token_classification", "tokens", "tokens"},
    {"smoothed labels of tokens", "token_classification", "tokens", "tokens", {{"label_smoothing", 0.2}}},
    {"hidden tokens", "masked_lm", "masked_lm"},
    {"spans, half of which lie outside", "question_answering", "span", "span", {}, drop_second_half},
    {"weights of classes", "classification", "classification", "class", {{"class_weights", std::string("1, 7, 0.2")}}},
    {"pairs", "sentence_similarity", "embedding", "number"},
    {"next tokens", "causal_lm", "", "text"},
    {"next tokens, of half the texts", "causal_lm", "", "text", {{"label_smoothing", 0.1}}, drop_second_half},
    {"answers", "preference", "", "text", {}, nullptr, {20, 4, 5, 7, 4, 4, 6, 12}},
};

/// Each text as two sequences, its halves.
class Halves final : public Dataset {
 public:
  explicit Halves(DatasetPtr texts) : Dataset(described(texts->info())), texts_(std::move(texts)) {}
  std::int64_t length(std::int64_t index) const override { return texts_->length(index); }

 private:
  static DatasetInfo described(DatasetInfo info) {
    info.fields.push_back(sequence_lengths_field());
    return info;
  }
  void read_sample(std::int64_t index, Sample& sample) const override {
    texts_->read(index, sample);
    const std::int64_t all = sample["tokens"].count();
    Tensor lengths = sample.make("sequence_lengths", {2}, DType::i64);
    lengths.data<std::int64_t>()[0] = all / 2;
    lengths.data<std::int64_t>()[1] = all - all / 2;
    sample.set("sequence_lengths", std::move(lengths));
  }

  DatasetPtr texts_;
};

/// Sentences of 20 and of 2 tokens; the latter are special, so that they have no label of tokens. Those of `preference`
/// are pairs.
DatasetPtr uneven_texts(const WeighedCase& c, Split split) {
  const DatasetPtr texts = open_dataset("random_tokens", {.split = split,
                                                          .train_size = 8,
                                                          .validation_size = 7,
                                                          .lengths = c.lengths,
                                                          .vocabulary = 120,
                                                          .classes = 3,
                                                          .settings = {{"target", c.target}}});
  return with_draws(c.task == "preference" ? std::make_shared<const Halves>(texts) : texts, 1);
}

std::unique_ptr<Model> bert(const WeighedCase& c) {
  return build_model("bert",
                     {{"vocab_size", std::int64_t{120}},
                      {"hidden_size", std::int64_t{16}},
                      {"num_hidden_layers", std::int64_t{1}},
                      {"num_attention_heads", std::int64_t{2}},
                      {"intermediate_size", std::int64_t{24}},
                      {"max_position_embeddings", std::int64_t{24}},
                      {"num_classes", std::int64_t{c.target == "number"    ? 1
                                                   : c.head == "masked_lm" ? 120
                                                                           : 3}},
                      {"hidden_dropout_prob", 0.0},
                      {"attention_probs_dropout_prob", 0.0},
                      {"head", c.head}},
                     {.seed = 3});
}

/// With LoRA whose values are not those that leave the model as it was.
std::unique_ptr<Model> adapted_decoder() {
  std::unique_ptr<Model> model = build_model("decoder",
                                             {{"vocab_size", std::int64_t{120}},
                                              {"hidden_size", std::int64_t{16}},
                                              {"num_hidden_layers", std::int64_t{1}},
                                              {"num_attention_heads", std::int64_t{4}},
                                              {"num_key_value_heads", std::int64_t{2}},
                                              {"intermediate_size", std::int64_t{24}},
                                              {"max_position_embeddings", std::int64_t{24}},
                                              {"initializer_range", 0.3}},
                                             {.seed = 3});
  add_adapters(*model, {.kind = "lora", .settings = {{"rank", 2.0}}, .targets = {"all-linear"}});
  freeze_below_adapters(*model, {});
  for (const Parameter* const parameter : model->parameters()) {
    if (!parameter->trainable()) continue;
    const RandomStream stream{.seed = 3, .site = random_site(parameter->path())};
    for (std::int64_t i = 0; i < parameter->tensor().count(); ++i)
      parameter->tensor().data<float>()[i] = 0.4F * (stream.uniform(static_cast<std::uint64_t>(i)) - 0.5F);
  }
  return model;
}

struct WeighedRun {
  std::unique_ptr<Model> model;
  std::unique_ptr<Task> task;
  std::unique_ptr<Optimizer> optimizer;
  std::unique_ptr<MemoryPolicy> policy;
  std::unique_ptr<Trainer> trainer;

  explicit WeighedRun(const WeighedCase& c, Communicator& ranks = single_process(), std::string_view memory = "exact") {
    model = c.head.empty() ? adapted_decoder() : bert(c);
    task = make_task(c.task, c.options, *model);
    task->see(uneven_texts(c, Split::train)->info());
    optimizer = make_optimizer("sgd", {}, *model);
    policy = make_policy(memory);
    trainer = std::make_unique<Trainer>(
        TrainedState{.model = *model, .optimizer = *optimizer, .policy = *policy, .average = nullptr, .ranks = ranks},
        *task);
  }

  /// Loss, norm and all weights after a step on the samples of this rank in `parts`.
  std::vector<double> step(const WeighedCase& c, std::int64_t parts, std::int64_t rank = 0, std::int64_t ranks = 1) {
    const DatasetPtr data = uneven_texts(c, Split::train);
    const Batches batches(data, {.size = data->size()});
    Sample sample;
    Batch batch = batches.read(0, 0, batches.allocate(), sample);
    if (c.change != nullptr) c.change(batch);
    const std::int64_t own = batch.samples / ranks;
    const StepResult result = trainer->step(split_batch(batch.part(rank * own, (rank + 1) * own), parts), 0, 0.5);
    CHECK(result.totals.loss() == doctest::Approx(result.loss).epsilon(1e-6));
    std::vector<double> all{result.loss, result.gradient_norm};
    for (const Parameter* const parameter : model->parameters())
      for (const double value : parameter->tensor().to_vector()) all.push_back(value);
    return all;
  }
};

double furthest(const std::vector<double>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i) most = std::max(most, std::abs(a[i] - b[i]));
  return most;
}

}  // namespace

TEST_CASE("loss: a step in parts is that of the whole batch, whatever each part has to learn from") {
  for (const WeighedCase& c : weighed_cases) {
    CAPTURE(c.name);
    const std::vector<double> whole = WeighedRun(c).step(c, 1);
    CHECK(whole[0] > 0);
    for (const std::int64_t parts : {2, 8}) CHECK(furthest(WeighedRun(c).step(c, parts), whole) < 2e-5);
  }
}

TEST_CASE("loss: ranks with unequal numbers of labels have the bits of one process") {
  const ThreadCountScope one(1);
  for (const WeighedCase& c : weighed_cases) {
    CAPTURE(c.name);
    const std::vector<double> expected = WeighedRun(c).step(c, 2);
    test::run_ranks(2,
                    [&](Communicator& ranks) { CHECK(WeighedRun(c, ranks).step(c, 1, ranks.rank(), 2) == expected); });
  }
}

TEST_CASE("loss: an evaluation does not depend on the batch size, nor on the ranks") {
  for (const WeighedCase& c : weighed_cases) {
    CAPTURE(c.name);
    const WeighedRun run(c);
    const DatasetPtr data = uneven_texts(c, Split::validation);
    const auto evaluated = [&](std::int64_t size, Communicator& ranks) {
      return *evaluate(*run.model, *run.task, {data, {.size = size, .rank = ranks.rank(), .ranks = ranks.size()}}, 1,
                       {}, ranks);
    };
    const Evaluation whole = evaluated(7, single_process());
    const auto check = [&](const Evaluation& parts) {
      CHECK(parts.loss == doctest::Approx(whole.loss).epsilon(1e-6));
      for (const auto& [name, value] : whole.metrics) CHECK(parts.metrics.at(name) == doctest::Approx(value));
    };
    for (const std::int64_t size : {1, 2, 3}) check(evaluated(size, single_process()));
    test::run_ranks(2, [&](Communicator& ranks) {
      const WeighedRun own(c, ranks);
      check(*evaluate(*own.model, *own.task, {data, {.size = 2, .rank = ranks.rank(), .ranks = 2}}, 1, {}, ranks));
    });
  }
}

TEST_CASE("loss: a batch without a label changes nothing; to evaluate on such samples alone is refused") {
  const WeighedCase c{
      "no labels", "token_classification", "tokens", "tokens", {}, [](Batch& batch) {
                        batch["labels"].fill(-100); }};
  WeighedRun run(c);
  const std::vector<double> after = run.step(c, 2), before = WeighedRun(c).step(c, 1);
  CHECK(after[0] == 0);
  CHECK(after[1] == 0);
  CHECK(after == before);
  const DatasetPtr data = open_dataset("random_tokens", {.split = Split::validation,
                                                         .validation_size = 3,
                                                         .lengths = {2},
                                                         .vocabulary = 120,
                                                         .classes = 3,
                                                         .settings = {{"target", c.target}}});
  CHECK_THROWS_WITH_AS(evaluate(*run.model, *run.task, {data, {.size = 2}}), doctest::Contains("has a label"), Error);
}

TEST_CASE("loss: a step behind one that threw begins with no gradient") {
  WeighedCase c{"classes", "classification", "classification"};
  const std::vector<double> expected = WeighedRun(c).step(c, 2);
  WeighedRun run(c);
  WeighedCase wrong = c;
  wrong.change = [](Batch& batch) { batch["labels"].data<std::int64_t>()[7] = 40; };  // of the second part
  CHECK_THROWS_AS(run.step(wrong, 2), Error);
  CHECK(run.step(c, 2) == expected);
}

TEST_CASE("loss: an adaptive policy calibrates on samples that have labels") {
  for (const bool has_none : {false, true}) {
    WeighedCase c = weighed_cases.front();
    c.change = has_none ? [](Batch& batch) { batch["labels"].fill(-100); } : +[](Batch& batch) {
      const std::int64_t words = 20;  // of the first sample
      const Tensor labels = batch["labels"];
      for (std::int64_t i = 0; i < words; ++i) labels.data<std::int64_t>()[i] = -100;
    };
    WeighedRun run(c, single_process(), "adaptive");
    CHECK(std::isfinite(run.step(c, 1)[0]));
    CHECK(adaptive_of(*run.policy)->calibration_due() == has_none);
  }
}

}  // namespace lacuna
