#include "optim/optimizer.h"

#include "core/parallel.h"
#include "optim/step.h"
#include "tests/optim/two_parameters.h"
#include "tests/refusal.h"

#include <doctest/doctest.h>

#include <cmath>

using namespace lacuna;

namespace {

const std::map<std::string, OptionValues> kinds{{"sgd", {{"momentum", 0.9}}},       {"adam", {{"weight_decay", 0.1}}},
                                                {"adamw", {{"weight_decay", 0.1}}}, {"adan", {{"weight_decay", 0.1}}},
                                                {"lion", {{"weight_decay", 0.1}}},  {"lamb", {{"weight_decay", 0.1}}},
                                                {"adagrad", {{"lr_decay", 0.1}}},   {"muon", {}},
                                                {"adafactor", {{"beta1", 0.9}}}};
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

TEST_CASE("a step of an optimizer of elements allocates nothing") {
  for (const auto& kind : kinds) {
    const std::string& name = kind.first;
    const OptionValues& settings = kind.second;
    if (name == "muon" || name == "adafactor") continue;
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

TEST_CASE("a step of an optimizer of matrices allocates as much on meta as on the CPU, and keeps nothing") {
  for (const std::string name : {"muon", "adafactor"}) {
    CAPTURE(name);
    for (const DType type : {DType::f32, DType::bf16}) {
      const auto peak = [&](Device device) {
        TwoParameters model(device, 128, 1024);
        const auto optimizer = make_optimizer(name, kinds.at(name), model);
        model.set_gradients(0, type);
        Ledger& account = ledger(device);
        account.reset_peak();
        const std::int64_t before = account.total();
        optimizer->step(0.1);
        CHECK(account.total() == before);
        return account.peak() - before;
      };
      CHECK(peak(Device::meta) == peak(Device::cpu));
    }
  }
}

TEST_CASE("Muon takes the matrices of hidden layers, and AdamW all else") {
  const auto kinds_of = [](const Module& model) {
    std::map<std::string, Shape> found;
    for (const auto& [name, tensor] : make_optimizer("muon", {}, model)->state()) found.emplace(name, tensor.shape());
    return found;
  };
  struct Layers : Module {
    Layers()
        : Module(ModelContext{}),
          embedding(*this, "embedding", {9, 4}, TwoParameters::filled(1)),
          block(*this, "block"),
          matrix(block, "matrix", {4, 4}, TwoParameters::filled(2)),
          convolution(block, "convolution", {4, 3, 3, 4}, TwoParameters::filled(3)),
          bias(block, "bias", {4}, TwoParameters::filled(4)),
          table(block, "table", {5, 4}, TwoParameters::filled(5)),
          head(*this, "head", {2, 4}, TwoParameters::filled(6)) {
      table.exclude_from_decay();
    }
    Parameter embedding;
    struct Part : Module {
      using Module::Module;
    } block;
    Parameter matrix, convolution, bias, table, head;
  } model;
  test::check_says(message_of([&] { make_optimizer("muon", {}, model); }), "blocks");
  model.block.set_role(Role::block);
  const auto kinds = kinds_of(model);
  CHECK(kinds.contains("block.matrix.momentum_buffer"));
  for (const std::string path : {"embedding", "block.convolution", "block.bias", "block.table", "head"})
    CHECK_MESSAGE((kinds.contains(path + ".exp_avg") && !kinds.contains(path + ".momentum_buffer")), path);
  test::check_says(message_of([&] {
                     make_optimizer("muon", {{"adjust_lr_fn", std::string("none")}}, model);
                   }),
                   "adjust_lr_fn");
  const std::string message = message_of([&] { make_optimizer("adafactor", {{"warmup_init", true}}, model); });
  test::check_says(message, "relative_step");
}

TEST_CASE("Adafactor keeps a mean for each row and each column of the last two axes") {
  struct Stack : Module {
    explicit Stack(Device device)
        : Module(ModelContext{.device = device}), weight(*this, "weight", {2, 3, 5}, TwoParameters::filled(1)) {}
    Parameter weight;
  };
  for (const Device device : {Device::cpu, Device::cuda}) {
    Stack model(device);
    const auto optimizer = make_optimizer("adafactor", {{"clip_threshold", 1e9}, {"scale_parameter", false}}, model);
    const std::vector<float> g = drawn(7, 30);
    std::vector<double> expected = model.weight.tensor().to_vector(), row(6), column(10);
    for (int step = 1; step <= 2; ++step) {
      model.weight.set_grad(Tensor::from(std::span<const float>(g), {2, 3, 5}, DType::f32, device));
      optimizer->step(0.1);
      const double take = std::pow(step, -0.8);
      for (double& value : row) value *= 1 - take;
      for (double& value : column) value *= 1 - take;
      for (std::size_t i = 0; i < 30; ++i) {
        const double square = static_cast<double>(g[i]) * static_cast<double>(g[i]) * take;
        row[i / 5] += square / 5;
        column[i / 15 * 5 + i % 5] += square / 3;
      }
      for (std::size_t i = 0; i < 30; ++i) {
        const std::size_t matrix = i / 15;
        const double mean = (row[3 * matrix] + row[3 * matrix + 1] + row[3 * matrix + 2]) / 3;
        expected[i] -= 0.1 * static_cast<double>(g[i]) / std::sqrt(row[i / 5] / mean * column[matrix * 5 + i % 5]);
      }
    }
    const std::vector<double> got = model.weight.tensor().to_vector();
    for (std::size_t i = 0; i < 30; ++i) CHECK(got[i] == doctest::Approx(expected[i]).epsilon(1e-5));
    std::map<std::string, Shape> shapes;
    for (const auto& [name, tensor] : optimizer->state()) shapes.emplace(name, tensor.shape());
    CHECK(shapes.at("weight.exp_avg_sq_row") == Shape{2, 3});
    CHECK(shapes.at("weight.exp_avg_sq_col") == Shape{2, 5});
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
  test::check_says(message_of([&] {
                     make_optimizer("sgd", {{"momentum", std::nan("")}}, model);
                   }),
                   "sgd: momentum: expected");
  CHECK(message_of([&] {
          make_optimizer("sgd", {{"nesterov", true}}, model);
        }) == "optimizer sgd: nesterov needs a momentum above 0");
  TwoParameters other;
  CHECK_THROWS_WITH_AS(make_optimizer("sgd", {}, other)->step(std::nan("")), doctest::Contains("learning rate"), Error);
}
