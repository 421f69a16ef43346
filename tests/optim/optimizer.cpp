#include "optim/optimizer.h"

#include "core/parallel.h"
#include "optim/step.h"
#include "tests/optim/two_parameters.h"

#include <doctest/doctest.h>

#include <cmath>

using namespace lacuna;

namespace {

const std::map<std::string, OptionValues> kinds{{"sgd", {{"momentum", 0.9}}},       {"adam", {{"weight_decay", 0.1}}},
                                                {"adamw", {{"weight_decay", 0.1}}}, {"adan", {{"weight_decay", 0.1}}},
                                                {"lion", {{"weight_decay", 0.1}}},  {"lamb", {{"weight_decay", 0.1}}},
                                                {"adagrad", {{"lr_decay", 0.1}}}};
constexpr StatePrecision precisions[] = {StatePrecision::f32, StatePrecision::bf16, StatePrecision::int8};

std::string message_of(auto&& f) {
  try {
    f();
  } catch (const Error& error) {
    CHECK(error.fault() == Fault::input);
    return error.what();
  }
  FAIL("nothing was thrown");
  return {};
}

}  // namespace

TEST_CASE("every optimizer has a case here") {
  for (const std::string& name : optimizers().names()) CHECK_MESSAGE(kinds.contains(name), name);
}

TEST_CASE("a step allocates nothing") {
  for (const auto& kind : kinds) {
    const std::string& name = kind.first;
    const OptionValues& settings = kind.second;
    CAPTURE(name);
    for (const Device device : {Device::cpu, Device::meta}) {
      for (const StatePrecision precision : precisions) {
        TwoParameters model(device, 128, 1024);
        const auto optimizer = make_optimizer(name, settings, model, {.precision = precision});
        for (const DType type : {DType::f32, DType::bf16}) {
          model.set_gradients(0, type);
          const Tensor factor = Tensor::full({}, 0.5, DType::f32, device);
          Ledger& account = ledger(device);
          account.reset_peak();
          const std::int64_t before = account.total();
          optimizer->step(0.1, {.factor = factor, .limit = 2});
          CHECK(account.peak() == before);
          CHECK(account.total() == before);
        }
      }
    }
  }
}

TEST_CASE("state counts as optimizer memory, and frozen parameters have none") {
  const std::int64_t before = at(ledger(Device::cpu).live(), Purpose::optimizer);
  TwoParameters model;
  model.weight.set_trainable(false);
  const auto optimizer = make_optimizer("adamw", {}, model);
  CHECK(at(ledger(Device::cpu).live(), Purpose::optimizer) - before ==
        2 * 4 * 2 + 8);  // two states of bias [2], and its step
  std::vector<std::string> names;
  for (const auto& state : optimizer->state()) names.push_back(state.name);
  CHECK(names == std::vector<std::string>{"bias.exp_avg", "bias.exp_avg_sq", "bias.step"});

  SUBCASE("a frozen parameter stays as it is") {
    const std::vector<double> weight = model.weight.tensor().to_vector();
    model.set_gradients(0);
    optimizer->step(0.1);
    CHECK(model.weight.tensor().to_vector() == weight);
  }
  SUBCASE("a parameter that is thawed later starts with new state") {
    model.set_gradients(0);
    optimizer->step(0.1);
    model.weight.set_trainable(true);
    model.set_gradients(1);
    optimizer->step(0.1);
    TwoParameters fresh;
    const auto other = make_optimizer("adamw", {}, fresh);
    fresh.set_gradients(1);
    other->step(0.1);
    CHECK(model.weight.tensor().to_vector() == fresh.weight.tensor().to_vector());
    CHECK(optimizer->state().size() == 6);
  }
}

TEST_CASE("an update in place makes saved tensors stale") {
  TwoParameters model;
  const auto optimizer = make_optimizer("sgd", {}, model);
  const std::uint64_t version = model.weight.tensor().storage()->version();
  model.set_gradients(0);
  optimizer->step(0.1);
  CHECK(model.weight.tensor().storage()->version() == version + 1);
}

TEST_CASE("a parameter without a gradient does not change, and gradients are released") {
  TwoParameters model;
  const auto optimizer = make_optimizer("adamw", {}, model);
  const std::vector<double> before = model.values();
  optimizer->step(0.1);
  CHECK(model.values() == before);
  const std::int64_t held = at(ledger(Device::cpu).live(), Purpose::gradients);
  model.set_gradients(0);
  optimizer->zero_grad();
  CHECK_FALSE(model.weight.grad().defined());
  CHECK(at(ledger(Device::cpu).live(), Purpose::gradients) == held);
}

TEST_CASE("an optimizer with copied state continues to the same bits") {
  for (const auto& kind : kinds) {
    const std::string& name = kind.first;
    const OptionValues& settings = kind.second;
    for (const StatePrecision precision : precisions) {
      CAPTURE(name);
      TwoParameters unbroken(Device::cpu, 70, 90), broken(Device::cpu, 70, 90);
      const OptimizerOptions options{.precision = precision};
      const auto whole = make_optimizer(name, settings, unbroken, options);
      auto part = make_optimizer(name, settings, broken, options);
      for (int step = 0; step < 8; ++step) {
        if (step == 3) {
          const auto old = std::move(part);
          part = make_optimizer(name, settings, broken, options);
          const auto from = old->state(), to = part->state();
          REQUIRE(from.size() == to.size());
          for (std::size_t i = 0; i < to.size(); ++i) {
            CHECK(from[i].name == to[i].name);
            to[i].tensor.copy_from(from[i].tensor);
          }
        }
        unbroken.set_gradients(step);
        broken.set_gradients(step);
        whole->step(0.01);
        part->step(0.01);
      }
      CHECK(unbroken.values() == broken.values());
    }
  }
}

TEST_CASE("a gradient factor equals a scaled gradient") {
  for (const auto& kind : kinds) {
    const std::string& name = kind.first;
    const OptionValues& settings = kind.second;
    CAPTURE(name);
    TwoParameters model, other;
    const auto optimizer = make_optimizer(name, settings, model), reference = make_optimizer(name, settings, other);
    for (int step = 0; step < 3; ++step) {
      model.set_gradients(step);
      other.set_gradients(step);
      for (const Parameter* parameter : other.parameters())
        for (std::int64_t i = 0; i < parameter->shape().count(); ++i) parameter->grad().data<float>()[i] *= 0.25F;
      optimizer->step(0.1, {.factor = Tensor::full({}, 0.25, DType::f32, Device::cpu)});
      reference->step(0.1);
    }
    CHECK(model.values() == other.values());
  }
}

TEST_CASE("groups have their own rate and decay") {
  TwoParameters model;
  const std::vector<double> before = model.bias.tensor().to_vector();
  const auto optimizer = make_optimizer("sgd", {{"weight_decay", 0.25}}, model,
                                        {.groups = {.rules = {{.pattern = "w*", .lr_scale = 0, .weight_decay = {}},
                                                              {.pattern = "*", .lr_scale = 2, .weight_decay = 0.5}}}});
  const std::vector<double> weight = model.weight.tensor().to_vector();
  model.set_gradients(0);
  optimizer->step(0.125);
  CHECK(model.weight.tensor().to_vector() == weight);
  for (std::size_t i = 0; i < 2; ++i)
    CHECK(model.bias.tensor().to_vector()[i] ==
          doctest::Approx(before[i] - 0.25 * (model.bias.grad().to_vector()[i] + 0.5 * before[i])).epsilon(1e-6));
  CHECK_THROWS_WITH_AS(make_optimizer("sgd", {}, model,
                                      {.groups = {.rules = {{.pattern = "head*", .lr_scale = 1, .weight_decay = {}}}}}),
                       doctest::Contains("optimizer.groups: the pattern `head*`"), Error);
  const OptimizerKind& kind = optimizers().get("sgd");
  CHECK_THROWS_WITH_AS(
      kind.make(kind.options,
                {.groups = {{.parameters = {&model.weight}}, {.parameters = {&model.weight}}}, .precision = {}}),
      doctest::Contains("weight"), Error);
}

TEST_CASE("wrong settings are refused, all at once") {
  const TwoParameters model;
  CHECK(message_of([&] { make_optimizer("adamww", {}, model); }) == "unknown optimizer adamww: did you mean adamw?");
  const std::string message = message_of([&] {
    make_optimizer("adamw", {{"beta1", 1.0}, {"weight_deca", 0.1}, {"weight_decay", -1.0}, {"eps", true}}, model);
  });
  for (const char* const words : {"adamw: beta1: expected a number in [0, 1)", "adamw: eps: expected a number",
                                  "\"weight_deca\", did you mean \"weight_decay\"?",
                                  "adamw: weight_decay: expected a number in [0, inf), got `-1`"})
    CHECK_MESSAGE(message.find(words) != std::string::npos, message);
  CHECK(std::ranges::count(message, '\n') == 3);
  CHECK(message_of([&] {
          make_optimizer("sgd", {{"momentum", std::nan("")}}, model);
        }).find("sgd: momentum: expected") != std::string::npos);
  CHECK(message_of([&] {
          make_optimizer("sgd", {{"nesterov", true}}, model);
        }) == "optimizer sgd: nesterov needs a momentum above 0");
  TwoParameters other;
  CHECK_THROWS_WITH_AS(make_optimizer("sgd", {}, other)->step(std::nan("")), doctest::Contains("learning rate"), Error);
}
