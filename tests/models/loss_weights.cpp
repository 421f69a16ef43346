// The loss weighs what it is a mean of: steps and evaluations do not depend on how samples are cut into parts.
#include "autograd/policies/adaptive.h"
#include "autograd/policy.h"
#include "core/parallel.h"
#include "data/pipeline.h"
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
};

/// Sentences of 20 and of 2 tokens; the latter are special, so that they have no label of tokens.
DatasetPtr uneven_texts(const WeighedCase& c, Split split) {
  const DatasetPtr texts = open_dataset("random_tokens", {.split = split,
                                                          .train_size = 8,
                                                          .validation_size = 7,
                                                          .lengths = {20, 2, 5, 2, 2, 2, 3, 2},
                                                          .vocabulary = 120,
                                                          .classes = 3,
                                                          .settings = {{"target", c.target}}});
  return with_draws(texts, 1);
}

struct WeighedRun {
  std::unique_ptr<Model> model;
  std::unique_ptr<Task> task;
  std::unique_ptr<Optimizer> optimizer;
  std::unique_ptr<MemoryPolicy> policy;
  std::unique_ptr<Trainer> trainer;

  explicit WeighedRun(const WeighedCase& c, Communicator& ranks = single_process(), std::string_view memory = "exact") {
    model = build_model("bert",
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
