// The loss scale of f16: gradients that its range holds, and steps that change nothing where it does not.
#include "optim/loss_scale.h"

#include "autograd/policy.h"
#include "core/stand_in/fibers.h"
#include "nn/functional.h"
#include "nn/linear.h"
#include "nn/sequential.h"
#include "ops/arithmetic/arithmetic.h"
#include "optim/step.h"
#include "optim/train_step.h"
#include "tests/optim/two_parameters.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

using namespace lacuna;

namespace {

constexpr std::array devices{Device::cpu, Device::cuda};

struct Net : Module {
  explicit Net(DType dtype) : Module(ModelContext{.device = Device::cuda, .dtype = dtype}), body(*this, "body") {
    body.add<nn::Linear>(4, 16).add(relu).add<nn::Linear>(16, 3);
  }
  nn::Sequential body;
};

struct Run {
  std::vector<double> losses{}, scales{}, norms{};
  std::vector<double> weights{};
  std::int64_t overflows = 0;
};

/// Trains on fixed points. `factor`: of the loss, so that its gradients are small or large.
Run train(DType dtype, double factor, const std::optional<LossScaleSettings>& scale, int steps,
          const TrainStepOptions& options = {}) {
  Net net(dtype);
  const auto optimizer = make_optimizer("adamw", {{"eps", 1e-20}}, net, {.loss_scale = scale});
  const auto policy = make_policy("exact");
  TrainStep step(net, *optimizer, *policy, options);
  const std::vector<float> points = drawn(5, 32 * 4);
  std::vector<std::int64_t> labels;
  for (std::size_t i = 0; i < 32; ++i) labels.push_back(points[4 * i] > points[4 * i + 1] ? 2 : points[4 * i + 2] > 0);
  const std::array<std::int64_t, 1> samples{32};
  const auto loss = [&](std::size_t) {
    const Tensor x = Tensor::from(std::span<const float>(points), {32, 4}, dtype, Device::cuda);
    const Tensor y = Tensor::from(std::span<const std::int64_t>(labels), {32}, Device::cuda);
    return apply(Scale{.factor = factor}, cross_entropy(net.body.forward(Variable(x)), Variable(y)));
  };
  Run run;
  for (int i = 0; i < steps; ++i) {
    const StepResult result = step.run({.samples = samples, .loss = loss}, i, 1e-2);
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

TEST_CASE("a loss scale doubles after steps with finite gradients, and halves after one without") {
  for (const Device device : devices) {
    const LossScale scale({.initial = 8, .growth_interval = 3}, device);
    std::vector<double> values;
    for (const int finite : {1, 1, 1, 1, 0, 1, 1, 0, 1, 1, 1}) {
      scale.adapt(Tensor::full({}, finite, DType::i32, device));
      values.push_back(scale.scale().item());
    }
    CHECK(values == std::vector<double>{8, 8, 16, 16, 8, 8, 8, 4, 4, 4, 8});
    CHECK(scale.good_steps().item() == 0);
  }
}

TEST_CASE("gradients that are 1024 times as large update as those without a scale, clipped or not") {
  for (const Device device : devices) {
    for (const Clipping clipping :
         {Clipping{}, Clipping{.norm = 0.5}, Clipping{.parameter_norm = 0.5}, Clipping{.value = 0.1}}) {
      const auto run = [&](double scale) {
        TwoParameters model(device);
        const std::vector<Parameter*> parameters = model.parameters();
        const auto optimizer = make_optimizer(
            "sgd", {}, model,
            {.loss_scale = scale > 1 ? std::optional(LossScaleSettings{.initial = scale}) : std::nullopt});
        model.set_gradients(2);
        OptimizerStep step(*optimizer, parameters, 0.5, clipping);
        CHECK(step.loss_gradient(Tensor::full({}, 1, DType::f32, device), 0.25).item() == 0.25 * scale);
        for (Parameter* const parameter : parameters)
          parameter->set_grad(apply(Scale{.factor = scale}, Variable(parameter->grad())).tensor());
        step.measure(parameters);
        step.apply(parameters);
        return std::pair{model.values(), step.report().gradient_norm};
      };
      CHECK(run(1024) == run(1));
    }
  }
}

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
  TrainStep step(net, *optimizer, *policy, {});
  const std::array<std::int64_t, 1> samples{2}, labels{0};
  const auto loss = [&](std::size_t) {
    const Tensor x = Tensor::full({1, 4}, 1, DType::f16, Device::cuda);
    const Tensor y = Tensor::from(std::span<const std::int64_t>(labels), {1}, Device::cuda);
    Variable zero = apply(Scale{.factor = 0}, cross_entropy(net.body.forward(Variable(x)), Variable(y)));
    for (int i = 0; i < 2; ++i) zero = apply(Scale{.factor = 1e30}, std::move(zero));  // its gradient is infinite
    return zero;
  };
  std::vector<bool> finite;
  for (int i = 0; i < 3; ++i) finite.push_back(step.run({.samples = samples, .loss = loss}, i, 1e-2).finite());
  CHECK(finite == std::vector<bool>{true, true, false});
}
