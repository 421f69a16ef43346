// Ops on tensors without rows: results without rows, and gradients of zeros.
#include "autograd/policy.h"
#include "autograd/tape.h"
#include "ops/arithmetic/arithmetic.h"
#include "ops/norms/batch_norm.h"
#include "ops/norms/l2_normalize.h"
#include "ops/products/dropout_linear.h"
#include "ops/products/linear.h"
#include "ops/products/low_rank_linear.h"
#include "ops/products/matmul.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace lacuna {
namespace {

struct EmptyCase {
  std::string name;
  std::vector<Shape> inputs;
  Shape result;
  std::function<Variable(const std::vector<Variable>&)> run;
};

}  // namespace

TEST_CASE("ops without rows have gradients of zeros") {
  const auto matmul = [](const std::vector<Variable>& in) { return apply(MatMul{}, in[0], in[1]); };
  const std::vector<EmptyCase> cases{
      {"matmul, no rows", {{2, 0, 3}, {2, 3, 2}}, {2, 0, 2}, matmul},
      {"matmul, no matrices", {{0, 2, 3}, {0, 3, 2}}, {0, 2, 2}, matmul},
      {"matmul, no summands", {{2, 4, 0}, {2, 0, 2}}, {2, 4, 2}, matmul},
      {"linear",
       {{0, 3}, {2, 3}, {2}},
       {0, 2},
       [](const std::vector<Variable>& in) { return apply(Linear{}, in[0], in[1], in[2]); }},
      {"dropout_linear",
       {{0, 3}, {2, 3}},
       {0, 2},
       [](const std::vector<Variable>& in) { return apply(DropoutLinear{.p = 0.5, .stream = {}}, in[0], in[1]); }},
      {"low_rank_linear",
       {{0, 3}, {2, 3}, {0, 1}, {2, 1}},
       {0, 2},
       [](const std::vector<Variable>& in) {
         return apply(LowRankLinear{.first = {0}, .columns = {2}}, in[0], in[1], Variable(), in[2], in[3], Variable(),
                      Variable(), Variable(), Variable());
       }},
      {"add_broadcast", {{2, 0}, {0}}, {2, 0}, [](const std::vector<Variable>& in) {
         return apply(AddBroadcast{.shape = in[1].shape()}, in[0], in[1]);
       }}};
  for (const EmptyCase& c : cases) {
    CAPTURE(c.name);
    const std::unique_ptr<MemoryPolicy> policy = make_policy("keep");
    Tape tape(*policy);
    std::vector<Variable> inputs;
    for (const Shape& shape : c.inputs)
      inputs.emplace_back(Tensor::full(shape, 7, DType::f32, Device::cpu), true, "input");
    const Variable result = [&] {
      const Recording recording(tape);
      return c.run(inputs);
    }();
    CHECK(result.shape() == c.result);
    CHECK(std::ranges::all_of(result.tensor().to_vector(), [](double value) { return value == 0; }));
    tape.backward({{result, Tensor::full(c.result, 3, DType::f32, Device::cpu)}});
    for (const Variable& input : inputs) {
      REQUIRE(input.grad().defined());
      CHECK(input.grad().shape() == input.shape());
      CHECK(std::ranges::all_of(input.grad().to_vector(), [](double value) { return value == 0; }));
    }
  }
  const Tensor channels = Tensor::full({3}, 1, DType::f32, Device::cpu);
  const Variable none(Tensor::zeros({0, 3}, DType::f32, Device::cpu));
  CHECK_THROWS_WITH_AS(apply(BatchNorm{}, none, Variable(channels), Variable(channels)), doctest::Contains("rows"),
                       Error);
}

TEST_CASE("l2_normalize: below the least norm the gradient is dy over it, as torch's") {
  const std::unique_ptr<MemoryPolicy> policy = make_policy("keep");
  Tape tape(*policy);
  const std::vector<double> values{1e-14, 0}, dy{1, 2};
  const Variable x(Tensor::from(std::span<const double>(values), {1, 2}, DType::f64), true, "x");
  const Variable y = [&] {
    const Recording recording(tape);
    return apply(L2Normalize{}, x);
  }();
  tape.backward({{y, Tensor::from(std::span<const double>(dy), {1, 2}, DType::f64)}});
  CHECK(x.grad().to_vector()[0] == doctest::Approx(1e12));
  CHECK(x.grad().to_vector()[1] == doctest::Approx(2e12));
}

}  // namespace lacuna
