// Steps with a loss scale: gradients that the range of f16 holds, and steps that change nothing where it does not.
#include "autograd/apply.h"
#include "autograd/policy.h"
#include "core/stand_in/fibers.h"
#include "models/trainer.h"
#include "nn/functional.h"
#include "nn/linear.h"
#include "nn/sequential.h"
#include "ops/arithmetic/arithmetic.h"
#include "tests/optim/two_parameters.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <optional>
#include <span>
#include <vector>

using namespace lacuna;

namespace {

struct Net final : Model {
  explicit Net(DType dtype)
      : Model({.device = Device::cuda, .dtype = dtype},
              {.inputs = {{.name = "x", .shape = {4}}}, .num_classes = 3, .heads = {}}),
        body(*this, "body") {
    body.add<nn::Linear>(4, 16).add(relu).add<nn::Linear>(16, 3);
  }
  Outputs forward(Inputs inputs) override {
    Outputs outputs;
    outputs.set("logits", body.forward(inputs.take("x")));
    return outputs;
  }
  nn::Sequential body;
};

/// Cross entropy times factors, one after another.
struct ScaledLoss final : Task {
  explicit ScaledLoss(std::vector<double> by) : Task({}), factors(std::move(by)) {}
  SampleFields targets() const override { return {{.name = "y", .dtype = DType::i64, .shape = {}, .below = 3}}; }
  TaskResult run(Model& model, Inputs batch, TaskMode) const override {
    Variable y = batch.take("y");
    Variable loss = cross_entropy(model.forward(std::move(batch)).take("logits"), std::move(y));
    for (const double factor : factors) loss = apply(Scale{.factor = factor}, std::move(loss));
    return {.loss = std::move(loss), .sums = {}};
  }
  std::vector<double> factors;
};

std::vector<Batch> batch_of(std::span<const float> x, std::span<const std::int64_t> y, DType dtype) {
  const std::int64_t samples = std::ssize(y);
  Batch batch{{"x", Tensor::from(x, {samples, 4}, dtype, Device::cuda)},
              {"y", Tensor::from(y, {samples}, Device::cuda)}};
  batch.samples = samples;
  return {std::move(batch)};
}

struct Run {
  std::vector<double> losses{}, scales{}, norms{};
  std::vector<double> weights{};
  std::int64_t overflows = 0;
};

/// Trains on fixed points. `factor`: of the loss, so that its gradients are small or large.
Run train(DType dtype, double factor, const std::optional<LossScaleSettings>& scale, int steps,
          const StepOptions& options = {}) {
  Net net(dtype);
  const ScaledLoss task({factor});
  const auto optimizer = make_optimizer("adamw", {{"eps", 1e-20}}, net, {.loss_scale = scale});
  const auto policy = make_policy("exact");
  Trainer trainer({net, *optimizer, *policy, nullptr}, task, options);
  const std::vector<float> points = drawn(5, 32 * 4);
  std::vector<std::int64_t> labels;
  for (std::size_t i = 0; i < 32; ++i) labels.push_back(points[4 * i] > points[4 * i + 1] ? 2 : points[4 * i + 2] > 0);
  Run run;
  for (int i = 0; i < steps; ++i) {
    const StepResult result = trainer.step(batch_of(points, labels, dtype), i, 1e-2);
    REQUIRE(result.finite());
    run.losses.push_back(result.loss / factor);
    run.scales.push_back(result.loss_scale);
    run.norms.push_back(result.gradient_norm / factor);
    run.overflows += result.overflowed ? 1 : 0;
    CHECK(result.updated != result.overflowed);
  }
  for (const Parameter* parameter : net.parameters())
    for (const double value : parameter->tensor().to_vector()) run.weights.push_back(value);
  return run;
}

}  // namespace

TEST_CASE("cuda: in f16, gradients that are below its range train as in f32 with a loss scale, and not without one") {
  constexpr double factor = 0x1p-24;
  const Run exact = train(DType::f32, factor, {}, 50);
  REQUIRE(exact.losses.back() < 0.7 * exact.losses.front());
  const Run scaled = train(DType::f16, factor, LossScaleSettings{.initial = 0x1p24}, 50);
  CHECK(scaled.overflows == 0);
  for (std::size_t i = 0; i < exact.losses.size(); ++i) {
    CHECK(scaled.losses[i] == doctest::Approx(exact.losses[i]).epsilon(0.01));
    CHECK(scaled.norms[i] == doctest::Approx(exact.norms[i]).epsilon(0.02));
  }
  const Run unscaled = train(DType::f16, factor, {}, 50);
  CHECK(unscaled.losses.back() > 0.95 * unscaled.losses.front());
}

TEST_CASE("cuda: in f16, a scale that is too large falls until gradients fit, and those steps change nothing") {
  const Run exact = train(DType::f32, 1, {}, 40);
  const Run fallen = train(DType::f16, 1, LossScaleSettings{.initial = 0x1p30}, 50);
  REQUIRE(fallen.overflows > 0);
  REQUIRE(fallen.overflows <= 20);
  for (int i = 0; i < fallen.overflows; ++i) {
    CHECK(fallen.scales[static_cast<std::size_t>(i) + 1] == fallen.scales[static_cast<std::size_t>(i)] / 2);
    CHECK(fallen.losses[static_cast<std::size_t>(i)] == fallen.losses.front());
  }
  for (std::size_t i = 0; i < 30; ++i)
    CHECK(fallen.losses[i + static_cast<std::size_t>(fallen.overflows)] ==
          doctest::Approx(exact.losses[i]).epsilon(0.01));
}

TEST_CASE("cuda: with a loss scale, steps in backward and late streams have the same bits") {
  const LossScaleSettings scale{.initial = 0x1p30, .growth_interval = 5};
  const Run first = train(DType::f16, 1, scale, 30);
  const cuda::stand_in::ScheduleScope late(3);
  const Run second = train(DType::f16, 1, scale, 30, {.in_backward = true});
  CHECK(second.weights == first.weights);
  CHECK(second.scales == first.scales);
  CHECK(std::ranges::count_if(first.scales, [&](double value) { return value != first.scales.front(); }) > 0);
}

TEST_CASE("cuda: gradients that are finite at no scale end the run") {
  Net net(DType::f16);
  const auto optimizer = make_optimizer("sgd", {}, net, {.loss_scale = LossScaleSettings{.initial = 0x1p-14}});
  const auto policy = make_policy("exact");
  const ScaledLoss task({0, 1e30, 1e30});  // its gradient is infinite
  Trainer trainer({net, *optimizer, *policy, nullptr}, task);
  const std::vector<float> x(4, 1);
  const std::vector<std::int64_t> y{0};
  std::vector<bool> finite;
  for (int i = 0; i < 3; ++i) finite.push_back(trainer.step(batch_of(x, y, DType::f16), i, 1e-2).finite());
  CHECK(finite == std::vector<bool>{true, true, false});
}
