// The task preference against its formula, written out in f64 from log-probabilities.
#include "autograd/policy.h"
#include "autograd/tape.h"
#include "models/adapters.h"
#include "models/language_model.h"
#include "models/registry.h"
#include "models/task.h"

#include <doctest/doctest.h>

#include <cmath>

using namespace lacuna;

namespace {

const std::vector<HyperParameter> sizes{{"vocab_size", std::int64_t{23}},
                                        {"hidden_size", std::int64_t{16}},
                                        {"intermediate_size", std::int64_t{24}},
                                        {"num_hidden_layers", std::int64_t{2}},
                                        {"num_attention_heads", std::int64_t{2}},
                                        {"max_position_embeddings", std::int64_t{32}},
                                        {"initializer_range", 0.3}};

std::unique_ptr<Model> adapted_decoder() {
  std::unique_ptr<Model> model = build_model("decoder", sizes, {});
  add_adapters(*model, {.kind = "lora", .settings = {{"rank", 2.0}}, .targets = {"all-linear"}});
  freeze_below_adapters(*model, {});
  for (const nn::Adaptable* const layer : adapted_layers(*model))
    for (const Parameter* const parameter : layer->adapter()->parameters()) {
      const RandomStream stream{.seed = 3, .site = random_site(parameter->path())};
      for (std::int64_t i = 0; i < parameter->tensor().count(); ++i)
        parameter->tensor().data<float>()[i] = 0.4F * (stream.uniform(static_cast<std::uint64_t>(i)) - 0.5F);
    }
  return model;
}

const std::vector<std::int64_t> tokens{3, 1, 4, 1, 5, 3, 1, 9, 2, 7, 7, 8, 7, 7, 1, 2};
const std::vector<std::int64_t> ends{0, 5, 9, 12, 16};  // two pairs
const std::vector<std::int64_t> prompts{2, 2, 1, 1};    // tokens of each that do not count

Batch batch() {
  std::vector<std::int64_t> labels = tokens;
  for (std::size_t n = 0; n < prompts.size(); ++n) std::fill_n(labels.begin() + ends[n], prompts[n], -100);
  const auto tensor = [](const std::vector<std::int64_t>& values) {
    return Tensor::from(std::span<const std::int64_t>(values), {std::ssize(values)});
  };
  Batch made;
  made.samples = 4;
  made.set("tokens", tensor(tokens));
  made.set("labels", tensor(labels));
  made.set("offsets", tensor(ends));
  return made;
}

/// The log-probability of each answer.
std::vector<double> answers(Model& model) {
  const NoGrad no_grad;
  Inputs inputs(batch());
  inputs.take("labels");
  const std::vector<double> logits = logits_of(model.forward(std::move(inputs)), 0).tensor().to_vector();
  constexpr std::int64_t vocabulary = 23;
  std::vector<double> sums;
  for (std::size_t n = 0; n < prompts.size(); ++n) {
    double sum = 0;
    for (std::int64_t row = ends[n] + prompts[n] - 1; row + 1 < ends[n + 1]; ++row) {
      const auto* const own = logits.data() + row * vocabulary;
      double total = 0;
      for (std::int64_t i = 0; i < vocabulary; ++i) total += std::exp(own[i]);
      sum += own[tokens[static_cast<std::size_t>(row + 1)]] - std::log(total);
    }
    sums.push_back(sum);
  }
  return sums;
}

}  // namespace

TEST_CASE("preference: loss and metrics follow from log-probabilities with and without the adapter") {
  const std::unique_ptr<Model> model = adapted_decoder();
  constexpr double beta = 0.7, smoothing = 0.1;
  const std::unique_ptr<Task> task = make_task("preference", {{"beta", beta}, {"label_smoothing", smoothing}}, *model);
  const std::vector<double> own = answers(*model), reference = [&] {
    const nn::WithoutAdapters without;
    return answers(*model);
  }();
  double loss = 0, right = 0, sum = 0;
  for (const std::size_t pair : {0, 2}) {
    const double margin = beta * ((own[pair] - reference[pair]) - (own[pair + 1] - reference[pair + 1]));
    loss += ((1 - smoothing) * std::log1p(std::exp(-margin)) + smoothing * std::log1p(std::exp(margin))) / 2;
    right += margin > 0 ? 1 : 0;
    sum += margin;
  }
  const std::unique_ptr<MemoryPolicy> policy = make_policy("exact");
  Tape tape(*policy);
  const Recording recording(tape);
  const TaskResult result = task->run(*model, batch(), TaskMode::train);
  CHECK(result.loss.tensor().item() == doctest::Approx(loss).epsilon(1e-5));
  CHECK(result.sums[0].to_vector() == std::vector<double>{right, 2});
  CHECK(result.sums[1].to_vector()[0] == doctest::Approx(sum).epsilon(1e-4));
  CHECK(task->weight(batch(), TaskMode::train) == 2);

  // The gradient of one adapter's value against a difference of losses.
  tape.backward(result.loss);
  const Parameter* const parameter = adapted_layers(*model).front()->adapter()->parameters().front();
  float& value = parameter->tensor().data<float>()[1];
  const double gradient = parameter->grad().to_vector()[1];
  const float before = value, step = 1e-2F;
  const auto loss_at = [&](float at) {
    value = at;
    const NoGrad no_grad;
    return task->run(*model, batch(), TaskMode::train).loss.tensor().to_vector().front();
  };
  const double slope = (loss_at(before + step) - loss_at(before - step)) / (2 * step);
  CHECK(gradient == doctest::Approx(slope).epsilon(2e-2));
}

TEST_CASE("preference: texts and pairs each have their task") {
  const std::unique_ptr<Model> model = adapted_decoder();
  SampleField lengths{.name = "sequence_lengths", .shape = {2}};
  const auto with = [&](const SampleField& field) { return DatasetInfo{.name = "language", .fields = {field}}; };
  const auto task = [&](const char* name) { return make_task(name, {}, *model); };
  task("preference")->see(with(lengths));
  CHECK_THROWS_AS(task("causal_lm")->see(with(lengths)), Error);
  lengths.shape = {1};  // packed
  task("causal_lm")->see(with(lengths));
  CHECK_THROWS_AS(task("preference")->see(with(lengths)), Error);
}

TEST_CASE("preference: a trained parameter of the base is refused by its name, in training alone") {
  const std::unique_ptr<Model> model = adapted_decoder();
  freeze_below_adapters(*model, {.train = {"model.norm*"}, .freeze = {}});
  const std::unique_ptr<Task> task = make_task("preference", {}, *model);
  CHECK_THROWS_WITH_AS(task->run(*model, batch(), TaskMode::train), doctest::Contains("model.norm.weight"), Error);
  const NoGrad no_grad;
  CHECK(task->run(*model, batch(), TaskMode::evaluate).loss.defined());
}

TEST_CASE("preference: a model without adapters, and sequences that are no pairs, are refused") {
  const std::unique_ptr<Model> plain = build_model("decoder", sizes, {});
  CHECK_THROWS_WITH_AS(make_task("preference", {}, *plain)->run(*plain, batch(), TaskMode::train),
                       doctest::Contains("adapters"), Error);
  const std::unique_ptr<Model> model = adapted_decoder();
  const std::unique_ptr<Task> task = make_task("preference", {}, *model);
  Batch odd = batch();
  odd.set("offsets", Tensor::from(std::span<const std::int64_t>(std::vector<std::int64_t>{0, 5, 9, 16}), {4}));
  CHECK_THROWS_WITH_AS(task->run(*model, odd, TaskMode::train), doctest::Contains("pairs"), Error);
}
