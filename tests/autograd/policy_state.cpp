// The state that memory policies carry from step to step: it is restored exactly, and rejected if it does not fit.
#include "autograd/policies/adaptive.h"
#include "autograd/tape.h"
#include "ops/arithmetic/arithmetic.h"
#include "ops/curves/activation.h"
#include "ops/products/linear.h"
#include "tests/autograd/graphs.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

using namespace lacuna;

namespace {

using State = std::map<std::string, Tensor>;

constexpr double infinity = std::numeric_limits<double>::infinity(), not_a_number = std::nan("");

/// tanh(linear(gelu(linear(x)))) of f32 [4, 16, 32], large enough to be coded, forward and back.
void step(MemoryPolicy& policy, const BackwardOptions& options = {}) {
  const Variable x = test_leaf({4, 16, 32}, 1, DType::f32), first = test_leaf({32, 32}, 2, DType::f32);
  const Variable second = test_parameter({32, 32}, 3, DType::f32);
  Tape tape(policy);
  const Recording recording(tape);
  Variable h = apply(Gelu{}, apply(Linear{}, x, first, Variable()));
  tape.backward(total(apply(Tanh{}, apply(Linear{}, std::move(h), second, Variable()))), options);
}

std::map<std::string, std::vector<double>> numbers_of(const MemoryPolicy& policy) {
  std::map<std::string, std::vector<double>> all;
  for (const auto& [name, tensor] : policy.state()) all[name] = tensor.to_vector();
  return all;
}

Tensor f64(const std::vector<double>& numbers, const Shape& shape) { return Tensor::from(numbers, shape); }
Tensor f64(const std::vector<double>& numbers) { return f64(numbers, {std::ssize(numbers)}); }
Tensor f32(const std::vector<float>& numbers, const Shape& shape) { return Tensor::from(numbers, shape); }

/// The state with one tensor in the place of `name`, or besides, is refused as input, and nothing is taken of it.
void check_refused(const std::string& policy, const State& whole, const std::string& name, const Tensor& damaged) {
  const std::unique_ptr<MemoryPolicy> made = make_policy(policy);
  made->set_state(whole);
  const auto before = numbers_of(*made);
  State state = whole;
  state[name] = damaged;
  INFO(policy, ": ", name, " as ", std::string(name_of(damaged.dtype())), " ", to_string(damaged.shape()));
  try {
    made->set_state(state);
    FAIL("taken");
  } catch (const Error& error) {
    CHECK(error.fault() == Fault::input);
    CHECK(std::string(error.what()).starts_with("memory policy " + policy + ": expected "));
  }
  CHECK(numbers_of(*made) == before);
}

}  // namespace

TEST_CASE("policy state: another policy object continues from a saved state") {
  for (const std::string name : {"mesa", "adaptive"}) {
    const std::unique_ptr<MemoryPolicy> one = make_policy(name), other = make_policy(name);
    step(*one);
    REQUIRE(one->state().size() >= 2);
    other->set_state(one->state());
    CHECK(numbers_of(*other) == numbers_of(*one));
    other->set_state({});
    CHECK(other->state().size() < one->state().size());
  }
}

TEST_CASE("policy state: ranges that mesa did not write are refused") {
  const std::unique_ptr<MemoryPolicy> policy = make_policy("mesa");
  step(*policy);
  const State whole = policy->state();
  const std::string name = whole.begin()->first;
  const auto nan = static_cast<float>(not_a_number), inf = static_cast<float>(infinity);
  for (const Tensor& damaged :
       {f64({0, 1}, {1, 2}), f32({0, 1}, {2}), f32({0}, {1, 1}), f32({0, 1, 2}, {1, 3}), f32({0, 1}, {1, 1, 2}),
        f32({nan, 1}, {1, 2}), f32({0, inf}, {1, 2}), f32({-inf, 0}, {1, 2}), f32({0, 1, 1, 0}, {2, 2})})
    check_refused("mesa", whole, name, damaged);
}

TEST_CASE("policy state: sensitivities and plans that adaptive did not write are refused") {
  const std::unique_ptr<MemoryPolicy> policy = make_policy("adaptive");
  step(*policy);
  const State whole = policy->state();
  const std::vector<std::int64_t> two{1, 2}, negative{-1};
  check_refused("adaptive", whole, "passes", f64({1}));
  check_refused("adaptive", whole, "passes", Tensor::from(two, {2}));
  check_refused("adaptive", whole, "passes", Tensor::from(negative, {1}));
  check_refused("adaptive", whole, "planned for", f64({4}));
  check_refused("adaptive", whole, "planned for", f32({4, 256}, {2}));
  for (const char* const unknown : {"", "tensor", "tens", "x"})
    check_refused("adaptive", whole, unknown, f64({1, 1, 1, 1, 1, 1}));
  const std::string name = whole.rbegin()->first;
  REQUIRE(name.starts_with("tensor "));
  const std::vector<double> numbers = whole.at(name).to_vector();
  check_refused("adaptive", whole, name, f64({numbers.begin(), numbers.end() - 1}));
  check_refused("adaptive", whole, name, f32(std::vector<float>(numbers.size(), 1), {std::ssize(numbers)}));
  for (std::size_t i = 0; i < numbers.size(); ++i)
    for (const double wrong : {not_a_number, infinity, -1.0, 0.5, 1e300}) {
      constexpr std::size_t sensitivity = 2;
      if (i == sensitivity && wrong > 0 && wrong < infinity) continue;
      std::vector<double> damaged = numbers;
      damaged[i] = wrong;
      check_refused("adaptive", whole, name, f64(damaged));
    }
}

TEST_CASE("policy state: both ways to calibrate measure every tensor that adaptive quantizes") {
  for (const bool by_draws : {false, true}) {
    const std::unique_ptr<MemoryPolicy> policy = make_policy("adaptive");
    Adaptive& adaptive = *adaptive_of(*policy);
    CHECK(adaptive.calibration_due());
    const Variable x = test_leaf({4, 16, 32}, 1, DType::f32), first = test_leaf({32, 32}, 2, DType::f32);
    const auto forward = [&] {
      Variable h = apply(Gelu{}, apply(Linear{}, x, first, Variable()));
      return total(apply(Tanh{}, apply(Linear{}, std::move(h), first, Variable())));
    };
    adaptive.calibrate(0, [&] {
      return by_draws ? calibrate_by_draws(adaptive, forward, ErrorMeasure::absolute)
                      : calibrate_in_backward(adaptive, forward, ErrorMeasure::absolute);
    });
    CHECK_FALSE(adaptive.calibration_due());
    CHECK_FALSE(x.grad().defined());
    CHECK_FALSE(first.grad().defined());
    int measured = 0;
    for (const auto& [name, numbers] : numbers_of(*policy))
      if (name.starts_with("tensor ") && numbers[3] == 1 && numbers[2] > 0) ++measured;
    CHECK(measured >= 2);
  }
}

namespace {

/// gelu(x + 0), forward and back, of f32 [4, 16, 128], whose columns share ranges by 64: the sum's are returned.
/// The first `missing` columns of x are NaN.
std::vector<double> ranges_after(MemoryPolicy& policy, std::uint32_t site, std::int64_t missing = 0) {
  const Shape shape{4, 16, 128};
  const Variable x = test_leaf(shape, site, DType::f32);
  float* const values = x.tensor().data<float>();
  for (std::int64_t i = 0; i < shape.count(); ++i)
    if (i % shape.back() < missing) values[i] = std::numeric_limits<float>::quiet_NaN();
  Tape tape(policy);
  const Recording recording(tape);
  Variable sum = apply(Add{}, x, Variable(Tensor::zeros(shape, DType::f32, Device::cpu)));
  tape.backward(total(apply(Gelu{}, std::move(sum))));
  const auto all = numbers_of(policy);
  REQUIRE(all.size() <= 1);
  return all.empty() ? std::vector<double>() : all.begin()->second;
}

}  // namespace

TEST_CASE("policy state: a group without finite values does not change mesa's ranges") {
  const std::unique_ptr<MemoryPolicy> policy = make_policy("mesa"), other = make_policy("mesa");
  const std::vector<double> before = ranges_after(*policy, 1);
  REQUIRE(before.size() == 4);
  ranges_after(*other, 1);
  const std::vector<double> moved = ranges_after(*other, 2), after = ranges_after(*policy, 2, 64);
  CHECK(std::vector(after.begin(), after.begin() + 2) == std::vector(before.begin(), before.begin() + 2));
  CHECK(std::vector(after.begin() + 2, after.end()) == std::vector(moved.begin() + 2, moved.end()));
  CHECK(moved != before);
}

TEST_CASE("policy state: mesa's ranges begin with the first step that has values of every group") {
  const std::unique_ptr<MemoryPolicy> policy = make_policy("mesa"), other = make_policy("mesa");
  CHECK(ranges_after(*policy, 1, 64).empty());
  CHECK(ranges_after(*policy, 1, 128).empty());
  CHECK(ranges_after(*policy, 2, 3) == ranges_after(*other, 2, 3));  // some of a group are enough
  CHECK(policy->state().size() == 1);
}
