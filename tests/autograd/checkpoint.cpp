// Checkpointed regions of any arity, the leaves and hooks around them, and tapes beside each other.
#include "autograd/checkpoint.h"
#include "autograd/tape.h"

#include "autograd/policies/quantizing.h"
#include "ops/arithmetic/arithmetic.h"
#include "ops/curves/activation.h"
#include "ops/norms/layer_norm.h"
#include "ops/products/linear.h"
#include "tests/autograd/graphs.h"

#include <doctest/doctest.h>

#include <functional>
#include <thread>

using namespace lacuna;

namespace {

std::vector<std::vector<double>> take_gradients(std::vector<Variable> leaves) {
  std::vector<std::vector<double>> all;
  for (Variable& leaf : leaves) {
    all.push_back(leaf.grad().defined() ? leaf.grad().to_vector() : std::vector<double>());
    leaf.set_grad({});
  }
  return all;
}

}  // namespace

TEST_CASE("checkpoint: two inputs, two outputs and a parameter have the gradients of the plain call") {
  const Variable a = test_leaf({3, 4}, 1), b = test_leaf({3, 4}, 2), weight = test_leaf({4, 4}, 3);
  const CheckpointFunction function = [&](std::vector<Variable> in) {
    Variable product = apply(Mul{}, in[0], in[1]);
    Variable projected = apply(Linear{}, apply(Gelu{}, std::move(in[0])), weight, Variable());
    return std::vector<Variable>{std::move(product), std::move(projected)};
  };
  for (const int used : {1, 2, 3}) {  // outputs that the loss depends on, as bits
    CAPTURE(used);
    std::vector<std::vector<double>> gradients[2];
    for (const bool checkpointed : {false, true}) {
      Tape tape(policy("exact"));
      const Recording recording(tape);
      // The inputs are computed values, and each has another reader.
      const Variable x = apply(Tanh{}, a), y = apply(Scale{2}, b);
      std::vector<Variable> out = checkpointed ? checkpoint(Label("region"), function, {x, y}) : function({x, y});
      Variable loss = total(apply(Mul{}, x, y));
      if ((used & 1) != 0) loss = apply(Add{}, std::move(loss), total(std::move(out[0])));
      if ((used & 2) != 0) loss = apply(Add{}, std::move(loss), total(apply(Tanh{}, std::move(out[1]))));
      out.clear();
      tape.backward(loss);
      gradients[checkpointed ? 1 : 0] = take_gradients({a, b, weight});
      CHECK(live_bytes(Purpose::saved) == 0);
    }
    for (std::size_t i = 0; i < gradients[0].size(); ++i) {
      REQUIRE(gradients[0][i].size() == gradients[1][i].size());
      for (std::size_t j = 0; j < gradients[0][i].size(); ++j)
        CHECK(gradients[1][i][j] == doctest::Approx(gradients[0][i][j]).epsilon(1e-12));
    }
  }
}

TEST_CASE("checkpoint: without a tape it is a plain call, and a function without gradients leaves nothing behind") {
  const Variable x = test_leaf({3, 4}, 1), constant(test_values({3, 4}, 2));
  const auto curve = [](Variable in) { return apply(Gelu{}, std::move(in)); };
  CHECK(checkpoint_of(Label("region"), x, curve).tensor().to_vector() == apply(Gelu{}, x).tensor().to_vector());
  Tape tape(policy("exact"));
  const Recording recording(tape);
  const Variable y = checkpoint_of(Label("region"), constant, curve);
  CHECK_FALSE(y.requires_grad());
  CHECK(tape.size() == 0);
  tape.backward(total(apply(Mul{}, x, y)));
  CHECK(live_bytes(Purpose::saved) == 0);
}

TEST_CASE("checkpoint: a value with several consumers, with parameters that are updated while backward runs") {
  const auto run = [](bool in_backward) {
    std::vector<Variable> weights{test_leaf({4, 4}, 2), test_leaf({4, 4}, 3)};
    const Variable x = test_leaf({3, 4}, 1);
    const auto update = [](const Variable& weight) {
      for (std::int64_t i = 0; i < weight.tensor().count(); ++i)
        weight.tensor().data<double>()[i] -= 0.1 * weight.grad().data<const double>()[i];
      Variable(weight).set_grad({});
    };
    std::vector<const Leaf*> order;
    const GradientHook step = [&](const Leaf& leaf) {
      order.push_back(&leaf);
      for (const Variable& weight : weights)
        if (weight.leaf() == &leaf) update(weight);
    };
    Tape tape(policy("exact"));
    const Recording recording(tape);
    const auto layer = [&](const Variable& weight) {
      return [&weight](Variable in) { return apply(Gelu{}, apply(Linear{}, std::move(in), weight, Variable())); };
    };
    const Variable h = checkpoint_of(Label("first"), x, layer(weights[0]));
    Variable left = checkpoint_of(Label("left"), h, layer(weights[1]));    // the same weight
    Variable right = checkpoint_of(Label("right"), h, layer(weights[1]));  // in two regions
    const Variable loss = total(apply(Add{}, apply(Mul{}, std::move(left), std::move(right)), h));
    if (in_backward) {
      tape.backward(loss, {.post_accumulate_grad_hooks = {step}});
      CHECK(order.size() == 3);
      CHECK(order.front() == weights[1].leaf());
    } else {
      tape.backward(loss);
      for (const Variable& weight : weights) update(weight);
    }
    return std::pair(weights[0].tensor().to_vector(), weights[1].tensor().to_vector());
  };
  CHECK(run(true) == run(false));
}

TEST_CASE("checkpoint: an input is quantized in the groups of the op in the region that reads it") {
  const Variable weight = test_parameter({64}, 2, DType::f32), bias = test_parameter({64}, 3, DType::f32),
                 square = test_parameter({64, 64}, 4, DType::f32);
  const auto groups_of = [&](const std::function<Variable(Variable)>& function) {
    Tape tape(policy("fixed"));
    const Recording recording(tape);
    Variable x = apply(Linear{}, test_leaf({4, 16, 64}, 1, DType::f32), square, Variable());
    const Variable y = checkpoint_of(Label("region"), std::move(x), function);
    for (const SavedTensorReport& saved : tape.report())
      if (saved.info.op == Label("linear")) return saved.info.groups;
    FAIL("the region's input is not saved");
    return Groups::run;
  };
  CHECK(groups_of([&](Variable in) { return apply(LayerNorm{}, std::move(in), weight, bias); }) == Groups::token);
  CHECK(groups_of([&](Variable in) { return apply(Linear{}, std::move(in), square, Variable()); }) == Groups::run);
}

TEST_CASE("lossy policies hold the slope of a curve where the layer behind it is frozen, and only there") {
  const Variable first = test_parameter({64, 64}, 2, DType::f32);
  for (const std::string_view name : {"fixed", "adaptive", "mesa"})
    for (const bool frozen : {false, true}) {
      CAPTURE(name);
      CAPTURE(frozen);
      Variable second = test_parameter({64, 64}, 3, DType::f32);
      second.set_requires_grad(!frozen);
      const std::unique_ptr<MemoryPolicy> made = make_policy(name, {{"bits", 4.0}});
      Tape tape(*made);
      const Recording recording(tape);
      Variable h = apply(Linear{}, test_leaf({4, 16, 64}, 1, DType::f32), first, Variable());
      const Variable y = apply(Linear{}, apply(Gelu{}, std::move(h)), second, Variable());
      bool seen = false;
      for (const SavedTensorReport& saved : tape.report()) {
        if (saved.info.op != Label("linear")) continue;
        seen = true;
        CHECK(saved.hold == Hold::quantize);
        CHECK(saved.slope == frozen);
      }
      CHECK(seen);
      tape.backward({{y, test_values({4, 16, 64}, 5, DType::f32)}});
      CHECK(live_bytes(Purpose::saved) == 0);
    }
}

TEST_CASE("two tapes in two threads give the gradients of one after the other") {
  const auto gradients = [](std::uint32_t site) {
    const Variable x = test_leaf({16, 8}, site), weight = test_leaf({8, 8}, site + 1);
    const std::unique_ptr<MemoryPolicy> exact = make_policy("exact");
    std::vector<std::vector<double>> all;
    for (int pass = 0; pass < 20; ++pass) {
      Tape tape(*exact);
      const Recording recording(tape);
      Variable h = checkpoint_of(Label("region"), x, [&](Variable in) {
        return apply(Gelu{}, apply(Linear{}, std::move(in), weight, Variable()));
      });
      tape.backward(total(apply(Mul{}, apply(Relu{}, std::move(h)), x)));
      all = take_gradients({x, weight});
    }
    return all;
  };
  const auto first = gradients(1), second = gradients(11);
  std::vector<std::vector<double>> beside[2];
  std::thread one([&] { beside[0] = gradients(1); }), other([&] { beside[1] = gradients(11); });
  one.join();
  other.join();
  CHECK(beside[0] == first);
  CHECK(beside[1] == second);
}
