// Updates of weights that are stored in bf16.
#include "core/ledger.h"
#include "core/parallel.h"
#include "optim/optimizer.h"
#include "tests/optim/two_parameters.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

using namespace lacuna;

namespace {

constexpr WeightRounding roundings[] = {WeightRounding::stochastic, WeightRounding::kahan};
constexpr std::int64_t rows = 67, columns = 71;  // above OptimizerState::least_coded, no multiple of a block

std::unique_ptr<Optimizer> made(const std::string& name, const Module& model, WeightRounding rounding,
                                StatePrecision precision = StatePrecision::f32) {
  return make_optimizer(name, {}, model, {.precision = precision, .rounding = rounding});
}

double mean_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

/// The weight after steps of SGD by 1/16 of the distance of two bf16 numbers below 1.
std::vector<double> after_small_steps(WeightRounding rounding, int steps) {
  TwoParameters model(Device::cpu, 128, 1024, true);
  model.weight.tensor().fill(1);
  const auto optimizer = made("sgd", model, rounding);
  for (int step = 0; step < steps; ++step) {
    model.weight.set_grad(Tensor::full(model.weight.shape(), 0x1p-12, DType::f32, Device::cpu));
    optimizer->step(1);
  }
  return model.weight.tensor().to_vector();
}

std::vector<double> trained(TwoParameters& model, Optimizer& optimizer, int first, int last) {
  for (int step = first; step < last; ++step) {
    model.set_gradients(step);
    optimizer.step(1e-2);
  }
  return model.values();
}

}  // namespace

TEST_CASE("bf16 weights: steps below half the distance of two numbers move the mean by as much") {
  const std::vector<double> once = after_small_steps(WeightRounding::stochastic, 1);
  CHECK(std::ranges::count(once, 1.0) > 0);
  CHECK(std::ranges::count(once, 1 - 0x1p-8) > 0);
  CHECK(std::abs(mean_of(once) - (1 - 0x1p-12)) < 1.1e-5);  // four standard deviations
  CHECK(std::abs(mean_of(after_small_steps(WeightRounding::stochastic, 16)) - (1 - 0x1p-8)) < 4.4e-5);
}

TEST_CASE("bf16 weights: Kahan compensation applies updates that rounding to nearest loses") {
  CHECK(mean_of(after_small_steps(WeightRounding::kahan, 1)) == 1);
  CHECK(mean_of(after_small_steps(WeightRounding::kahan, 16)) == 1 - 0x1p-8);
}

TEST_CASE("bf16 weights: an update of each optimizer is that in f32 within one bf16 step") {
  for (const std::string& name : optimizers().names()) {
    CAPTURE(name);
    for (const WeightRounding rounding : roundings) {
      TwoParameters rounded(Device::cpu, rows, columns, true), exact(Device::cpu, rows, columns);
      exact.weight.tensor().copy_from(rounded.weight.tensor());
      const std::vector<double> before = rounded.values(),
                                values = trained(rounded, *made(name, rounded, rounding), 0, 1),
                                expected = trained(exact, *made(name, exact, rounding), 0, 1);
      const double step = rounding == WeightRounding::kahan ? 0x1p-8 : 0x1p-7;
      std::int64_t far = 0, moved = 0;
      for (std::size_t i = 0; i < values.size(); ++i) {
        far += std::abs(values[i] - expected[i]) > step * std::abs(expected[i]) + 1e-7 ? 1 : 0;
        moved += values[i] != before[i] ? 1 : 0;
      }
      CHECK(far == 0);
      CHECK(moved > 0);
    }
  }
}

TEST_CASE("bf16 weights: with kahan ten updates follow f32") {
  for (const std::string& name : optimizers().names()) {
    CAPTURE(name);
    TwoParameters rounded(Device::cpu, rows, columns, true), exact(Device::cpu, rows, columns);
    exact.weight.tensor().copy_from(rounded.weight.tensor());
    const std::vector<double> values = trained(rounded, *made(name, rounded, WeightRounding::kahan), 0, 10),
                              expected = trained(exact, *made(name, exact, WeightRounding::kahan), 0, 10);
    double difference = 0, size = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      difference += std::abs(values[i] - expected[i]);
      size += std::abs(expected[i]);
    }
    CHECK(difference < 0x1p-8 * size);
  }
}

TEST_CASE("bf16 weights: the same bits for any number of threads, and after going on from a stored state") {
  for (const std::string& name : optimizers().names()) {
    CAPTURE(name);
    for (const WeightRounding rounding : roundings) {
      const auto run = [&](int threads) {
        const ThreadCountScope scope(threads);
        TwoParameters model(Device::cpu, 300, 200, true);
        return trained(model, *made(name, model, rounding, StatePrecision::int8), 0, 4);
      };
      const std::vector<double> whole = run(1);
      CHECK(run(2) == whole);
      CHECK(run(3) == whole);
      TwoParameters first(Device::cpu, 300, 200, true), second(Device::cpu, 300, 200, true);
      const auto before = made(name, first, rounding, StatePrecision::int8),
                 after = made(name, second, rounding, StatePrecision::int8);
      trained(first, *before, 0, 2);
      second.weight.tensor().copy_from(first.weight.tensor());
      second.bias.tensor().copy_from(first.bias.tensor());
      const auto from = before->state(), to = after->state();
      REQUIRE(from.size() == to.size());
      for (std::size_t i = 0; i < from.size(); ++i) to[i].tensor.copy_from(from[i].tensor);
      CHECK(trained(second, *after, 2, 4) == whole);
    }
  }
}

TEST_CASE("bf16 weights: bytes of a weight with AdamW's state in 8 bits") {
  constexpr std::int64_t count = 128 * 1024, state = 2 * (count + 4 * (count / 256)) + 8;
  for (const Device device : {Device::cpu, Device::meta}) {
    for (const WeightRounding rounding : roundings) {
      const auto bytes = [&](Purpose purpose) { return at(ledger(device).live(), purpose); };
      const std::int64_t parameters = bytes(Purpose::parameters), optimizer = bytes(Purpose::optimizer);
      TwoParameters model(device, 128, 1024, true);
      model.bias.set_trainable(false);
      const auto adamw = made("adamw", model, rounding, StatePrecision::int8);
      CHECK(bytes(Purpose::parameters) - parameters == 2 * count + 4 * 128);
      CHECK(bytes(Purpose::optimizer) - optimizer == state + (rounding == WeightRounding::kahan ? 2 * count : 0));
      model.set_gradients(0, DType::bf16);
      ledger(device).reset_peak();
      const std::int64_t before = ledger(device).total();
      adamw->step(1e-2);
      CHECK(ledger(device).peak() == before);
    }
  }
}
