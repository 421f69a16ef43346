// Training steps of tasks on cuda, on the stand-in, against the CPU's. Batches lie on the host, as a loader gives them.
#include "core/stand_in/fibers.h"
#include "data/pipeline.h"
#include "models/trainer.h"
#include "tests/models/tiny_models.h"

#include <doctest/doctest.h>

#include <cmath>
#include <numeric>
#include <string>
#include <vector>

namespace lacuna {
namespace {

using namespace test;

constexpr std::int64_t samples = 4, classes = 5;

struct TaskCase {
  Description model;
  std::string task;
  OptionValues settings;
  Batch batch;
};

Tensor whole_numbers(const std::vector<std::int64_t>& values, const Shape& shape) {
  return Tensor::from(std::span<const std::int64_t>(values), shape);
}

/// Numbers in [-1, 1).
Tensor drawn(const Shape& shape, std::uint64_t seed = 5) {
  std::vector<float> values(static_cast<std::size_t>(shape.count()));
  const RandomStream stream{seed, 0, 0};
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = 2 * stream.uniform(i) - 1;
  return Tensor::from(std::span<const float>(values), shape);
}

Tensor class_labels() { return whole_numbers({0, 1, 2, 4}, {samples}); }

/// u8, of which each pair of images is mixed: two by their shares, two by a box.
Batch pixels(Tensor labels) {
  const Tensor images = Tensor::empty({samples, 16, 16, 3}, DType::u8, Device::cpu);
  const RandomStream stream{6, 0, 0};
  for (std::int64_t i = 0; i < images.count(); ++i)
    images.data<std::uint8_t>()[i] = static_cast<std::uint8_t>(stream.below(static_cast<std::uint64_t>(i), 256));
  Batch batch{{"images", images}, {"labels", std::move(labels)}};
  const std::vector<float> scale{1 / 64.0F, 1 / 60.0F, 1 / 70.0F, -2, -1.9F, -1.8F};
  batch.set("image_scale", image_scale(scale, samples));
  const std::vector<float> mixes{0.7F, 0.3F, 0, 0, 0, 0, 1, 0, 2, 9, 4, 16, 1, 0, 0, 5, 3, 7, 0.2F, 0.8F, 0, 0, 0, 0};
  batch.set("image_mixes", Tensor::from(std::span<const float>(mixes), {samples, 6}));
  return batch;
}

Description bert(const char* head, std::int64_t outputs) {
  return {"bert",
          {{"hidden_size", whole(16)},
           {"num_hidden_layers", whole(2)},
           {"num_attention_heads", whole(2)},
           {"intermediate_size", whole(32)},
           {"vocab_size", whole(20)},
           {"max_position_embeddings", whole(8)},
           {"head", std::string(head)},
           {"num_classes", whole(outputs)}}};
}

/// Four texts of 3, 5, 1 and 4 tokens, named `prefix` + tokens.
void set_texts(Batch& batch, const std::string& prefix, std::int64_t first) {
  std::vector<std::int64_t> tokens(13), types(13);
  for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = (first + 7 * static_cast<std::int64_t>(i)) % 20;
  for (std::size_t i = 0; i < types.size(); ++i) types[i] = i % 3 == 0 ? 1 : 0;
  batch.samples = samples;
  batch.set(prefix + "offsets", whole_numbers({0, 3, 8, 9, 13}, {samples + 1}));
  batch.set_packed(prefix + "tokens", whole_numbers(tokens, {13}), prefix + "offsets");
  batch.set_packed(prefix + "token_types", whole_numbers(types, {13}), prefix + "offsets");
}

Batch texts(Tensor labels) {
  Batch batch;
  set_texts(batch, "", 3);
  if (labels.defined()) batch.set("labels", std::move(labels));
  return batch;
}

/// A label for three tokens.
Batch texts_with_labels_of_tokens() {
  Batch batch = texts({});
  std::vector<std::int64_t> labels(13, -100);
  labels[1] = 2;
  labels[6] = 0;
  labels[12] = 4;
  batch.set_packed("labels", whole_numbers(labels, {13}));
  return batch;
}

Batch pairs_of_texts(Tensor labels) {
  Batch batch = texts(std::move(labels));
  set_texts(batch, "pair_", 8);
  return batch;
}

Tensor shares_of_classes() {
  const Tensor labels = Tensor::zeros({samples, classes}, DType::f32, Device::cpu);
  for (std::int64_t i = 0; i < samples; ++i) {
    labels.data<float>()[i * classes + i] = 0.75F;
    labels.data<float>()[i * classes + classes - 1] += 0.25F;
  }
  return labels;
}

std::vector<TaskCase> cases() {
  const std::string none;
  const Tensor several = Tensor::zeros({samples, classes}, DType::f32, Device::cpu);
  several.data<float>()[1] = several.data<float>()[7] = several.data<float>()[9] = 1;
  return {
      {tiny_vit({{"drop_path_rate", 0.2}}), "classification", {{"label_smoothing", 0.1}}, pixels(shares_of_classes())},
      {tiny_resnet(),
       "classification",
       {{"loss", std::string("bce")}},
       // These images keep their losses when numbers are rounded otherwise: with others a ReLU may turn.
       {{"images", drawn({samples, 16, 16, 3}, 16)}, {"labels", class_labels()}}},
      {tiny_vit(), "classification", {{"class_weights", std::string("1, 2, 3, 4, 5")}}, pixels(class_labels())},
      {tiny_vit(), "multi_label", {}, pixels(several)},
      {bert("classification", 2),
       "classification",
       {{"metrics", std::string("matthews, f1, accuracy")}},
       texts(whole_numbers({0, 1, 1, 0}, {samples}))},
      {bert("classification", 1), "regression", {{"metrics", std::string("pearson, mse")}}, texts(drawn({samples}))},
      {bert("tokens", classes), "token_classification", {}, texts_with_labels_of_tokens()},
      {bert("masked_lm", 2), "masked_lm", {}, texts_with_labels_of_tokens()},
      {bert("span", 2), "question_answering", {}, texts(whole_numbers({0, 2, 1, 3, 0, 0, 2, 3}, {samples, 2}))},
      {bert("embedding", 2), "sentence_similarity", {}, pairs_of_texts(drawn({samples}))},
      {bert("embedding", 2), "contrastive", {}, pairs_of_texts({})},
  };
}

/// Losses, figures and gradient norms of three steps, and all weights afterwards.
struct Trained {
  std::vector<double> figures, weights;
  bool operator==(const Trained&) const = default;
};
struct Steps {
  std::int64_t count = 3;
  bool graph = true, vary = false;
};

/// The batch of a step: other tokens, pixels, labels and numbers in the same shapes.
Batch varied(Batch batch, std::int64_t step, std::int64_t below) {
  for (const auto& [name, tensor] : Batch(batch)) {
    const Tensor other = tensor.clone();
    const bool is_token = name.ends_with("tokens"), is_label = name == "labels" && tensor.shape() == Shape{samples};
    const bool is_position = name == "labels" && tensor.shape() == Shape{samples, 2};
    for (std::int64_t i = 0; i < tensor.count(); ++i)
      if (tensor.dtype() == DType::u8)
        other.data<std::uint8_t>()[i] = static_cast<std::uint8_t>(tensor.data<std::uint8_t>()[i] + step);
      else if (tensor.dtype() == DType::f32 && name == "labels")
        other.data<float>()[i] *= 1 - 0.1F * static_cast<float>(step);
      else if (tensor.dtype() == DType::i64 && is_position)
        other.data<std::int64_t>()[i] = (tensor.data<std::int64_t>()[i] + step) % 5;  // some lie beyond the text
      else if (tensor.dtype() == DType::i64 && (is_token || is_label))
        other.data<std::int64_t>()[i] = (tensor.data<std::int64_t>()[i] + step) % (is_token ? 20 : below);
    if (batch.packed().contains(name))
      batch.set_packed(name, other, batch.packed()[name]);
    else
      batch.set(name, other);
  }
  return batch;
}

Trained trained(const TaskCase& what, Device device, const std::string& memory = "exact", const Steps& steps = {},
                std::int64_t* replayed = nullptr) {
  const std::unique_ptr<Model> model =
      build_model(what.model.name, what.model.hyper_parameters, {.device = device, .seed = 3});
  const std::unique_ptr<Task> task = make_task(what.task, what.settings, *model);
  const std::unique_ptr<Optimizer> optimizer = make_optimizer("sgd", {{"momentum", 0.9}}, *model);
  const std::unique_ptr<MemoryPolicy> policy = make_policy(memory);
  Trainer trainer({*model, *optimizer, *policy, nullptr}, *task, {.clipping = {.norm = 1}, .graph = steps.graph});
  Trained result;
  for (std::int64_t number = 0; number < steps.count; ++number) {
    const Batch batch = steps.vary ? varied(what.batch, number, model->num_classes()) : what.batch;
    const StepResult done = trainer.step({batch}, number, 0.05);
    if (replayed != nullptr) *replayed += trainer.captured_bytes() > 0 ? 1 : 0;
    result.figures.insert(result.figures.end(), {done.loss, done.gradient_norm});
    for (const auto& [name, value] : done.totals.values(*task)) result.figures.push_back(value);
  }
  for (const Parameter* const parameter : model->parameters())
    for (const double value : parameter->tensor().to_vector()) result.weights.push_back(value);
  return result;
}

double distance(const std::vector<double>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    norm += b[i] * b[i];
  }
  return std::sqrt(difference / norm);
}

}  // namespace

TEST_CASE("cuda: three training steps of each task are the CPU's up to rounding") {
  for (const TaskCase& what : cases()) {
    CAPTURE(what.task);
    const Trained here = trained(what, Device::cpu), there = trained(what, Device::cuda);
    CHECK(distance(there.figures, here.figures) < 1e-4);
    CHECK(distance(there.weights, here.weights) < 1e-4);
  }
}

TEST_CASE("cuda: training steps have the same bits when streams run late") {
  for (const TaskCase& what : cases()) {
    CAPTURE(what.task);
    const Trained at_once = trained(what, Device::cuda);
    const cuda::stand_in::ScheduleScope late(3);
    CHECK(trained(what, Device::cuda) == at_once);
  }
}

TEST_CASE("cuda: captured steps of each task have the bits of others") {
  for (const TaskCase& what : cases()) {
    CAPTURE(what.task);
    std::int64_t replayed = 0;
    const Trained captured = trained(what, Device::cuda, "exact", {.count = 5, .vary = true}, &replayed);
    CHECK(captured == trained(what, Device::cuda, "exact", {.count = 5, .graph = false, .vary = true}));
    CHECK(replayed == 3);
  }
}

TEST_CASE("cuda: labels are checked on the host") {
  TaskCase what{tiny_vit(), "classification", {}, pixels(whole_numbers({0, 1, 2, classes}, {samples}))};
  CHECK_THROWS_AS(trained(what, Device::cuda), Error);
}

}  // namespace lacuna
