// The loss scale of f16: how it adapts, and that it cancels in updates. Whole steps: tests/models/loss_scale.cpp.
#include "optim/loss_scale.h"

#include "ops/arithmetic/arithmetic.h"
#include "optim/step.h"
#include "tests/optim/two_parameters.h"

#include <doctest/doctest.h>

#include <array>
#include <vector>

using namespace lacuna;

namespace {

constexpr std::array devices{Device::cpu, Device::cuda};

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
