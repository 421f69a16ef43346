// The moving average of the weights.
#include "optim/ema.h"

#include "tests/optim/two_parameters.h"

#include <doctest/doctest.h>

using namespace lacuna;

namespace {

struct WithBuffers : TwoParameters {
  Buffer mean{*this, "running_mean", {2}, 1};
  Buffer count{*this, "count", {1}, 0, DType::i64};
};

}  // namespace

TEST_CASE("the decay of an average warms up as it should") {
  // timm.utils.ModelEmaV3(model, decay=0.99, use_warmup=True).get_decay(step + 1)
  const auto timm = [](std::int64_t step) { return decay_at(step, 0.99, AverageWarmup::timm); };
  CHECK(timm(0) == 0);
  CHECK(timm(1) == doctest::Approx(0.3700394750525634));
  CHECK(timm(10) == doctest::Approx(0.7978199917664258));
  CHECK(timm(5000) == 0.99);
  CHECK(decay_at(5, 0.99, AverageWarmup::tensorflow) == 0.4);
  CHECK(decay_at(5000, 0.99, AverageWarmup::tensorflow) == 0.99);
  CHECK(decay_at(0, 0.99, AverageWarmup::none) == 0.99);
}

TEST_CASE("the average of weights and buffers equals timm's, and frozen parameters take no memory") {
  const std::int64_t before = at(ledger(Device::cpu).live(), Purpose::optimizer);
  WithBuffers model;
  model.weight.set_trainable(false);
  WeightAverage average(model, 0.75);
  CHECK(at(ledger(Device::cpu).live(), Purpose::optimizer) - before == 2 * 4 + 2 * 4 + 8);
  const std::vector<double> start = model.bias.tensor().to_vector();
  model.bias.tensor().fill(3);
  model.mean.tensor().fill(5);
  model.count.tensor().fill(7);
  average.update(1000);
  {
    const WeightAverage::Exchange exchange(&average);
    for (std::size_t i = 0; i < 2; ++i)
      CHECK(model.bias.tensor().to_vector()[i] == doctest::Approx(0.75 * start[i] + 0.25 * 3).epsilon(1e-6));
    CHECK(model.mean.tensor().to_vector() == std::vector<double>{2, 2});
    CHECK(model.count.tensor().to_vector() == std::vector<double>{7});
  }
  CHECK(model.bias.tensor().to_vector() == std::vector<double>{3, 3});
  CHECK(model.mean.tensor().to_vector() == std::vector<double>{5, 5});
  average.update(0);  // a tenth of what it was is left
  {
    const WeightAverage::Exchange exchange(&average);
    CHECK(model.bias.tensor().to_vector()[0] ==
          doctest::Approx(0.1 * (0.75 * start[0] + 0.25 * 3) + 0.9 * 3).epsilon(1e-6));
  }
  const WeightAverage::Exchange nothing(nullptr);
  CHECK(model.bias.tensor().to_vector() == std::vector<double>{3, 3});
}
