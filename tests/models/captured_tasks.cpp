// Captured steps of tasks whose models or batches are made in their own way have the bits of others, on the stand-in.
#include "core/error.h"
#include "data/collate.h"
#include "models/adapters.h"
#include "models/io/weights.h"
#include "models/probe.h"
#include "models/trainer.h"
#include "tests/models/tiny_models.h"
#include "tests/temporary_folder.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

namespace lacuna {
namespace {

using namespace test;

constexpr std::int64_t samples = 4, classes = 5;

/// A task, its model and the batch of each step, on the host.
struct Learner {
  std::unique_ptr<Model> model;
  std::unique_ptr<Task> task;
  std::function<Batch(std::int64_t step)> batch;
  std::vector<GroupRule> rules{};
  std::int64_t steps = 5, queued = 2;
};

Tensor whole_numbers(const Shape& shape, std::uint64_t seed, std::uint32_t below) {
  const Tensor values = Tensor::empty(shape, DType::i64, Device::cpu);
  const RandomStream stream{seed, 0, 1};
  for (std::int64_t i = 0; i < values.count(); ++i)
    values.data<std::int64_t>()[i] = stream.below(static_cast<std::uint64_t>(i), below);
  return values;
}
Tensor drawn(const Shape& shape, std::uint64_t seed) {
  const Tensor values = Tensor::empty(shape, DType::f32, Device::cpu);
  const RandomStream stream{seed, 0, 2};
  for (std::int64_t i = 0; i < values.count(); ++i)
    values.data<float>()[i] = 2 * stream.uniform(static_cast<std::uint64_t>(i)) - 1;
  return values;
}
std::uint64_t seed_of(std::int64_t step) { return static_cast<std::uint64_t>(step) + 1; }

std::unique_ptr<Model> build(const Description& of) {
  return build_model(of.name, of.hyper_parameters, {.device = Device::cuda, .seed = 3});
}

Batch images_of(std::int64_t step) {
  Batch batch{{"images", drawn({samples, 16, 16, 3}, seed_of(step))},
              {"labels", whole_numbers({samples}, seed_of(step), classes)}};
  batch.samples = samples;
  return batch;
}

/// Windows of a text: other tokens in each step, all of which count.
Batch windows_of(std::int64_t step, std::int64_t rows) {
  Batch batch;
  batch.samples = samples;
  const Tensor tokens = whole_numbers({samples * rows}, seed_of(step), 23);
  batch.set("offsets", Tensor::from(std::vector<std::int64_t>{0, rows, 2 * rows, 3 * rows, 4 * rows}, {samples + 1}));
  batch.set_packed("tokens", tokens, "offsets");
  batch.set_packed("labels", tokens.clone(), "offsets");
  return batch;
}

Learner language_model(const std::vector<HyperParameter>& of_positions = {}) {
  Learner all;
  Description decoder{"decoder",
                      {{"vocab_size", whole(23)},
                       {"hidden_size", whole(16)},
                       {"intermediate_size", whole(24)},
                       {"num_hidden_layers", whole(2)},
                       {"num_attention_heads", whole(2)},
                       {"max_position_embeddings", whole(16)}}};
  std::ranges::copy(of_positions, std::back_inserter(decoder.hyper_parameters));
  all.model = build(decoder);
  all.task = make_task("causal_lm", {}, *all.model);
  all.batch = [](std::int64_t step) { return windows_of(step, 6); };
  return all;
}

/// Windows of lengths up to and beyond those of the short factors.
Learner long_texts() {
  const auto factors = [](double first) { return Tree(std::vector(4, Tree(first))); };
  Learner all = language_model({{"rope_scaling", std::string("longrope")},
                                {"rope_original_positions", whole(8)},
                                {"rope_short_factor", factors(1)},
                                {"rope_long_factor", factors(4)}});
  const std::vector<std::int64_t> rows{10, 10, 12, 12, 6, 6, 6, 12, 10, 6, 10, 6, 12, 6};
  all.steps = std::ssize(rows);
  all.queued = 6;
  all.batch = [rows](std::int64_t step) { return windows_of(step, rows[static_cast<std::size_t>(step)]); };
  return all;
}

/// Two pairs of a chosen and a rejected answer.
Learner of_preferences() {
  Learner all = language_model();
  add_adapters(*all.model, {.kind = "lora", .settings = {{"rank", 2.0}}, .targets = {"all-linear"}});
  freeze_below_adapters(*all.model, {});
  all.task = make_task("preference", {}, *all.model);
  all.batch = [](std::int64_t step) {
    Batch batch;
    batch.samples = 2;
    const Tensor tokens = whole_numbers({16}, seed_of(step), 23), labels = tokens.clone();
    for (const int prompt : {0, 1, 5, 6, 9, 12}) labels.data<std::int64_t>()[prompt] = -100;
    batch.set("offsets", Tensor::from(std::vector<std::int64_t>{0, 9, 16}, {3}));
    batch.set("sequence_lengths", Tensor::from(std::vector<std::int64_t>{5, 4, 3, 4}, {4}));
    batch.set_packed("tokens", tokens, "offsets");
    batch.set_packed("labels", labels, "offsets");
    return batch;
  };
  return all;
}

Learner segmenter() {
  Learner all;
  Tree backbone;
  backbone.kind = Tree::Kind::map;
  const auto set = [&](const char* key, Tree value) { backbone.entries.push_back({key, {}, std::move(value)}); };
  set("name", "vit");
  set("patch_size", whole(4));
  set("embed_dim", whole(8));
  set("depth", whole(1));
  set("num_heads", whole(2));
  all.model =
      build({"linear_segmenter", {{"image_size", whole(16)}, {"num_classes", whole(classes)}, {"backbone", backbone}}});
  all.task = make_task("segmentation", {{"dice", 1.0}, {"class_weights", std::string("1, 2, 3, 4, 5")}}, *all.model);
  all.batch = [](std::int64_t step) {
    Batch batch{{"images", drawn({samples, 16, 16, 3}, seed_of(step))}};
    batch.samples = samples;
    const Tensor mask = Tensor::empty({samples, 16, 16}, DType::u8, Device::cpu);
    const Tensor labels = whole_numbers({mask.count()}, seed_of(step), classes);
    for (std::int64_t i = 0; i < mask.count(); ++i)
      mask.data<std::uint8_t>()[i] =
          i % 7 == 0 ? 255 : static_cast<std::uint8_t>(labels.data<std::int64_t>()[i]);  // 255: it does not count
    batch.set("mask", mask);
    return batch;
  };
  return all;
}

Learner graph_network() {
  Learner all;
  all.model = build({"gcn",
                     {{"library", std::string("pyg")},
                      {"features", whole(32)},
                      {"hidden", whole(8)},
                      {"num_classes", whole(classes)}}});
  all.task = make_task("node_classification", {}, *all.model);
  DatasetOptions options;
  options.settings = {{"like", std::string("small")}, {"nodes", std::int64_t{150}}};
  const auto nodes = open_dataset("random_graph", options);
  std::vector<Sample> one(1);
  one.front().begin(0);
  nodes->read(0, one.front());
  const Batch graph = collate(one, nodes->info().fields);
  all.batch = [graph](std::int64_t step) {
    Batch batch = graph;
    batch.set("features", drawn(graph["features"].shape(), seed_of(step)));
    return batch;
  };
  return all;
}

/// Distils a tiny ResNet, whose weights lie in a folder, to a tiny ViT.
Learner student(const TemporaryFolder& folder) {
  const std::unique_ptr<Model> teacher =
      build_model("resnet20", {{"image_size", whole(16)}, {"num_classes", whole(classes)}}, {.seed = 7});
  save_weights(*teacher, folder / "model.safetensors");
  Learner all;
  all.model = build(tiny_vit({{"drop_path_rate", 0.2}}));
  all.task = make_task("distillation", {{"teacher", std::string("resnet20")}, {"teacher_from", (folder / "").string()}},
                       *all.model);
  all.batch = images_of;
  return all;
}

Learner heads_of_probe() {
  Learner all;
  const std::unique_ptr<Model> classifier = build(tiny_vit());
  auto heads = std::make_unique<ProbeHeads>(*classifier, std::vector<double>{1, 0.1});
  all.rules = heads->rate_rules();
  const std::int64_t width = field_of(heads->inputs(), "features").shape.back();
  all.task = make_task("probe", {{"rates", std::vector<double>{1, 0.1}}}, *heads);
  all.batch = [width](std::int64_t step) {
    Batch batch{{"features", drawn({samples, width}, seed_of(step))},
                {"labels", whole_numbers({samples}, seed_of(step), classes)}};
    batch.samples = samples;
    return batch;
  };
  all.model = std::move(heads);
  return all;
}

struct Outcome {
  std::vector<double> numbers{};  // of each step, and all weights at the end
  int replayed = 0;
};

Outcome train(const Learner& of, bool graph) {
  const auto optimizer = make_optimizer("adamw", {}, *of.model, {.groups = {.rules = of.rules}});
  const auto policy = make_policy("exact");
  Trainer trainer({*of.model, *optimizer, *policy, nullptr}, *of.task, {.graph = graph});
  Outcome outcome;
  for (std::int64_t step = 0; step < of.steps; ++step) {
    const StepResult done = trainer.step({of.batch(step)}, step, 0.01);
    outcome.replayed += trainer.captured_bytes() > 0 ? 1 : 0;
    outcome.numbers.insert(outcome.numbers.end(), {done.loss, done.gradient_norm});
    for (const auto& [name, value] : done.totals.values(*of.task)) outcome.numbers.push_back(value);
  }
  for (const Parameter* const parameter : of.model->parameters())
    for (const double value : parameter->tensor().to_vector()) outcome.numbers.push_back(value);
  return outcome;
}

void check_captured(const std::function<Learner()>& make) {
  const Learner of = make();
  const Outcome replayed = train(of, true), usual = train(make(), false);
  CHECK(replayed.replayed == of.steps - of.queued);
  CHECK(usual.replayed == 0);
  CHECK(replayed.numbers == usual.numbers);
}

}  // namespace

TEST_CASE("cuda: captured steps of a language model have the bits of others") {
  check_captured([] { return language_model(); });
}
TEST_CASE("cuda: captured steps of a language model keep their angles, whatever lengths come between") {
  check_captured(long_texts);
}
TEST_CASE("cuda: captured steps of preferences have the bits of others") { check_captured(of_preferences); }
TEST_CASE("cuda: captured steps of a segmenter have the bits of others, and refuse masks of other classes") {
  check_captured(segmenter);
  const Learner all = segmenter();
  const Batch batch = all.batch(0);
  batch["mask"].data<std::uint8_t>()[5] = classes;
  const auto optimizer = make_optimizer("adamw", {}, *all.model);
  const auto policy = make_policy("exact");
  Trainer trainer({*all.model, *optimizer, *policy, nullptr}, *all.task);
  CHECK_THROWS_AS(trainer.step({batch}, 0, 0.01), Error);
}
TEST_CASE("cuda: captured steps of a graph network have the bits of others") { check_captured(graph_network); }
TEST_CASE("cuda: captured steps of a student have the bits of others") {
  const TemporaryFolder folder;
  check_captured([&] { return student(folder); });
}
TEST_CASE("cuda: captured steps of the heads of a probe have the bits of others") { check_captured(heads_of_probe); }

}  // namespace lacuna
