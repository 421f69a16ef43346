// Policies that quantize on cuda, on the stand-in, against the CPU: the same codes, so the same gradients but for
// rounding.
#include "autograd/tape.h"
#include "core/stand_in/fibers.h"
#include "ops/arithmetic/arithmetic.h"
#include "ops/curves/activation.h"
#include "tests/autograd/graphs.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

namespace lacuna {
namespace {

/// The gradient of x in total(tanh(gelu(relu(x) + x))) of f32 [4, 40, 128], in the last of three steps.
std::vector<double> gradient(MemoryPolicy& policy, Device device) {
  std::vector<double> last;
  for (std::uint32_t step = 0; step < 3; ++step) {
    const RandomStateScope state({.seed = 5, .step = step});
    const Variable x(test_values({4, 40, 128}, 1 + step, DType::f32).to(device), true, "x");
    Tape tape(policy);
    const Recording recording(tape);
    Variable sum = apply(Add{}, apply(Relu{}, x), x);
    tape.backward(total(apply(Tanh{}, apply(Gelu{}, std::move(sum)))));
    last = x.grad().to_vector();
  }
  return last;
}

}  // namespace

TEST_CASE("cuda: tensors saved in codes give the gradients of the CPU") {
  struct Choice {
    std::string name;
    OptionValues settings;
  };
  for (const Choice& one : {Choice{"fixed", {{"bits", 4.0}}}, Choice{"fixed", {{"bits", 2.0}}}, Choice{"mesa", {}}}) {
    CAPTURE(one.name);
    const auto here = make_policy(one.name, one.settings), there = make_policy(one.name, one.settings),
               late = make_policy(one.name, one.settings);
    const std::vector<double> expected = gradient(*here, Device::cpu), got = gradient(*there, Device::cuda);
    REQUIRE(got.size() == expected.size());
    double difference = 0, error = 0;
    const std::vector<double> exact = gradient(policy("keep"), Device::cpu);
    for (std::size_t i = 0; i < got.size(); ++i) {
      difference = std::max(difference, std::abs(got[i] - expected[i]));
      error = std::max(error, std::abs(exact[i] - expected[i]));
    }
    CHECK(difference < 1e-4);
    CHECK(error > 1e-3);  // codes were read
    const cuda::stand_in::ScheduleScope schedule(3);
    CHECK(gradient(*late, Device::cuda) == got);
  }
}

}  // namespace lacuna
