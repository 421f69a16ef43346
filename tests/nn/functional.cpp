#include "nn/functional.h"
#include "autograd/policies/rules.h"
#include "autograd/tape.h"
#include "core/random.h"
#include "nn/linear.h"
#include "nn/linear_cross_entropy.h"
#include "nn/sequential.h"
#include "ops/arithmetic/arithmetic.h"
#include "ops/curves/activation.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>

using namespace lacuna;

namespace {

struct Root : Module {
  Root() : Module(ModelContext{}) {}
};

Tensor values(const Shape& shape, std::uint32_t site) {
  const RandomStream stream{7, 0, site};
  std::vector<float> numbers(static_cast<std::size_t>(shape.count()));
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = 2 * stream.uniform(i) - 1;
  return Tensor::from(std::span<const float>(numbers), shape);
}

bool same_bits(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && a.dtype() == b.dtype() &&
         std::memcmp(a.raw(), b.raw(), static_cast<std::size_t>(a.bytes())) == 0;
}

}  // namespace

TEST_CASE("functional: operators compute element by element, and repeat a parameter over leading axes") {
  const Variable a(values({2, 3}, 1)), b(values({2, 3}, 2)), row(values({3}, 3));
  const std::vector<double> x = a.tensor().to_vector(), y = b.tensor().to_vector(), r = row.tensor().to_vector();
  const auto check = [&](const Variable& result, auto expected) {
    const std::vector<double> found = result.tensor().to_vector();
    for (std::size_t i = 0; i < found.size(); ++i) CHECK(found[i] == doctest::Approx(expected(i)).epsilon(1e-6));
  };
  check(a + b, [&](std::size_t i) { return x[i] + y[i]; });
  check(a - b, [&](std::size_t i) { return x[i] - y[i]; });
  check(a * b, [&](std::size_t i) { return x[i] * y[i]; });
  check(a * 2.0, [&](std::size_t i) { return 2 * x[i]; });
  check(3.0 * a, [&](std::size_t i) { return 3 * x[i]; });
  check(a / 4.0, [&](std::size_t i) { return x[i] / 4; });
  check(-a, [&](std::size_t i) { return -x[i]; });
  check(a + row, [&](std::size_t i) { return x[i] + r[i % 3]; });
  check(a - row, [&](std::size_t i) { return x[i] - r[i % 3]; });
  CHECK_THROWS_AS(a + Variable(values({2}, 4)), Error);
}

TEST_CASE("functional: linear_cross_entropy gives x the same gradient whether its weight is frozen or trained") {
  const Tensor x = values({5, 3}, 1), table = values({7, 3}, 2);
  const std::vector<std::int64_t> ids{3, -100, 6, 0, 2};
  const auto gradient = [&](bool trained) {
    const std::unique_ptr<MemoryPolicy> policy = make_policy("keep");
    Tape tape(*policy);
    const Variable leaf(x, true), weight(table, trained);
    Variable loss;
    {
      const Recording recording(tape);
      const Variable labels(Tensor::from(std::span<const std::int64_t>(ids), {5}));
      loss = nn::linear_cross_entropy(leaf * 2.0, weight, Variable(), labels, {.soft_cap = 3});
    }
    tape.backward(loss);
    return leaf.grad();
  };
  const std::vector<double> trained = gradient(true).to_vector(), frozen = gradient(false).to_vector();
  for (std::size_t i = 0; i < trained.size(); ++i) CHECK(std::abs(trained[i] - frozen[i]) < 1e-6);
}

TEST_CASE("functional: gradients pass through an expression") {
  const std::unique_ptr<MemoryPolicy> policy = make_policy("exact");
  Tape tape(*policy);
  const Variable x(values({4, 3}, 1), true), weight(values({2, 3}, 2), true), bias(values({2}, 3), true);
  Variable loss;
  {
    const Recording recording(tape);
    loss = mean(relu(linear(x, weight, bias)) * 2.0 - 1.0 * linear(x, weight));
  }
  tape.backward(loss);
  const std::vector<double> y = [&] {
    const NoGrad none;
    return linear(x, weight, bias).tensor().to_vector();
  }();
  std::vector<double> expected(2);
  for (std::size_t i = 0; i < y.size(); ++i) expected[i % 2] += (y[i] > 0 ? 2.0 : 0.0) / 8;
  for (std::size_t i = 0; i < 2; ++i) CHECK(bias.grad().to_vector()[i] == doctest::Approx(expected[i]).epsilon(1e-5));
}

TEST_CASE("functional: layers as functions have the shapes of PyTorch's") {
  const Variable image(values({2, 6, 5, 4}, 1)), kernel(values({8, 4, 3, 3}, 2)), tokens(values({2, 5, 12}, 3));
  CHECK(conv2d(image, kernel, {}, {.padding = 1}).shape() == Shape{2, 6, 5, 8});
  CHECK(conv2d(image, kernel, Variable(values({8}, 4)), {.stride = 2}).shape() == Shape{2, 2, 2, 8});
  CHECK(max_pool2d(image).shape() == Shape{2, 3, 2, 4});
  CHECK(avg_pool2d(image, {.kernel = 3, .stride = 1}).shape() == Shape{2, 4, 3, 4});
  CHECK(global_avg_pool(image).shape() == Shape{2, 4});
  CHECK(attention(tokens, tokens, tokens, {.heads = 3}).shape() == Shape{2, 5, 12});
  CHECK(matmul(tokens, tokens, true).shape() == Shape{2, 5, 5});
  CHECK(layer_norm(tokens, Variable(values({12}, 5)), Variable(values({12}, 6))).shape() == Shape{2, 5, 12});
  CHECK(sum(tokens).shape() == Shape{});
  CHECK(dropout(tokens, 0.5, random_stream("here")).shape() == tokens.shape());
  const Variable labels(Tensor::from(std::vector<std::int64_t>{1, 3}, {2}));
  CHECK(cross_entropy(global_avg_pool(image), labels).shape() == Shape{});
}

TEST_CASE("functional: slice and concat undo each other, with numbers from the end") {
  const Variable x(values({2, 5, 3}, 1));
  CHECK(slice(x, 1, 1, -1).shape() == Shape{2, 3, 3});
  CHECK(same_bits(concat({slice(x, 1, 0, 2), slice(x, -2, 2, 5)}, 1).tensor(), x.tensor()));
  CHECK_THROWS_AS(slice(x, 3, 0, 1), Error);
  CHECK_THROWS_AS(concat({}, 0), Error);
}

TEST_CASE("sequential: entries are numbered as in PyTorch, and run in order") {
  Root root;
  nn::Sequential body(root, "body");
  body.add<nn::Linear>(4, 6).add(gelu).add<nn::Linear>(6, 2, nn::LinearOptions{.bias = false});
  REQUIRE(body.size() == 3);
  std::vector<std::string> paths;
  for (const Parameter* parameter : root.parameters()) paths.push_back(parameter->path());
  CHECK(paths == std::vector<std::string>{"body.0.weight", "body.0.bias", "body.2.weight"});
  const Variable x(values({3, 4}, 1));
  const std::vector<Parameter*> parameters = root.parameters();
  const Variable expected =
      linear(gelu(linear(x, parameters[0]->variable(), parameters[1]->variable())), parameters[2]->variable());
  CHECK(same_bits(body.forward(x).tensor(), expected.tensor()));
}

TEST_CASE("sequential: an empty one is the identity") {
  Root root;
  const nn::Sequential nothing(root, "nothing");
  const Variable x(values({3, 4}, 1));
  CHECK(same_bits(nothing.forward(x).tensor(), x.tensor()));
}

TEST_CASE("sequential: a policy can recompute it, with the same gradients and fewer bytes saved") {
  Root root;
  nn::Sequential body(root, "body");
  body.add<nn::Linear>(4, 64).add(gelu).add<nn::Linear>(64, 2);
  struct Step {
    std::vector<Tensor> gradients;
    std::int64_t saved;
  };
  const auto step = [&](MemoryPolicy& policy) {
    for (Parameter* parameter : root.parameters()) parameter->set_grad({});
    Tape tape(policy);
    Variable loss;
    {
      const Recording recording(tape);
      loss = sum(body.forward(Variable(values({5, 4}, 1))));
    }
    tape.backward(loss);
    Step done{.gradients = {}, .saved = tape.saved_bytes()};
    for (const Parameter* parameter : root.parameters()) done.gradients.push_back(parameter->grad());
    return done;
  };
  const Step kept = step(*make_policy("exact")), recomputed = step(*with_rules(make_policy("exact"), {}, {"body"}));
  for (std::size_t i = 0; i < kept.gradients.size(); ++i) CHECK(same_bits(recomputed.gradients[i], kept.gradients[i]));
  CHECK(recomputed.saved < kept.saved);
}
