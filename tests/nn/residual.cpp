// Residual sums within the last linear layer of a branch.
#include "autograd/policies/rules.h"
#include "autograd/tape.h"
#include "core/error.h"
#include "core/random.h"
#include "nn/attention.h"
#include "nn/functional.h"
#include "nn/mlp.h"
#include "nn/window_attention.h"

#include <doctest/doctest.h>

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

using namespace lacuna;

namespace {

Tensor values(const Shape& shape, std::uint32_t site, DType dtype = DType::f32) {
  const RandomStream stream{7, 0, site};
  std::vector<float> numbers(static_cast<std::size_t>(shape.count()));
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = 2 * stream.uniform(i) - 1;
  return Tensor::from(std::span<const float>(numbers), shape).to(dtype);
}

/// Layers over tokens of a 2×4 map, [B, 8, width].
struct Layers : Module {
  static constexpr std::int64_t width = 12;
  explicit Layers(double dropout)
      : Module(ModelContext{}),
        linear(*this, "linear", width, width),
        mlp(*this, "mlp", width, 24, {.dropout = dropout}),
        scaled(*this, "scaled", width, 24, {.dropout = dropout}),
        attention(*this, "attn", width, {.heads = 3, .projection_dropout = dropout}),
        windows(*this, "windows", width,
                {.heads = 3,
                 .height = 2,
                 .width = 4,
                 .window_height = 2,
                 .window_width = 2,
                 .projection_dropout = dropout}),
        drop_path(*this, "drop_path", dropout) {}

  nn::Linear linear;
  nn::Mlp mlp, scaled;
  nn::Attention attention;
  nn::TableWindowAttention windows;
  nn::DropPath drop_path;
};

/// The branch of x, onto a residual or alone.
using Branch = std::function<Variable(const Layers&, Variable x, Variable residual)>;
struct Named {
  std::string name;
  Branch branch;
};

const std::vector<Named>& branches() {
  static const std::vector<Named> all{
      {"linear",
       [](const Layers& l, Variable x, Variable to) { return l.linear.forward(std::move(x), {}, {}, std::move(to)); }},
      {"scaled",
       [](const Layers& l, Variable x, Variable to) {
         const Variable scale(values({Layers::width}, 3));
         return l.scaled.forward(std::move(x), scale, std::move(to));
       }},
      {"mlp", [](const Layers& l, Variable x, Variable to) { return l.mlp.forward(std::move(x), {}, std::move(to)); }},
      {"attention", [](const Layers& l, Variable x,
                       Variable to) { return l.attention.forward(std::move(x), {.residual = std::move(to)}); }},
      {"windows",
       [](const Layers& l, Variable x, Variable to) { return l.windows.forward(std::move(x), std::move(to)); }}};
  return all;
}

/// A policy that recomputes the layer, if it is a region.
std::unique_ptr<MemoryPolicy> recomputing(const std::string& layer) {
  const bool is_region = layer != "linear" && layer != "windows";
  return with_rules(make_policy("exact"), {}, is_region ? std::vector{layer} : std::vector<std::string>());
}

using Function = std::function<Variable(const Layers&, Variable x, Variable residual)>;
/// The result, and the gradients of x, of the residual and of all parameters. Layers have the same weights each time.
std::vector<std::vector<double>> run(double dropout, MemoryPolicy& policy, const Function& f) {
  const Layers layers(dropout);
  const Variable x(values({2, 8, Layers::width}, 1), true), residual(values({2, 8, Layers::width}, 2), true);
  Tape tape(policy);
  Variable y;
  {
    const Recording recording(tape);
    y = f(layers, x, residual);
  }
  std::vector<std::vector<double>> all{y.tensor().to_vector()};
  tape.backward({{y, values(y.shape(), 4)}}, {});
  for (const Variable& input : {x, residual}) all.push_back(input.grad().to_vector());
  for (const Parameter* const parameter : layers.parameters())
    if (parameter->grad().defined()) all.push_back(parameter->grad().to_vector());
  return all;
}

}  // namespace

TEST_CASE("residual: a layer that adds it has the bits of a sum behind the layer, dropped, recomputed or neither") {
  const RandomStateScope scope({.seed = 3, .step = 1});
  for (const double rate : {0.0, 0.5})  // 1 / (1 - 0.5) is 2, so that a fused multiply-add rounds as two steps do
    for (const auto& [name, branch] : branches()) {
      CAPTURE(rate);
      CAPTURE(name);
      const auto apart = [&](const Layers& layers, Variable x, Variable residual) {
        return std::move(residual) + layers.drop_path.forward(branch(layers, std::move(x), {}));
      };
      const auto within = [&](const Layers& layers, Variable x, Variable residual) {
        return add_branch(std::move(residual), layers.drop_path,
                          [&](Variable to) { return branch(layers, std::move(x), std::move(to)); });
      };
      const auto expected = run(rate, *make_policy("keep"), apart);
      CHECK(run(rate, *make_policy("keep"), within) == expected);
      CHECK(run(rate, *recomputing(name), within) == expected);
    }
}

TEST_CASE("residual: one of another shape or type is refused") {
  const Layers layers(0);
  const Variable x(values({2, 8, Layers::width}, 1));
  CHECK_THROWS_AS(layers.linear.forward(x, {}, {}, Variable(values({8, Layers::width}, 2))), Error);
  CHECK_THROWS_AS(layers.linear.forward(x, {}, {}, Variable(values({2, 8, Layers::width}, 2, DType::bf16))), Error);
}
