// Gradients are measured, clipped and applied, all at once or during backward.
#include "optim/step.h"

#include "autograd/tape.h"
#include "core/parallel.h"
#include "ops/arithmetic/arithmetic.h"
#include "ops/arithmetic/reduce.h"
#include "ops/losses/loss.h"
#include "optim/formulas.h"
#include "tests/optim/two_parameters.h"

#include <doctest/doctest.h>

#include <cmath>

using namespace lacuna;

TEST_CASE("the norm of all gradients does not depend on threads or order") {
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
      return step.report().gradient_norm;
    };
    const double expected = norm(false);
    CHECK(expected == doctest::Approx(std::sqrt(sum)).epsilon(1e-12));
    CHECK(norm(true) == expected);
    for (const int other : {1, 3}) {
      const ThreadCountScope scope(other);
      CHECK(norm(false) == expected);
    }
  }
  CHECK(formula::clip_factor(4, 1) == doctest::Approx(0.25).epsilon(1e-6));
  CHECK(formula::clip_factor(0.5, 1) == 1);
}

TEST_CASE("frozen parameters take no part") {
  TwoParameters model;
  model.set_gradients(4);
  model.weight.set_trainable(false);
  const auto optimizer = make_optimizer("sgd", {}, model);
  const std::vector<Parameter*> parameters = model.parameters();
  const std::vector<double> weight = model.weight.tensor().to_vector();
  OptimizerStep step(*optimizer, parameters, 1, {});
  step.measure(parameters);
  CHECK(step.report().gradient_norm == std::sqrt(sum_of_squares(model.bias.grad())));
  step.apply(parameters);
  CHECK(model.weight.tensor().to_vector() == weight);
  CHECK_FALSE(model.bias.grad().defined());
}

TEST_CASE("nothing is updated from the first gradient on that is not finite, and it is named") {
  for (const double norm : {0.0, 1.0}) {
    TwoParameters model;
    model.set_gradients(1);
    model.bias.grad().data<float>()[1] = std::numeric_limits<float>::infinity();
    const auto optimizer = make_optimizer("adamw", {}, model);
    const std::vector<Parameter*> parameters = model.parameters();
    const std::vector<double> before = model.values();
    OptimizerStep step(*optimizer, parameters, 1, {.norm = norm});
    step.measure(model.weight);
    CHECK(step.report().nonfinite == nullptr);
    step.measure(model.bias);
    step.apply(parameters);
    const StepReport report = step.report();
    REQUIRE(report.nonfinite != nullptr);
    CHECK(report.nonfinite->path() == "bias");
    CHECK_FALSE(std::isfinite(report.gradient_norm));
    CHECK_FALSE(report.updated);
    CHECK(model.values() == before);
    for (const auto& [name, tensor] : optimizer->state())
      if (name.ends_with(".step")) CHECK(tensor.item() == 0);
  }
}

TEST_CASE("nothing is updated if the loss is not finite") {
  TwoParameters model;
  model.set_gradients(1);
  const auto optimizer = make_optimizer("sgd", {}, model);
  const std::vector<Parameter*> parameters = model.parameters();
  const std::vector<double> before = model.values();
  OptimizerStep step(*optimizer, parameters, 1, {});
  step.add_loss(Tensor::full({}, 2, DType::f32, Device::cpu), 0.5);
  CHECK(step.report().loss == 1);
  step.add_loss(Tensor::full({}, NAN, DType::f32, Device::cpu), 0.5);
  step.measure(model.weight);
  step.apply(model.weight);
  CHECK(std::isnan(step.report().loss));
  CHECK_FALSE(step.report().updated);
  CHECK(model.values() == before);
}

TEST_CASE("a step adds up weighted losses and says what was updated") {
  TwoParameters model;
  model.set_gradients(1);
  const auto optimizer = make_optimizer("sgd", {}, model);
  const std::vector<Parameter*> parameters = model.parameters();
  OptimizerStep step(*optimizer, parameters, 1, {});
  step.add_loss(Tensor::full({}, 2, DType::f32, Device::cpu), 0.25);
  step.add_loss(Tensor::full({}, 4, DType::f64, Device::cpu), 0.75);
  CHECK_FALSE(step.report().updated);
  step.measure(model.weight);
  step.apply(model.weight);
  const StepReport report = step.report();
  CHECK(report.loss == 3.5);
  CHECK(report.updated);
}

TEST_CASE("on meta a step does nothing and reports nothing") {
  TwoParameters model(Device::meta);
  model.set_gradients(1);
  const auto optimizer = make_optimizer("lamb", {}, model);
  const std::vector<Parameter*> parameters = model.parameters();
  OptimizerStep step(*optimizer, parameters, 1, {.norm = 1});
  step.add_loss(Tensor::full({}, 2, DType::f32, Device::meta), 1);
  step.measure(parameters);
  step.apply(parameters);
  CHECK(step.report().loss == 0);
  CHECK(step.report().gradient_norm == 0);
}

TEST_CASE("two parameters that are added have equal gradients under every optimizer") {
  // Add hands one tensor to both of its inputs, and LAMB writes into it.
  struct Sum : Module {
    Sum() : Module(ModelContext{}), a(*this, "a", {4, 6}, start(1)), b(*this, "b", {4, 6}, start(2)) {
      set_role(Role::block);
    }
    static Init start(int site) { return TwoParameters::filled(site); }
    Parameter a, b;
  };
  for (const std::string& name : optimizers().names()) {
    for (const bool in_backward : {false, true}) {
      CAPTURE(name);
      Sum added, apart;
      const auto values = [&](Sum& model, bool shared) {
        const auto optimizer = make_optimizer(name, {}, model);
        const std::vector<Parameter*> parameters = model.parameters();
        for (int i = 0; i < 3; ++i) {
          const std::unique_ptr<MemoryPolicy> policy = make_policy("exact");
          Tape tape(*policy);
          OptimizerStep step(*optimizer, parameters, 0.1, {});
          const Variable sum = [&] {
            const Recording recording(tape);
            return apply(Add{}, model.a.variable(), model.b.variable());
          }();
          const Tensor dy = Tensor::from(std::span<const float>(drawn(i, 24)), {4, 6});
          if (shared && in_backward) {
            step_in_backward(tape, {{sum, dy}}, step);
          } else {
            tape.backward({{sum, dy}});
            if (!shared)
              for (Parameter* parameter : parameters) parameter->set_grad(parameter->grad().clone());
            step.measure(parameters);
            step.apply(parameters);
          }
        }
        return std::pair{model.a.tensor().to_vector(), model.b.tensor().to_vector()};
      };
      CHECK(values(added, true) == values(apart, false));
    }
  }
}
