// Updates of parameters on cuda, on the stand-in, against the CPU's.
#include "core/stand_in/fibers.h"
#include "optim/ema.h"
#include "optim/step.h"
#include "tests/optim/two_parameters.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <memory>
#include <optional>

using namespace lacuna;

namespace {

/// Tensors of less than a block of states, of a chunk of elements (optim/chunks.h), and of several.
struct ManyParameters : Module {
  explicit ManyParameters(Device device) : Module(ModelContext{.device = device}) {
    set_role(Role::block);
    for (const std::int64_t count : {5000, 1, 40003, 16384, 255, 16385, 7})
      tensors.push_back(std::make_unique<Parameter>(*this, fmt::format("tensor{}", tensors.size()), Shape{count},
                                                    TwoParameters::filled(static_cast<int>(count))));
    for (const Shape& shape : {Shape{67, 71}, Shape{130, 35}})
      tensors.push_back(std::make_unique<Parameter>(*this, fmt::format("tensor{}", tensors.size()), shape,
                                                    TwoParameters::filled(static_cast<int>(shape.count()))));
  }
  void set_gradients(DType type) {
    for (const auto& tensor : tensors) {
      const Tensor gradient = Tensor::empty(tensor->shape(), DType::f32, tensor->tensor().device(), Purpose::gradients);
      TwoParameters::filled(3)(gradient, {});
      tensor->set_grad(gradient.to(type));
    }
  }
  std::vector<double> values() const {
    std::vector<double> all;
    for (const auto& tensor : tensors) std::ranges::copy(tensor->tensor().to_vector(), std::back_inserter(all));
    return all;
  }
  std::vector<std::unique_ptr<Parameter>> tensors;
};

struct Run {
  std::vector<double> parameters;
  std::map<std::string, std::vector<double>> states;
  StepReport report;
};

struct Case {
  std::string name;
  OptionValues settings{};
  StatePrecision precision = StatePrecision::f32;
  DType gradients = DType::f32;
  Clipping clipping{.norm = 1};
  std::optional<WeightRounding> rounding{};  // of a weight in bf16
};

/// Steps of two parameters, of which the larger is above OptimizerState::least_coded and no multiple of a block.
Run run(const Case& of, Device device, int steps = 3) {
  TwoParameters model(device, 67, 71, of.rounding.has_value());
  const std::vector<Parameter*> parameters = model.parameters();
  const auto optimizer =
      make_optimizer(of.name, of.settings, model,
                     {.precision = of.precision, .rounding = of.rounding.value_or(WeightRounding::stochastic)});
  Run result;
  for (int step = 0; step < steps; ++step) {
    model.set_gradients(step, of.gradients);
    OptimizerStep update(*optimizer, parameters, 1e-2, of.clipping);
    update.add_loss(Tensor::full({}, 1.5, DType::f32, device), 0.5);
    update.measure(parameters);
    update.apply(parameters);
    result.report = update.report();
  }
  result.parameters = model.values();
  for (const auto& [name, tensor] : optimizer->state()) result.states[name] = tensor.to_vector();
  return result;
}

std::vector<Case> cases() {
  std::vector<Case> all;
  const std::vector<Case> rules{
      {"sgd"},
      {"sgd", {{"momentum", 0.9}, {"weight_decay", 0.1}}},
      {"sgd", {{"momentum", 0.9}, {"nesterov", true}}},
      {"adam", {{"weight_decay", 0.1}}},
      {"adamw"},
      {"adan", {{"weight_decay", 0.1}}},
      {"adan", {{"weight_decay", 0.1}, {"no_prox", true}}},
      {"lion", {{"weight_decay", 0.1}}},
      {"adagrad", {{"weight_decay", 0.1}, {"lr_decay", 0.1}}},
      {"lamb"},
      {"lamb", {{"weight_decay", 0.0}}},
      {"lamb", {{"trust_clip", true}}},
      {"muon"},
      {"muon", {{"nesterov", false}, {"adjust_lr_fn", std::string("match_rms_adamw")}}},
      {"adafactor"},
      {"adafactor", {{"beta1", 0.9}, {"weight_decay", 0.1}, {"relative_step", true}}},
  };
  for (Case rule : rules) {
    for (const DType gradients : {DType::f32, DType::bf16}) {
      rule.gradients = gradients;
      for (const StatePrecision precision : {StatePrecision::f32, StatePrecision::bf16, StatePrecision::int8}) {
        rule.precision = precision;
        all.push_back(rule);
      }
    }
  }
  for (const WeightRounding rounding : {WeightRounding::stochastic, WeightRounding::kahan})
    for (const std::string name : {"sgd", "adamw", "adan", "lamb", "muon", "adafactor"})
      for (const StatePrecision precision : {StatePrecision::f32, StatePrecision::int8})
        all.push_back({.name = name, .precision = precision, .rounding = rounding});
  return all;
}

/// Share of the values that differ by more than a small part of the largest.
double share_that_differ(const std::vector<double>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  double largest = 0, differ = 0;
  for (const double value : b) largest = std::max(largest, std::abs(value));
  for (std::size_t i = 0; i < a.size(); ++i) differ += std::abs(a[i] - b[i]) <= 2e-6 * largest ? 0 : 1;
  return differ / static_cast<double>(a.size());
}

}  // namespace

TEST_CASE("cuda: updates of each optimizer, with states of each precision, are the CPU's") {
  for (const Case& of : cases()) {
    CAPTURE(of.name);
    CAPTURE(static_cast<int>(of.precision));
    CAPTURE(name_of(of.gradients));
    const Run here = run(of, Device::cpu), there = run(of, Device::cuda);
    // A sum in another order turns a rounding of bf16 or a sign now and then.
    const bool exact = of.precision == StatePrecision::f32 && of.gradients == DType::f32 && !of.rounding;
    const double few = exact ? 0 : 0.01;
    CHECK(share_that_differ(there.parameters, here.parameters) <= few);
    REQUIRE(there.states.size() == here.states.size());
    for (const auto& [name, values] : here.states) {
      CAPTURE(name);
      CHECK(share_that_differ(there.states.at(name), values) <= few);
    }
    // Squares of eight elements are added in f32 there: 8 · 2⁻²⁴ of their sum at most, half of it after the root.
    CHECK(there.report.gradient_norm == doctest::Approx(here.report.gradient_norm).epsilon(0x1p-22));
    CHECK(there.report.loss == 0.75);
    CHECK(there.report.updated);
  }
}

TEST_CASE("an update of all parameters at once has the bits of updates of one after the other") {
  for (const Device device : {Device::cpu, Device::cuda}) {
    for (const Case& of : cases()) {
      if (of.precision == StatePrecision::bf16 || of.gradients == DType::bf16) continue;
      CAPTURE(of.name);
      const auto run = [&](bool at_once) {
        ManyParameters model(device);
        const std::vector<Parameter*> parameters = model.parameters();
        const auto optimizer = make_optimizer(of.name, of.settings, model, {.precision = of.precision});
        model.set_gradients(of.gradients);
        OptimizerStep step(*optimizer, parameters, 1e-2, of.clipping);
        if (at_once) {
          step.measure(parameters);
          step.apply(parameters);
        } else {
          for (Parameter* const parameter : parameters) step.measure(*parameter);
          for (Parameter* const parameter : parameters) step.apply(*parameter);
        }
        return std::pair{model.values(), step.report().gradient_norm};
      };
      CHECK(run(true) == run(false));
    }
  }
}

TEST_CASE("cuda: an update has the same bits in any order of threads, and with late streams") {
  for (const Case& of : cases()) {
    CAPTURE(of.name);
    const Run first = run(of, Device::cuda, 2);
    const cuda::stand_in::ScheduleScope schedule(3);
    const Run second = run(of, Device::cuda, 2);
    CHECK(second.parameters == first.parameters);
    CHECK(second.states == first.states);
    CHECK(second.report.gradient_norm == first.report.gradient_norm);
  }
}

TEST_CASE("cuda: gradients are clipped by each limit as on the CPU") {
  for (const Clipping clipping :
       {Clipping{}, Clipping{.norm = 0.5}, Clipping{.parameter_norm = 0.5}, Clipping{.value = 0.1}}) {
    const Case of{.name = "sgd", .clipping = clipping};
    CHECK(share_that_differ(run(of, Device::cuda).parameters, run(of, Device::cpu).parameters) == 0);
  }
}

TEST_CASE("cuda: nothing is updated if a gradient or the loss is not finite") {
  for (const bool loss : {false, true}) {
    TwoParameters model(Device::cuda);
    const std::vector<Parameter*> parameters = model.parameters();
    const auto optimizer = make_optimizer("adamw", {}, model);
    const std::vector<double> before = model.values();
    model.set_gradients(0);
    if (!loss) model.bias.grad().fill(NAN);
    OptimizerStep step(*optimizer, parameters, 1e-2, {});
    step.add_loss(Tensor::full({}, loss ? INFINITY : 1, DType::f32, Device::cuda), 1);
    step.measure(parameters);
    step.apply(parameters);
    const StepReport report = step.report();
    CHECK_FALSE(report.updated);
    CHECK(report.nonfinite == (loss ? nullptr : &model.bias));
    CHECK(model.values() == before);
    for (const auto& [name, tensor] : optimizer->state())
      for (const double value : tensor.to_vector()) CHECK(value == 0);
  }
}

TEST_CASE("cuda: the average of weights is the CPU's, and takes their place") {
  const auto averaged = [](Device device) {
    TwoParameters model(device, 5, 7);
    WeightAverage average(model, 0.9);
    model.weight.tensor().fill(0.25);
    average.update(3);
    std::vector<double> values;
    {
      const WeightAverage::Exchange exchange(&average);
      values = model.values();
    }
    for (const double value : model.weight.tensor().to_vector()) CHECK(value == 0.25);
    return values;
  };
  CHECK(averaged(Device::cuda) == averaged(Device::cpu));
}
