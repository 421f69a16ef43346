#include "models/probe.h"

#include "autograd/op_mode.h"
#include "data/tensor_dataset.h"
#include "models/io/weights.h"
#include "models/trainer.h"
#include "ops/products/linear.h"
#include "tests/models/tiny_models.h"
#include "tests/temporary_folder.h"

#include <doctest/doctest.h>

#include <algorithm>

namespace lacuna {
namespace {

constexpr std::int64_t samples = 11, in_batch = 4;

/// Drawn images of the model's size, of another colour in each class.
DatasetPtr drawn_images(const Model& model) {
  DatasetInfo info{.name = "drawn", .size = samples, .fields = model.inputs()};
  info.fields.push_back({.name = "labels", .dtype = DType::i64, .shape = {}, .below = model.num_classes()});
  NamedTensors tensors = allocate_samples(info.fields, samples, Device::cpu, "drawn");
  const RandomStream stream{7, 0, 0};
  const std::int64_t image = tensors["images"].count() / samples;
  for (std::int64_t i = 0; i < samples; ++i) {
    const std::int64_t label = tensors["labels"].data<std::int64_t>()[i] = i % model.num_classes();
    for (std::int64_t j = i * image; j < (i + 1) * image; ++j)
      tensors["images"].data<float>()[j] =
          2 * stream.uniform(static_cast<std::uint64_t>(j)) - 1 + static_cast<float>(2 * (label >> j % 3 & 1));
  }
  return std::make_shared<TensorDataset>(info, tensors);
}

std::unique_ptr<Model> build(const test::Description& description) {
  return build_model(description.name, description.hyper_parameters, {.seed = 3});
}

struct Probing {
  std::unique_ptr<Model> classifier;
  DatasetPtr images, features;
};

/// A model with the features of drawn images.
Probing probing(const test::Description& description) {
  Probing all;
  all.classifier = build(description);
  all.images = drawn_images(*all.classifier);
  DatasetInfo info = all.images->info();
  info.fields = ProbeHeads(*all.classifier, {1}).inputs();
  info.fields.push_back(field_of(all.images->info().fields, "labels"));
  const NamedTensors tensors = allocate_samples(info.fields, samples, Device::cpu, "features");
  REQUIRE(compute_features(*all.classifier, Batches(all.images, {.size = in_batch}), tensors));
  all.features = std::make_shared<TensorDataset>(info, tensors);
  return all;
}

OptionValues with_rates(const std::vector<double>& rates) { return {{"rates", rates}}; }

const Parameter& parameter(const Model& model, std::string_view path) {
  const std::vector<Parameter*> all = model.parameters();
  const auto found = std::ranges::find(all, path, &Parameter::path);
  REQUIRE(found != all.end());
  return **found;
}

struct Trained {
  std::unique_ptr<ProbeHeads> heads;
  std::unique_ptr<Task> task;
  std::unique_ptr<Optimizer> optimizer;
  std::unique_ptr<MemoryPolicy> policy = make_policy("exact");
  TrainedState state() { return {*heads, *optimizer, *policy, nullptr}; }
};

/// Heads after a few steps.
Trained train(const Probing& probing, const std::vector<double>& rates, std::string_view optimizer,
              const OptionValues& settings, int steps = 5) {
  Trained trained;
  trained.heads = std::make_unique<ProbeHeads>(*probing.classifier, rates);
  trained.task = make_task("probe", with_rates(rates), *trained.heads);
  trained.optimizer =
      make_optimizer(optimizer, settings, *trained.heads, {.groups = {.rules = trained.heads->rate_rules()}});
  Trainer trainer(trained.state(), *trained.task);
  Loader loader(Batches(shuffle(probing.features, 1), {.size = in_batch, .drop_last = true}));
  for (int i = 0; i < steps; ++i) {
    std::vector<Batch> batch;
    batch.push_back(*loader.next());
    trainer.step(std::move(batch), i, 0.1 / (i + 1));
  }
  return trained;
}

TEST_CASE("probe: features are what the head reads in evaluation") {
  std::vector<test::Description> descriptions = test::descriptions();
  descriptions.push_back(test::tiny_vit({{"global_pool", "token_avg"}, {"reg_tokens", test::whole(2)}}));
  for (const test::Description& description : descriptions) {
    const Probing probe = probing(description);
    const std::string& head = probed_head(*probe.classifier);
    Loader images(Batches(probe.images, {.size = in_batch}), {.end_epoch = 1});
    Loader features(Batches(probe.features, {.size = in_batch}), {.end_epoch = 1});
    const NoGrad no_grad;
    while (std::optional<Batch> batch = features.next()) {
      const Variable logits =
          apply(Linear{}, Variable(batch->at("features")), parameter(*probe.classifier, head + ".weight").variable(),
                parameter(*probe.classifier, head + ".bias").variable());
      Batch same = *images.next();
      CHECK(same["labels"].to_vector() == batch->at("labels").to_vector());
      CHECK(probe.classifier->forward(std::move(same)).take("logits").tensor().to_vector() ==
            logits.tensor().to_vector());
    }
  }
}

/// Keeps what the final norm gives.
class NormOutput final : public OpMode {
 public:
  void after(const Operation&, const std::vector<Variable>&, const std::vector<Variable>& outputs,
             const std::vector<Tensor>&) override {
    if (AllocationScope::current().path.text() == "norm") tokens = outputs.front().tensor();
  }
  Tensor tokens;  // [B, L, C]
};

TEST_CASE("probe: the head of a ViT may read the class token and the mean of the patches") {
  constexpr std::int64_t registers = 2;
  const Probing probe = probing(test::tiny_vit({{"global_pool", "token_avg"}, {"reg_tokens", test::whole(registers)}}));
  Loader images(Batches(probe.images, {.size = in_batch}), {.end_epoch = 1});
  Loader features(Batches(probe.features, {.size = in_batch}), {.end_epoch = 1});
  NormOutput norm;
  probe.classifier->forward(*images.next());
  const std::vector<double> tokens = norm.tokens.to_vector(), read = (*features.next())["features"].to_vector();
  const std::int64_t length = norm.tokens.shape()[1], width = norm.tokens.shape()[2];
  REQUIRE(std::ssize(read) == in_batch * 2 * width);
  for (std::int64_t n = 0; n < in_batch; ++n)
    for (std::int64_t c = 0; c < width; ++c) {
      const auto token = [&](std::int64_t i) { return tokens[static_cast<std::size_t>((n * length + i) * width + c)]; };
      double mean = 0;
      for (std::int64_t i = 1 + registers; i < length; ++i) mean += token(i);
      mean /= static_cast<double>(length - 1 - registers);
      const auto at = static_cast<std::size_t>(n * 2 * width + c);
      CHECK(read[at] == token(0));
      CHECK(read[at + static_cast<std::size_t>(width)] == doctest::Approx(mean).epsilon(1e-4));
    }
  CHECK_THROWS_AS(build(test::tiny_vit({{"global_pool", "token_avg"}, {"class_token", false}})), Error);
}

TEST_CASE("probe: every head is trained as if it were alone") {
  const Probing probe = probing(test::tiny_vit());
  const std::vector<double> rates{0.01, 1, 30};
  for (const auto& [optimizer, settings] :
       {std::pair<std::string_view, OptionValues>{"sgd", {{"momentum", 0.9}, {"weight_decay", 0.01}}},
        {"adamw", {{"weight_decay", 0.1}}}}) {
    const Trained together = train(probe, rates, optimizer, settings);
    for (std::size_t k = 0; k < rates.size(); ++k) {
      const Trained alone = train(probe, {rates[k]}, optimizer, settings);
      for (const char* const name : {".weight", ".bias"})
        CHECK(parameter(*together.heads, fmt::format("heads.{}{}", k, name)).tensor().to_vector() ==
              parameter(*alone.heads, fmt::format("heads.0{}", name)).tensor().to_vector());
    }
    CHECK(parameter(*together.heads, "heads.0.weight").tensor().to_vector() !=
          parameter(*together.heads, "heads.1.weight").tensor().to_vector());
  }
}

TEST_CASE("probe: the classifier with the best head has that head's accuracy") {
  const Probing probe = probing(test::tiny_vit());
  const Trained trained = train(probe, {1e-6, 300, 1}, "sgd", {}, 20);
  const std::optional<Evaluation> heads =
      evaluate(*trained.heads, *trained.task, Batches(probe.features, {.size = in_batch}));
  const std::size_t best = trained.heads->best(heads);
  const auto accuracy = [&](std::size_t k) { return heads->metrics.at(probe_metric(trained.heads->rates()[k])); };
  for (std::size_t k = 0; k < 3; ++k) CHECK(accuracy(best) >= accuracy(k));
  CHECK(heads->metrics.at("accuracy") == accuracy(best));
  CHECK(best != 0);
  trained.heads->copy_head(best, *probe.classifier);
  const std::unique_ptr<Task> task = make_task("probe", with_rates({1}), *probe.classifier);
  const std::optional<Evaluation> whole = evaluate(*probe.classifier, *task, Batches(probe.images, {.size = in_batch}));
  CHECK(whole->metrics.at("accuracy") == accuracy(best));
  CHECK(trained.heads->best({}) == 0);
}

TEST_CASE("probe: a checkpoint holds the classifier and all heads, and takes the place of one of its step") {
  const test::TemporaryFolder folder;
  const Probing probe = probing(test::tiny_vit());
  Trained trained = train(probe, {0.5, 1}, "sgd", {{"momentum", 0.9}});
  TrainedState state = trained.state();
  state.classifier = probe.classifier.get();
  trained.heads->copy_head(0, *probe.classifier);
  write_checkpoint(folder / "c", state, {});
  trained.heads->copy_head(1, *probe.classifier);
  write_checkpoint(folder / "c", state, {.step = 3});
  CHECK(read_progress(folder / "c").step == 3);

  const Probing anew = probing(test::tiny_vit());
  load_weights(*anew.classifier, WeightFiles(folder / "c/model.safetensors"), {});
  CHECK(parameter(*anew.classifier, "head.weight").tensor().to_vector() ==
        parameter(*trained.heads, "heads.1.weight").tensor().to_vector());
  Trained resumed = train(anew, {0.5, 1}, "sgd", {{"momentum", 0.9}}, 0);
  TrainedState into = resumed.state();
  into.classifier = anew.classifier.get();
  load_checkpoint(folder / "c", into);
  for (const char* const path : {"heads.0.weight", "heads.1.weight", "heads.1.bias"})
    CHECK(parameter(*resumed.heads, path).tensor().to_vector() == parameter(*trained.heads, path).tensor().to_vector());

  std::filesystem::create_directory(folder / "mine");
  test::write_file(folder / "mine/notes.txt", "");
  CHECK_THROWS_AS(write_checkpoint(folder / "mine", state, {}), Error);
  CHECK(std::filesystem::exists(folder / "mine/notes.txt"));
}

TEST_CASE("probe: what cannot be probed is refused") {
  const std::unique_ptr<Model> model = build(test::tiny_vit());
  CHECK_THROWS_WITH_AS(make_task("probe", {}, *model), doctest::Contains("task.rates"), Error);
  CHECK_THROWS_WITH_AS(make_task("probe", with_rates({0.1, 1, 0.1}), *model), doctest::Contains("twice"), Error);
  CHECK_THROWS_AS(make_task("probe", with_rates({0}), *model), Error);
  test::Description distilled = test::tiny_vit();
  distilled.name = "deit_distilled";
  CHECK_THROWS_WITH_AS(make_task("probe", with_rates({0.1}), *build(distilled)), doctest::Contains("one head"), Error);
}

TEST_CASE("tensor data set: its rows are the samples; other shapes are refused") {
  const SampleFields fields{{.name = "features", .dtype = DType::f32, .shape = {3}}};
  const NamedTensors tensors{{"features", Tensor::from(std::vector<float>{1, 2, 3, 4, 5, 6}, {2, 3})}};
  const TensorDataset dataset({.name = "rows", .size = 2, .fields = fields}, tensors);
  Sample sample;
  sample.begin(0);
  dataset.read(1, sample);
  CHECK(sample["features"].to_vector() == std::vector<double>{4, 5, 6});
  CHECK_THROWS_AS(TensorDataset({.name = "rows", .size = 3, .fields = fields}, tensors), Error);
}

}  // namespace
}  // namespace lacuna
