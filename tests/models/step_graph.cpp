// Steps on cuda that are captured and replayed have the bits of others, on the stand-in.
#include "core/allocator.h"
#include "core/stand_in/fibers.h"
#include "data/pipeline.h"
#include "models/trainer.h"
#include "nn/functional.h"
#include "tests/models/tiny_models.h"

#include <doctest/doctest.h>

#include <cmath>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace lacuna {
namespace {

using namespace test;

/// Cross entropy without metrics.
struct Loss final : Task {
  Loss() : Task({}) {}
  SampleFields targets() const override { return {{.name = "labels", .dtype = DType::i64, .shape = {}, .below = 5}}; }
  bool is_read_by_kernels(std::string_view) const override { return true; }
  TaskResult run(Model& model, Inputs batch, TaskMode) const override {
    Variable labels = batch.take("labels");
    return {.loss = cross_entropy(model.forward(std::move(batch)).take("logits"), std::move(labels)), .sums = {}};
  }
};

struct Case {
  Description model;
  std::string optimizer = "adamw";
  StatePrecision state = StatePrecision::f32;
  StepOptions step{};
  std::string policy = "exact";
  OptionValues policy_options{};
  DType dtype = DType::f32;
  std::int64_t parts = 1;
  bool averages = false;
};

struct Outcome {
  std::vector<double> numbers{};  // of each step, and all tensors at the end
  std::int64_t replayed = 0;      // steps after which one was held
  std::int64_t held = 0;          // bytes between steps
};

Batch batch_of(std::int64_t size, std::int64_t samples, std::uint32_t number, DType dtype) {
  const RandomStream draws{7, number, 0};
  std::vector<float> pixels(static_cast<std::size_t>(samples * size * size * 3));
  for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = 2 * draws.uniform(i) - 1;
  std::vector<std::int64_t> labels;
  for (std::int64_t i = 0; i < samples; ++i) labels.push_back((number + i) % 5);
  Batch batch{{"images", Tensor::from(std::span<const float>(pixels), {samples, size, size, 3}, dtype, Device::cuda)},
              {"labels", Tensor::from(std::span<const std::int64_t>(labels), {samples}, Device::cuda)}};
  batch.samples = samples;
  return batch;
}

Outcome train(const Case& of, bool graph, int steps = 5) {
  const std::unique_ptr<Model> model =
      build_model(of.model.name, of.model.hyper_parameters, {.device = Device::cuda, .dtype = of.dtype});
  std::optional<LossScaleSettings> scale;
  if (of.dtype == DType::f16) scale = {.initial = 0x1p30, .growth_interval = 2};
  const auto optimizer = make_optimizer(of.optimizer, {}, *model, {.precision = of.state, .loss_scale = scale});
  const auto policy = make_policy(of.policy, of.policy_options);
  std::optional<WeightAverage> average;
  if (of.averages) average.emplace(*model, 0.9);
  const Loss task;
  StepOptions options = of.step;
  options.graph = graph;
  Trainer trainer({*model, *optimizer, *policy, average ? &*average : nullptr}, task, options);
  Outcome outcome;
  const std::int64_t size = field_of(model->inputs(), "images").shape[0];
  for (int i = 0; i < steps; ++i) {
    std::vector<Batch> batch = split_batch(batch_of(size, 2, static_cast<std::uint32_t>(i), of.dtype), of.parts);
    const StepResult result = trainer.step(std::move(batch), i, 1e-2 / (i + 1));
    for (const double number : {result.loss, result.gradient_norm, result.loss_scale, result.totals.loss_sum,
                                static_cast<double>(result.totals.samples), result.updated ? 1.0 : 0.0})
      outcome.numbers.push_back(std::isfinite(number) ? number : -1);
    outcome.replayed += trainer.captured_bytes() > 0 ? 1 : 0;
    outcome.held = trainer.captured_bytes();
  }
  const auto add = [&](const Tensor& tensor) {
    for (const double value : tensor.to_vector()) outcome.numbers.push_back(value);
  };
  const auto add_model = [&] {
    for (const Parameter* parameter : model->parameters()) add(parameter->tensor());
    for (const Buffer* buffer : model->buffers()) add(buffer->tensor());
  };
  add_model();
  for (const auto& [name, tensor] : optimizer->state()) add(tensor);
  if (average) {
    const WeightAverage::Exchange exchange(&*average);
    add_model();
  }
  return outcome;
}

void check_equal(const Case& of) {
  const Outcome replayed = train(of, true), usual = train(of, false);
  CHECK(replayed.numbers == usual.numbers);
  CHECK(replayed.replayed == 3);
  CHECK(usual.replayed == 0);
}

Description vit_with_dropout() {
  Description vit =
      tiny_vit({{"drop_rate", 0.1}, {"proj_drop_rate", 0.1}, {"attn_drop_rate", 0.2}, {"drop_path_rate", 0.5}});
  for (HyperParameter& parameter : vit.hyper_parameters)
    if (parameter.key == "depth") parameter.value = whole(2);  // a path is dropped in the last block alone
  return vit;
}

Description resnet() {
  return {"resnet",
          {{"image_size", whole(8)},
           {"layers", std::vector<std::int64_t>{1, 1}},
           {"channels", std::vector<std::int64_t>{8, 16}},
           {"stem_width", whole(8)},
           {"stem", "cifar"},
           {"block", "basic"},
           {"drop_path_rate", 0.5},
           {"num_classes", whole(5)}}};
}

}  // namespace

TEST_CASE("cuda: replayed steps have the bits of others, under every optimizer") {
  for (const std::string& optimizer : optimizers().names()) {
    CAPTURE(optimizer);
    check_equal({.model = vit_with_dropout(), .optimizer = optimizer, .step = {.clipping = {.norm = 0.5}}});
    if (optimizer == "muon") continue;  // a ResNet has no matrices for it
    check_equal({.model = resnet(), .optimizer = optimizer, .averages = true});
  }
  check_equal({.model = vit_with_dropout(), .optimizer = "lion", .state = StatePrecision::int8});
}

TEST_CASE("cuda: replayed steps have the bits of others, in parts, in backward, in bf16 and in f16") {
  check_equal({.model = vit_with_dropout(), .step = {.clipping = {.parameter_norm = 0.5}}, .parts = 2});
  check_equal({.model = vit_with_dropout(), .step = {.clipping = {.norm = 0.5}, .in_backward = true}});
  check_equal({.model = vit_with_dropout(), .dtype = DType::bf16});
  check_equal({.model = vit_with_dropout(), .dtype = DType::f16});
}

TEST_CASE("cuda: replays have the same bits with late streams and in any order of threads") {
  const Case of{.model = vit_with_dropout()};
  const Outcome usual = train(of, false);
  const cuda::stand_in::ScheduleScope late(3);
  CHECK(train(of, true).numbers == usual.numbers);
}

TEST_CASE("cuda: replays of steps that quantize by draws have the bits of others") {
  for (const std::int64_t bits : {4, 8}) {
    CAPTURE(bits);
    check_equal({.model = vit_with_dropout(), .policy = "fixed", .policy_options = {{"bits", bits}}});
    check_equal(
        {.model = resnet(), .policy = "fixed", .policy_options = {{"bits", bits}}, .dtype = DType::bf16, .parts = 2});
  }
}

TEST_CASE("cuda: steps under a policy whose ranges the host follows are not captured, and go on") {
  const Case of{.model = vit_with_dropout(), .policy = "mesa"};
  const Outcome tried = train(of, true);
  CHECK(tried.replayed == 0);
  CHECK(tried.numbers == train(of, false).numbers);
}

TEST_CASE("cuda: other shapes, frozen parameters and observers end a captured step; what it holds is given back") {
  const std::unique_ptr<Model> model =
      build_model("vit", vit_with_dropout().hyper_parameters, {.device = Device::cuda});
  const auto optimizer = make_optimizer("adamw", {}, *model);
  const auto policy = make_policy("exact");
  const Loss task;
  Trainer trainer({*model, *optimizer, *policy, nullptr}, task);
  int number = 0;
  const auto take = [&](std::int64_t samples, int steps, const StepHooks& hooks = {}) {
    for (int i = 0; i < steps; ++i, ++number) {
      std::vector<Batch> batch;
      batch.push_back(batch_of(16, samples, static_cast<std::uint32_t>(number), DType::f32));
      trainer.step(std::move(batch), number, 1e-3, hooks);
    }
    return trainer.captured_bytes() > 0;
  };
  CHECK_FALSE(take(4, 2));
  CHECK(take(4, 2));
  CHECK_FALSE(take(3, 1));
  CHECK(take(3, 2));
  model->parameters().front()->set_trainable(false);
  CHECK_FALSE(take(3, 1));
  CHECK(take(3, 2));
  struct Nothing final : Observer {
    void before(Phase, const Operation&, Label) override {}
    void after(Phase, const Operation&, Label, const Work&, std::span<const Tensor>) override {}
  } observer;
  CHECK_FALSE(take(3, 1, {.observer = &observer}));
  CHECK(allocator(Device::cuda).pool_bytes() == 0);
}

TEST_CASE(
    "cuda: an evaluation has the memory of the captured step; the next step is captured anew, with the same bits") {
  const auto losses = [](bool graph) {
    const std::unique_ptr<Model> model =
        build_model("vit", tiny_vit({{"num_classes", whole(10)}}).hyper_parameters, {.device = Device::cuda});
    const auto optimizer = make_optimizer("sgd", {}, *model);
    const auto policy = make_policy("exact");
    const std::unique_ptr<Task> task = make_task("classification", {}, *model);
    const auto batches = [](Split split) {
      const DatasetPtr images =
          open_dataset("shapes", {.split = split, .train_size = 20, .validation_size = 4, .image_size = 16});
      return Batches{transform(images, image_transforms(images->info(), {.image_size = 16}), 1), {.size = 4}};
    };
    Trainer trainer(
        {*model, *optimizer, *policy, nullptr}, *task, batches(Split::train), batches(Split::validation),
        {.epochs = 2,
         .learning_rate = make_schedule("constant", {}, {.lr = 1e-2, .total_steps = 10, .steps_per_epoch = 5}),
         .step = {.graph = graph}});
    std::vector<double> all;
    std::vector<bool> captured;  // after each step
    trainer.run({.after_step =
                     [&](const StepResult& step, double, double) {
                       all.push_back(step.loss);
                       captured.push_back(trainer.captured_bytes() > 0);
                     },
                 .evaluating = [&](std::int64_t, std::int64_t) { CHECK(trainer.captured_bytes() == 0); },
                 .after_epoch = [&](const EpochResult& epoch) { all.push_back(epoch.validation.loss); }});
    const std::vector<bool> wanted{false, false, true, true, true, true, true, true, true, true};
    CHECK(captured == (graph ? wanted : std::vector<bool>(10, false)));
    return all;
  };
  CHECK(losses(true) == losses(false));
}

}  // namespace lacuna
