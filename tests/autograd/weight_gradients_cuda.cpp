// Gradients of weights on cuda, whose sums come in runs of rows that the card decides, on the stand-in.
#include "autograd/tape.h"
#include "core/ledger.h"
#include "core/planned_device.h"
#include "ops/convolution/conv.h"
#include "ops/curves/activation.h"
#include "ops/products/linear.h"
#include "tests/autograd/graphs.h"
#include "tests/ops/operand_forms.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <string_view>
#include <vector>

namespace lacuna {
namespace {

/// The gradient of the weight in layer(gelu(x)), and the bytes at the peak.
struct Step {
  std::vector<double> gradient{};
  std::int64_t peak = 0;
};

template <class Layer>
Step step(const Layer& layer, const Shape& input, const Shape& weights, std::string_view policy_name, Device device) {
  const auto values = [&](const Shape& shape, std::uint32_t site, DType dtype) {
    return device == Device::meta ? Tensor::empty(shape, dtype, device) : test_values(shape, site, dtype).to(device);
  };
  const Variable x(values(input, 1, DType::bf16), true, "x"), weight(values(weights, 2, DType::f32), true, "weight");
  Ledger& account = ledger(device);
  account.reset_peak();
  const std::int64_t before = account.total();
  Tape tape(policy(policy_name));
  Variable y = [&] {
    const Recording recording(tape);
    return apply(layer, apply(Gelu{}, x), weight, Variable());
  }();
  const Tensor dy = values(y.shape(), 3, DType::bf16);
  std::vector<std::pair<Variable, Tensor>> losses;
  losses.emplace_back(std::move(y), dy);
  tape.backward(std::move(losses));
  Step result{.peak = account.peak() - before};
  if (device != Device::meta) result.gradient = weight.grad().to_vector();
  return result;
}

/// While it lives, products sum so few bytes at a time, and as few are decoded.
struct SmallRuns : SmallRowBlocks {
  explicit SmallRuns(std::int64_t bytes) : SmallRowBlocks(bytes) { row_block_sizes().cuda_sum = bytes; }
};

template <class F>
void for_layers(const F& f) {
  f([](std::string_view policy_name, Device device) { return step(Linear{}, {5000, 8}, {4, 8}, policy_name, device); });
  for (const std::int64_t kernel : {1, 3})
    for (const std::int64_t dilation : {1, 2}) {
      if (kernel == 1 && dilation > 1) continue;
      const std::int64_t padding = (kernel - 1) / 2 * dilation;
      f([=](std::string_view policy_name, Device device) {
        const Conv2d conv{.padding = padding,
                          .dilation = dilation,
                          .kernel_height = kernel,
                          .kernel_width = kernel,
                          .height = 6,
                          .width = 6};
        return step(conv, {7, 6, 6, 8}, {4, 8, kernel, kernel}, policy_name, device);
      });
    }
}

}  // namespace

TEST_CASE("cuda: a layer's input that is computed again in runs gives the bits of one that is kept") {
  for (const std::int64_t bytes : {std::int64_t{1} << 10, std::int64_t{1} << 15, std::int64_t{1} << 25}) {
    const SmallRuns sizes(bytes);
    CAPTURE(bytes);
    for_layers(
        [](const auto& run) { CHECK(run("exact", Device::cuda).gradient == run("keep", Device::cuda).gradient); });
  }
}

TEST_CASE("cuda: a plan counts the runs of the card") {
  const PlannedDeviceScope here(DeviceKind::cuda, card_of(Device::cuda));
  for (const std::int64_t bytes : {std::int64_t{1} << 10, std::int64_t{1} << 25}) {
    const SmallRuns sizes(bytes);
    CAPTURE(bytes);
    for_layers([](const auto& run) { CHECK(run("exact", Device::meta).peak >= run("exact", Device::cuda).peak); });
  }
}

TEST_CASE("cuda: runs grow with a card's memory, blocks with its L2 cache") {
  constexpr std::int64_t gib = std::int64_t{1} << 30, mib = std::int64_t{1} << 20;
  const auto summed = [](std::int64_t memory) {
    const PlannedDeviceScope card(DeviceKind::cuda, {.memory = memory});
    return summed_at_once(Device::meta);
  };
  const auto decoded = [](std::int64_t cache) {
    const PlannedDeviceScope card(DeviceKind::cuda, {.cache = cache});
    return decoded_at_once(Device::meta);
  };
  CHECK(summed(8 * gib) < summed(24 * gib));
  CHECK(summed(24 * gib) < summed(80 * gib));
  for (const std::int64_t sold : {8, 12, 16, 24, 40, 48, 80, 141})  // and what is left where 3 % are the driver's
    CHECK(summed(sold * gib) == summed(sold * gib * 97 / 100));
  for (const std::int64_t cache : {24, 32, 40, 50, 72, 126}) CHECK(decoded(cache * mib) < cache * mib);
  CHECK(decoded(24 * mib) < decoded(50 * mib));
  const PlannedDeviceScope cpu(DeviceKind::cpu);
  CHECK(decoded_at_once(Device::meta) == decoded_at_once(Device::cpu));
}

}  // namespace lacuna
