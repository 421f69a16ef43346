// The tensors that attention keeps for cuDNN's backward, on the stand-in.
#include "autograd/tape.h"
#include "core/ledger.h"
#include "core/planned_device.h"
#include "ops/attention/attention.h"
#include "ops/attention/causal_attention.h"
#include "ops/attention/sequence_attention.h"
#include "ops/attention/window_attention.h"
#include "ops/products/linear.h"
#include "tests/autograd/graphs.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lacuna {
namespace {

struct Step {
  std::vector<double> gradient{};  // of the products' input
  std::int64_t sums = 0;           // bytes of log sums that are held
  std::int64_t peak = 0;
};

struct Form {
  bool is_causal;
  bool is_unequal = false;  // packed samples, of causal attention
  double dropout = 0;
  std::vector<std::int64_t> lengths{};  // of padded samples
};

/// linear(attention(linear(x))) of 3 samples of 5 tokens, 2 heads of 8; `trains`: the last linear's weight.
Step step(Device device, MemoryPolicy& policy, const Form& form, bool trains = true) {
  constexpr std::int64_t width = 16;
  const Variable x(test_values({3, 5, width}, 1, DType::bf16).to(device), true, "x"),
      in(test_values({3 * width, width}, 2, DType::f32).to(device), true, "in"),
      out(test_values({width, width}, 3, DType::f32).to(device), trains, "out");
  Ledger& account = ledger(device);
  account.reset_peak();
  const std::int64_t before = account.total();
  Step result;
  Tape tape(policy);
  {
    const Recording recording(tape);
    Variable mixed;
    const auto part = [&](std::uint32_t site) {
      const Variable weight(test_values({width, width}, site, DType::f32).to(device), true, "part");
      return apply(Linear{}, x, weight, Variable()).reshape({1, 15, width});
    };
    if (!form.lengths.empty()) {
      mixed = apply(SequenceAttention{.heads = 2, .sequences = Sequences::padded(form.lengths, 5)}, part(4), part(5),
                    part(6));
    } else if (form.is_causal) {
      const auto sequences = Sequences::packed(std::vector<std::int64_t>{0, form.is_unequal ? 4 : 5, 10, 15});
      mixed = apply(
          CausalAttention{.heads = 2, .kv_heads = 2, .sequences = sequences, .dropout = form.dropout, .positions = 6},
          part(4), part(5), part(6));
    } else {
      mixed = apply(Attention{.heads = 2, .dropout = form.dropout}, apply(Linear{}, x, in, Variable()), Variable(),
                    Variable());
    }
    Variable y = apply(Linear{}, std::move(mixed), out, Variable());
    for (const SavedTensorReport& report : tape.report())
      if (report.info.source.kind == Source::Kind::extra_output) result.sums += report.bytes;
    const Tensor dy = test_values(y.shape(), 7, DType::bf16).to(device);
    std::vector<std::pair<Variable, Tensor>> losses;
    losses.emplace_back(std::move(y), dy);
    tape.backward(std::move(losses));
  }
  result.peak = account.peak() - before;
  if (device != Device::meta) result.gradient = x.grad().to_vector();
  return result;
}

/// The peak of window attention over 3 images of 24 x 24 tokens, 2 heads of 8.
std::int64_t window_peak(Device device, MemoryPolicy& policy, std::int64_t window, DType dtype) {
  const WindowAttention op{.heads = 2, .height = 24, .width = 24, .window_height = window, .window_width = window};
  const Variable qkv(test_values({3, 24 * 24, 48}, 1, dtype).to(device), true, "qkv"),
      table(test_values({(2 * window - 1) * (2 * window - 1), 2}, 2, DType::f32).to(device), true, "table"),
      scale(test_values({2}, 3, DType::f32).to(device), true, "scale");
  Ledger& account = ledger(device);
  account.reset_peak();
  const std::int64_t before = account.total();
  Tape tape(policy);
  {
    const Recording recording(tape);
    Variable y = apply(op, qkv, table, Variable(), scale);
    const Tensor dy = test_values(y.shape(), 4, dtype).to(device);
    std::vector<std::pair<Variable, Tensor>> losses;
    losses.emplace_back(std::move(y), dy);
    tape.backward(std::move(losses));
  }
  return account.peak() - before;
}

}  // namespace

TEST_CASE("cuda: attention keeps its log sums, and no policy that keeps values, nor a frozen layer, changes bits") {
  for (const bool is_causal : {false, true}) {
    const Step keep = step(Device::cuda, policy("keep"), {is_causal});
    CHECK(keep.sums == 3 * 2 * 5 * 4);
    CHECK(step(Device::cuda, policy("exact"), {is_causal}).gradient == keep.gradient);
    const Step frozen = step(Device::cuda, policy("keep"), {is_causal}, false);
    CHECK(frozen.gradient == keep.gradient);
    CHECK(step(Device::cpu, policy("keep"), {is_causal}).sums == 0);
  }
}

TEST_CASE("cuda: under a policy that quantizes attention keeps no log sums") {
  const auto quantizing = make_policy("fixed", {{"bits", 4.0}});
  CHECK(step(Device::cuda, *quantizing, {.is_causal = false}).sums == 0);
}

TEST_CASE("cuda: a plan counts what attention keeps and works in") {
  for (const bool is_causal : {false, true})
    for (const bool trains : {false, true}) {
      const Step there = step(Device::cuda, policy("exact"), {is_causal}, trains);
      const PlannedDeviceScope scope(DeviceKind::cuda);
      const Step planned = step(Device::meta, policy("exact"), {is_causal}, trains);
      CHECK(planned.sums == there.sums);
      CHECK(planned.peak == there.peak);
    }
}

TEST_CASE(
    "cuda: a plan counts what attention works in on a card where cuDNN has a plan for it, and where it has none") {
  for (const int capability : {80, 90, 100}) {
    ::setenv("LACUNA_STAND_IN_CAPABILITY", std::to_string(capability).c_str(), 1);
    for (const Form& form : {Form{true, true}, {false, false, 0.1}, {true, true, 0.1}}) {
      CAPTURE(capability);
      CAPTURE(form.is_unequal);
      CAPTURE(form.dropout);
      const std::int64_t taken = step(Device::cuda, policy("exact"), form).peak;
      const Card here = card_of(Device::cuda), described{.compute_capability = capability};
      for (const Card& card : {here, described}) {
        const PlannedDeviceScope scope(DeviceKind::cuda, card);
        CHECK(step(Device::meta, policy("exact"), form).peak == taken);
      }
    }
  }
  ::unsetenv("LACUNA_STAND_IN_CAPABILITY");
}

TEST_CASE(
    "cuda: a plan counts what backward works in where cuDNN has a plan for it, and none for the forward that it "
    "needs") {
  ::setenv("LACUNA_STAND_IN_WITHOUT_FORWARD", "1", 1);
  for (const bool is_causal : {false, true}) {
    CAPTURE(is_causal);
    const Step there = step(Device::cuda, policy("exact"), {is_causal});
    CHECK(there.sums == 0);
    const PlannedDeviceScope scope(DeviceKind::cuda, card_of(Device::cuda));
    CHECK(step(Device::meta, policy("exact"), {is_causal}).peak == there.peak);
  }
  ::unsetenv("LACUNA_STAND_IN_WITHOUT_FORWARD");
}

TEST_CASE("cuda: a plan for padded texts as long as their rows counts what shorter ones work in") {
  const auto peak = [](Device device, const std::vector<std::int64_t>& lengths) {
    return step(device, policy("exact"), {.is_causal = false, .lengths = lengths}).peak;
  };
  const std::int64_t taken = peak(Device::cuda, {5, 3, 4});
  CHECK(peak(Device::cuda, {5, 5, 5}) == taken);
  const PlannedDeviceScope scope(DeviceKind::cuda);
  CHECK(peak(Device::meta, {5, 5, 5}) == taken);
}

TEST_CASE("cuda: a plan counts what attention within windows of one tile and of several works in") {
  for (const std::int64_t window : {7, 12})
    for (const DType dtype : {DType::f32, DType::bf16})
      for (const char* const name : {"keep", "exact"}) {
        CAPTURE(window);
        CAPTURE(name_of(dtype));
        const std::int64_t taken = window_peak(Device::cuda, policy(name), window, dtype);
        const PlannedDeviceScope scope(DeviceKind::cuda);
        CHECK(window_peak(Device::meta, policy(name), window, dtype) == taken);
      }
}

}  // namespace lacuna
