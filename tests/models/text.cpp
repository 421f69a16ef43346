// Models of text: packed and padded batches, heads, tasks.
#include "models/tasks/text.h"
#include "autograd/tape.h"
#include "core/error.h"
#include "core/ledger.h"
#include "data/vocabulary.h"
#include "models/adapters.h"
#include "models/registry.h"
#include "models/task.h"

#include "tests/refusal.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

using namespace lacuna;

namespace {

using Numbers = std::vector<std::int64_t>;

const Numbers lengths{7, 2, 11, 4};
constexpr std::int64_t longest = 11;
const Vocabulary vocabulary{.size = 120, .mask = 119, .special = {1, 2, 119}};

std::vector<HyperParameter> tiny(std::vector<HyperParameter> more = {}) {
  std::vector<HyperParameter> all{
      {"vocab_size", std::int64_t{120}},       {"hidden_size", std::int64_t{24}},
      {"num_hidden_layers", std::int64_t{3}},  {"num_attention_heads", std::int64_t{3}},
      {"intermediate_size", std::int64_t{40}}, {"max_position_embeddings", std::int64_t{16}},
      {"num_classes", std::int64_t{3}}};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

/// Layers without and with a window of two tokens on each side.
std::vector<HyperParameter> modern(const std::vector<HyperParameter>& more = {}) {
  std::vector<HyperParameter> all = tiny({{"pad_token_id", std::int64_t{0}}, {"local_attention", std::int64_t{4}}});
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

Tensor tensor(const Numbers& values, const Shape& shape) {
  return Tensor::from(std::span<const std::int64_t>(values), shape);
}

std::int64_t id_of(std::int64_t sequence, std::int64_t place) {
  if (place == 0) return 1;
  if (place == lengths[static_cast<std::size_t>(sequence)] - 1) return 2;
  return 3 + (sequence * 31 + place * place * 7) % 117;
}

Batch packed() {
  Numbers tokens, types, offsets{0};
  for (std::int64_t n = 0; n < std::ssize(lengths); ++n) {
    for (std::int64_t i = 0; i < lengths[static_cast<std::size_t>(n)]; ++i) {
      tokens.push_back(id_of(n, i));
      types.push_back(i > 2 ? 1 : 0);
    }
    offsets.push_back(std::ssize(tokens));
  }
  Batch batch;
  batch.samples = std::ssize(lengths);
  batch.set_packed("tokens", tensor(tokens, {std::ssize(tokens)}));
  batch.set_packed("token_types", tensor(types, {std::ssize(types)}));
  batch.set("offsets", tensor(offsets, {std::ssize(offsets)}));
  return batch;
}

Batch padded(std::int64_t padding) {
  Numbers tokens, types;
  for (std::int64_t n = 0; n < std::ssize(lengths); ++n)
    for (std::int64_t i = 0; i < longest; ++i) {
      const bool is_token = i < lengths[static_cast<std::size_t>(n)];
      tokens.push_back(is_token ? id_of(n, i) : padding);
      types.push_back(is_token && i > 2 ? 1 : 0);
    }
  Batch batch;
  batch.samples = std::ssize(lengths);
  batch.set("tokens", tensor(tokens, {std::ssize(lengths), longest}));
  batch.set("token_types", tensor(types, {std::ssize(lengths), longest}));
  batch.set("key_lengths", tensor(lengths, {std::ssize(lengths)}));
  return batch;
}

struct Result {
  double loss = 0;
  std::map<std::string, std::vector<double>> gradients;
  std::int64_t saved = 0;
};

Result step(Model& model, const Task& task, Batch batch, std::string_view policy = "exact",
            const OptionValues& settings = {}) {
  const std::unique_ptr<MemoryPolicy> how = make_policy(policy, settings);
  const RandomStateScope random({.seed = 5, .step = 3});
  Tape tape(*how);
  const Variable loss = [&] {
    const Recording recording(tape);
    return task.run(model, std::move(batch), TaskMode::train).loss;
  }();
  Result result{.loss = loss.tensor().item(), .gradients = {}};
  tape.backward(loss);
  result.saved = tape.saved_bytes();
  for (Parameter* parameter : model.parameters()) {
    if (!parameter->trainable()) continue;
    if (parameter->grad().defined()) result.gradients[parameter->path()] = parameter->grad().to_vector();
    parameter->set_grad({});
  }
  return result;
}

double largest_difference(const Result& a, const Result& b) {
  double most = std::abs(a.loss - b.loss);
  CHECK(a.gradients.size() == b.gradients.size());
  for (const auto& [name, values] : a.gradients) {
    double scale = 1e-3;
    for (const double value : values) scale = std::max(scale, std::abs(value));
    const std::vector<double>& others = b.gradients.at(name);
    for (std::size_t i = 0; i < values.size(); ++i) most = std::max(most, std::abs(values[i] - others[i]) / scale);
  }
  return most;
}

Batch with_labels(Batch batch, Tensor labels) {
  batch.set("labels", std::move(labels));
  return batch;
}

/// With the numbers that a sample's masks are drawn from.
Batch with_draws_of(Batch batch, const Numbers& draws) {
  batch.set("draw", tensor(draws, {std::ssize(draws)}));
  return batch;
}

}  // namespace

TEST_CASE("text: a step on padded batches is one on packed batches, with dropout, whatever the padding holds") {
  for (const std::string family : {"bert", "distilbert", "roberta", "modernbert"}) {
    std::vector<HyperParameter> parameters = tiny();
    if (family == "distilbert")
      parameters = {{"vocab_size", std::int64_t{120}},
                    {"dim", std::int64_t{24}},
                    {"n_layers", std::int64_t{3}},
                    {"n_heads", std::int64_t{3}},
                    {"hidden_dim", std::int64_t{40}},
                    {"num_classes", std::int64_t{3}},
                    {"max_position_embeddings", std::int64_t{16}}};
    if (family == "roberta") parameters.push_back({"type_vocab_size", std::int64_t{2}});
    if (family == "modernbert")
      parameters = modern({{"attention_dropout", 0.2}, {"embedding_dropout", 0.2}, {"mlp_dropout", 0.2}});
    const std::unique_ptr<Model> model = build_model(family, parameters, {.seed = 3});
    const std::unique_ptr<Task> task = make_task("classification", {}, *model);
    const Tensor labels = tensor({0, 2, 1, 0}, {4});
    const Result expected = step(*model, *task, with_labels(packed(), labels));
    CHECK(largest_difference(step(*model, *task, with_labels(padded(0), labels)), expected) < 2e-5);
    CHECK(largest_difference(step(*model, *task, with_labels(padded(77), labels)), expected) < 2e-5);
    // A part of the batch draws the masks of its own samples: the loss is the mean of the parts'.
    double parts = 0;
    for (std::int64_t i = 0; i < 4; ++i) {
      const RandomStateScope random({.seed = 5, .step = 3, .first_sample = static_cast<std::uint32_t>(i)});
      Batch one = with_labels(packed(), labels).part(i, i + 1);
      parts += task->run(*model, std::move(one), TaskMode::train).loss.tensor().item() / 4;
    }
    CHECK(parts == doctest::Approx(expected.loss).epsilon(1e-5));
  }
}

TEST_CASE("text: an adapter's dropout draws the same masks for packed and padded batches") {
  const std::unique_ptr<Model> model = build_model("bert", tiny(), {.seed = 3});
  add_adapters(*model, {.kind = "lora", .settings = {{"rank", 3.0}, {"dropout", 0.4}}, .targets = {"all-linear"}});
  freeze_below_adapters(*model, {});
  const RandomStream draws{3, 0, 0};
  std::uint64_t number = 0;
  for (const nn::Adaptable* const layer : adapted_layers(*model))
    for (const Parameter* const parameter : layer->adapter()->parameters())
      for (std::int64_t i = 0; i < parameter->tensor().count(); ++i)
        parameter->tensor().data<float>()[i] = draws.uniform(number++) - 0.5F;
  const std::unique_ptr<Task> task = make_task("classification", {}, *model);
  const Tensor labels = tensor({0, 2, 1, 0}, {4});
  const Result expected = step(*model, *task, with_labels(packed(), labels));
  CHECK(largest_difference(step(*model, *task, with_labels(padded(0), labels)), expected) < 2e-5);
  double parts = 0;
  for (std::int64_t i = 0; i < 4; ++i) {
    const RandomStateScope random({.seed = 5, .step = 3, .first_sample = static_cast<std::uint32_t>(i)});
    Batch one = with_labels(packed(), labels).part(i, i + 1);
    parts += task->run(*model, std::move(one), TaskMode::train).loss.tensor().item() / 4;
  }
  CHECK(parts == doctest::Approx(expected.loss).epsilon(1e-5));
}

TEST_CASE("text: lossless policies and recomputed layers equal keep, to the bit; others save less") {
  const std::unique_ptr<Model> model = build_model("bert", tiny(), {.seed = 3});
  const std::unique_ptr<Task> task = make_task("classification", {}, *model);
  const Tensor labels = tensor({0, 2, 1, 0}, {4});
  const auto run = [&](std::string_view policy, const OptionValues& settings = {}) {
    return step(*model, *task, with_labels(packed(), labels), policy, settings);
  };
  const Result keep = run("keep"), exact = run("exact");
  CHECK(keep.gradients == exact.gradients);
  CHECK(exact.saved < keep.saved);
  CHECK(std::isfinite(run("mesa").loss));
}

TEST_CASE("text: the row of [PAD] gets no gradient, and other rows those of their tokens") {
  const std::unique_ptr<Model> model = build_model("bert", tiny({{"pad_token_id", std::int64_t{5}}}), {.seed = 3});
  const std::unique_ptr<Task> task = make_task("classification", {}, *model);
  Batch batch = with_labels(packed(), tensor({0, 2, 1, 0}, {4}));
  batch["tokens"].data<std::int64_t>()[3] = 5;
  const Result result = step(*model, *task, std::move(batch));
  const std::vector<double>& gradient = result.gradients.at("bert.embeddings.word_embeddings.weight");
  const auto row = [&](std::int64_t id) {
    double sum = 0;
    for (std::int64_t j = 0; j < 24; ++j) sum += std::abs(gradient[static_cast<std::size_t>(id * 24 + j)]);
    return sum;
  };
  CHECK(row(5) == 0);
  CHECK(row(1) > 0);
}

TEST_CASE("text: every head trains with its task") {
  const std::int64_t tokens = packed()["tokens"].count();
  std::string family = "bert";
  const auto loss_of = [&](const std::string& task_name, const std::string& head, Batch batch) {
    INFO(family, " ", task_name);
    const std::unique_ptr<Model> model =
        build_model(family, family == "bert" ? tiny({{"head", head}}) : modern({{"head", head}}), {.seed = 3});
    const std::unique_ptr<Task> task = make_task(task_name, {}, *model);
    task->see({.name = {}, .vocabulary = vocabulary});
    const TaskResult evaluated = task->run(*model, batch, TaskMode::evaluate);
    CHECK(evaluated.sums.size() == task->metrics().size());
    for (std::size_t i = 0; i < evaluated.sums.size(); ++i)
      CHECK(std::isfinite(task->metrics()[i].value(evaluated.sums[i].to_vector())));
    const Result result = step(*model, *task, std::move(batch));
    CHECK(result.gradients.size() == model->parameters().size());
    return result.loss;
  };
  for (const char* const name : {"bert", "modernbert"}) {
    family = name;
    Numbers of_tokens(static_cast<std::size_t>(tokens), no_label);
    for (std::size_t i = 0; i < of_tokens.size(); i += 2) of_tokens[i] = static_cast<std::int64_t>(i % 3);
    CHECK(loss_of("token_classification", "tokens", with_labels(packed(), tensor(of_tokens, {tokens}))) ==
          doctest::Approx(std::log(3)).epsilon(0.2));
    CHECK(loss_of("question_answering", "span", with_labels(packed(), tensor({1, 2, 0, 1, 3, 9, 2, 40}, {4, 2}))) > 0);
    CHECK(loss_of("masked_lm", "masked_lm", with_draws_of(packed(), {1, 2, 3, 4})) ==
          doctest::Approx(std::log(120)).epsilon(0.1));
    const std::vector<float> many{1, 0, 1, 0, 0, 0, 1, 1, 1, 0, 1, 0};
    CHECK(loss_of("multi_label", "classification",
                  with_labels(packed(), Tensor::from(std::span<const float>(many), {4, 3}))) ==
          doctest::Approx(std::log(2)).epsilon(0.2));
    Batch pairs = packed();
    pairs.set_packed("pair_tokens", packed()["tokens"], "pair_offsets");
    pairs.set_packed("pair_token_types", packed()["token_types"], "pair_offsets");
    pairs.set("pair_offsets", packed()["offsets"]);
    CHECK(loss_of("contrastive", "embedding", pairs) > 0);
    const std::vector<float> similar{1, 0.5F, 0, 1};
    CHECK(loss_of("sentence_similarity", "embedding",
                  with_labels(pairs, Tensor::from(std::span<const float>(similar), {4}))) > 0);
  }
}

TEST_CASE("text: masked tokens are a function of the sample's number and the place in it") {
  const std::unique_ptr<Model> model = build_model(
      "bert", tiny({{"head", "masked_lm"}, {"hidden_dropout_prob", 0.0}, {"attention_probs_dropout_prob", 0.0}}),
      {.seed = 3});
  const std::unique_ptr<Task> task = make_task("masked_lm", {{"probability", 0.9}}, *model);
  task->see({.name = {}, .vocabulary = vocabulary});
  const Numbers draws{81, 7, 2147483647, 40};
  const Batch batch = with_draws_of(packed(), draws);
  const std::vector<double> before = batch["tokens"].to_vector();
  const Result expected = step(*model, *task, batch);
  CHECK(batch["tokens"].to_vector() == before);  // the batch is the loader's
  CHECK(largest_difference(step(*model, *task, with_draws_of(padded(0), draws)), expected) < 2e-5);
  CHECK(step(*model, *task, with_draws_of(packed(), {82, 7, 2147483647, 40})).loss != expected.loss);
  // The same masks in another step, at another place of another batch: losses and labels add up.
  double sum = 0, labels = 0;
  for (const std::int64_t i : {0, 2, 3}) {  // the other one has special tokens alone
    const RandomStateScope random({.seed = 6, .step = static_cast<std::uint32_t>(i)});
    const std::vector<double> sums = task->run(*model, batch.part(i, i + 1), TaskMode::train).sums.front().to_vector();
    sum += sums[0];
    labels += sums[1];
  }
  CHECK(sum / labels == doctest::Approx(expected.loss).epsilon(1e-5));
  CHECK_THROWS_AS(step(*model, *task, packed()), Error);
}

TEST_CASE("text: answers are judged by question: the best window, or none where its score is higher") {
  const std::unique_ptr<Model> model = build_model("bert", tiny({{"head", "span"}}), {.seed = 3});
  const std::unique_ptr<Task> task = make_task("question_answering", {}, *model);
  const auto value = [&](std::vector<double> kept) {
    CHECK(task->metrics()[0].value(kept) == task->metrics()[1].value(kept));
    return task->metrics()[0].value(kept);
  };
  CHECK(value({7, 1, 0.25, 7, 3, 0.5, 7, 2, 1}) == 0.5);            // three windows of a question
  CHECK(value({7, 3, 0.5, -9, 2, 1, 8, 3, 0, -10, 4, 1}) == 0.75);  // of the second none is said
  CHECK(value({7, 3, 0.5, -9, 9, 1, 7, 1, 0, -9, 2, 1}) == 0.5);    // the lowest score of none counts
  CHECK(value({-1, 6, 0.5, -1, 2, 1}) == 0.625);                    // training: means of batches

  Batch batch = with_labels(packed(), tensor({0, 0, 0, 0, 0, 0, 0, 0}, {4, 2}));
  const std::int64_t tokens = batch["tokens"].count();
  Numbers spans(static_cast<std::size_t>(2 * tokens), -1);
  spans[2 * 2] = 0;  // the third token of the first sequence is the first two bytes of the passage
  spans[2 * 2 + 1] = 2;
  const auto bytes = [](const std::string& all) {
    const Tensor tensor = Tensor::empty({std::ssize(all)}, DType::u8, Device::cpu);
    std::ranges::copy(all, reinterpret_cast<char*>(tensor.data<std::uint8_t>()));
    return tensor;
  };
  batch.set_packed("spans", tensor(spans, {tokens, 2}));
  batch.set("question", tensor({5, 0, 5, 0, 6, 0, 7, 0}, {4, 2}));
  batch.set_packed("passage", bytes("ab.\xff\xff\xff\xff"), "passage_offsets");
  batch.set("passage_offsets", tensor({0, 4, 5, 6, 7}, {5}));
  batch.set_packed("answers",
                   bytes("x\xff"
                         "Ab!\xffy\xffz\xff\xff"),
                   "answers_offsets");
  batch.set("answers_offsets", tensor({0, 6, 8, 10, 11}, {5}));
  const TaskResult result = task->run(*model, batch, TaskMode::evaluate);
  // Question 5 is answered rightly, 6 not at all, and of 7 no answer is wanted.
  CHECK(task->metrics()[1].value(result.sums[1].to_vector()) == doctest::Approx(2.0 / 3));
  CHECK(std::isfinite(result.loss.tensor().item()));
}

TEST_CASE("text: batches that do not fit are refused as input") {
  const std::unique_ptr<Model> model = build_model("bert", tiny(), {.seed = 3});
  const auto refuses = [&](const Batch& batch, std::string_view word) {
    try {
      model->forward(batch);
    } catch (const Error& error) {
      CHECK(error.fault() == Fault::input);
      test::check_says(std::string(error.what()), word);
      return true;
    }
    return false;
  };
  Batch no_offsets = packed();
  no_offsets.take("offsets");
  CHECK(refuses(no_offsets, "offsets"));
  Batch unknown_id = packed();
  unknown_id["tokens"].data<std::int64_t>()[2] = 120;
  CHECK(refuses(unknown_id, "120"));
  Batch too_long;
  too_long.set("tokens", tensor(Numbers(17, 3), {17}));
  too_long.set("offsets", tensor({0, 17}, {2}));
  CHECK(refuses(too_long, "17"));
  CHECK_THROWS_AS(build_model("bert", tiny({{"num_attention_heads", std::int64_t{5}}}), {}), Error);
  CHECK_THROWS_WITH_AS(build_model("distilbert", {{"dim", std::int64_t{24}}, {"n_heads", std::int64_t{5}}}, {}),
                       doctest::Contains("`dim` 24"), Error);
}

TEST_CASE("text: what a sample of BERT-Base saves: 10 D a token and layer, less where first tokens alone are read") {
  const std::unique_ptr<Model> model = build_model("bert_base", {}, {.device = Device::meta});
  const std::unique_ptr<Task> task = make_task("classification", {}, *model);
  constexpr std::int64_t samples = 4, length = 128;
  const auto saved = [&](std::string_view policy, const OptionValues& settings = {}) {
    const auto on_meta = [](const Shape& shape) { return Tensor::empty(shape, DType::i64, Device::meta); };
    Batch batch;
    batch.samples = samples;
    batch.set_packed("tokens", on_meta({samples * length}));
    batch.set_packed("token_types", on_meta({samples * length}));
    Numbers offsets;
    for (std::int64_t i = 0; i <= samples; ++i) offsets.push_back(i * length);
    batch.set("offsets", tensor(offsets, {samples + 1}));
    batch.set("labels", on_meta({samples}));
    const std::unique_ptr<MemoryPolicy> how = make_policy(policy, settings);
    Tape tape(*how);
    const Recording recording(tape);
    const Variable loss = task->run(*model, std::move(batch), TaskMode::train).loss;
    tape.finalize();
    return static_cast<double>(at(ledger(Device::meta).live(), Purpose::saved)) / samples;
  };
  constexpr double pytorch = 109.16 * 1024 * 1024;  // bytes that PyTorch keeps of a sample
  CHECK(saved("exact") < 0.45 * pytorch);
  CHECK(saved("fixed", {{"bits", 4.0}}) < pytorch / 16);
}

TEST_CASE("text: what ModernBERT-base saves of a token and layer, 9 D, does not grow with its text") {
  const std::unique_ptr<Model> model = build_model("modernbert_base", {}, {.device = Device::meta});
  const std::unique_ptr<Task> task = make_task("classification", {}, *model);
  const auto saved_of_token = [&](std::int64_t length) {
    Batch batch;
    batch.set_packed("tokens", Tensor::empty({length}, DType::i64, Device::meta));
    batch.set("offsets", tensor({0, length}, {2}));
    batch.set("labels", Tensor::empty({1}, DType::i64, Device::meta));
    const std::unique_ptr<MemoryPolicy> how = make_policy("exact", {});
    Tape tape(*how);
    const Recording recording(tape);
    const Variable loss = task->run(*model, std::move(batch), TaskMode::train).loss;
    tape.finalize();
    return static_cast<double>(at(ledger(Device::meta).live(), Purpose::saved)) / static_cast<double>(length);
  };
  CHECK(saved_of_token(8192) <= saved_of_token(512));
  CHECK(saved_of_token(512) < 9.2 * 768 * 4 * 22);
}
