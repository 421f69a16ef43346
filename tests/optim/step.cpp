// Gradients measured, held down and applied, all at once and in backward.
#include "optim/step.h"

#include "core/parallel.h"
#include "tests/optim/two_parameters.h"

#include <doctest/doctest.h>

#include <cmath>

using namespace lacuna;

TEST_CASE("the norm of all gradients, whatever the number of threads and the order") {
  TwoParameters model(Device::cpu, 300, 701);
  const std::vector<Parameter*> parameters = model.parameters();
  const auto optimizer = make_optimizer("sgd", {}, model);
  for (const DType type : {DType::f32, DType::bf16}) {
    model.set_gradients(4, type);
    double sum = 0;
    for (const Parameter* parameter : parameters)
      for (const double g : parameter->grad().to_vector()) sum += g * g;
    const auto norm = [&](bool reversed) {
      OptimizerStep step(*optimizer, parameters, 0, {});
      step.measure(reversed ? model.bias : model.weight);
      step.measure(reversed ? model.weight : model.bias);
      return step.gradient_norm();
    };
    const int count = threads();
    const double expected = norm(false);
    CHECK(expected == doctest::Approx(std::sqrt(sum)).epsilon(1e-12));
    CHECK(norm(true) == expected);
    for (const int other : {1, 3}) {
      set_threads(other);
      CHECK(norm(false) == expected);
    }
    set_threads(count);
  }
  CHECK(clip_factor(4, 1) == doctest::Approx(0.25).epsilon(1e-6));
  CHECK(clip_factor(0.5, 1) == 1);
}

TEST_CASE("frozen parameters take no part") {
  TwoParameters model;
  model.set_gradients(4);
  model.weight.set_trainable(false);
  const auto optimizer = make_optimizer("sgd", {}, model);
  const std::vector<Parameter*> parameters = model.parameters();
  const std::vector<double> weight = model.weight.tensor().to_vector();
  OptimizerStep step(*optimizer, parameters, 1, {});
  for (Parameter* parameter : parameters) step.measure(*parameter);
  CHECK(step.gradient_norm() == std::sqrt(sum_of_squares(model.bias.grad())));
  for (Parameter* parameter : parameters) step.apply(*parameter);
  CHECK(model.weight.tensor().to_vector() == weight);
  CHECK_FALSE(model.bias.grad().defined());
}

TEST_CASE("a gradient that is not finite is named") {
  TwoParameters model;
  model.set_gradients(1);
  model.bias.grad().data<float>()[1] = std::numeric_limits<float>::infinity();
  const auto optimizer = make_optimizer("sgd", {}, model);
  const std::vector<Parameter*> parameters = model.parameters();
  OptimizerStep step(*optimizer, parameters, 1, {});
  step.measure(model.weight);
  CHECK(step.nonfinite() == nullptr);
  step.measure(model.bias);
  REQUIRE(step.nonfinite() != nullptr);
  CHECK(step.nonfinite()->path() == "bias");
  CHECK_FALSE(std::isfinite(step.gradient_norm()));
}
