// The tensors saved for backward, and their representations.
#include "autograd/checkpoint.h"
#include "autograd/policies/lossless.h"
#include "autograd/tape.h"
#include "ops/arithmetic/arithmetic.h"
#include "ops/attention/causal_attention.h"
#include "ops/attention/heads.h"
#include "ops/curves/activation.h"
#include "ops/curves/dropout.h"
#include "ops/losses/loss.h"
#include "ops/norms/batch_norm.h"
#include "ops/norms/layer_norm.h"
#include "ops/products/linear.h"
#include "ops/shapes/slicing.h"
#include "tests/autograd/graphs.h"
#include "tests/refusal.h"

#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <new>

using namespace lacuna;

namespace {

using Reports = std::vector<Tape::SavedTensorReport>;

std::int64_t held(const Reports& slots) {
  std::int64_t bytes = 0;
  for (const Tape::SavedTensorReport& slot : slots) bytes += slot.bytes;
  return bytes;
}

/// `op input 0`, `op output`, `op extra_outputs 1` with the hold, for every tensor that somebody needs.
std::multimap<std::string, Hold::Kind> described(const Reports& slots) {
  std::multimap<std::string, Hold::Kind> all;
  for (const Tape::SavedTensorReport& slot : slots) {
    for (const Reader& user : slot.readers) {
      constexpr std::string_view kinds[] = {" input ", " output ", " extra_outputs "};
      all.emplace(std::string(user.op.text()) + std::string(kinds[static_cast<std::size_t>(user.source.kind)]) +
                      std::to_string(user.source.index),
                  slot.hold);
    }
  }
  return all;
}

using Described = std::multimap<std::string, Hold::Kind>;

Variable linear(Variable x, const Variable& weight, const Variable& bias = {}) {
  return apply(Linear{}, std::move(x), weight, bias);
}

/// The half of a transformer block with the MLP, D wide: x + fc2(gelu(fc1(norm(x)))).
struct MlpHalf {
  explicit MlpHalf(std::int64_t d)
      : weight(test_parameter({d}, 1, DType::f32)),
        bias(test_parameter({d}, 2, DType::f32)),
        first(test_parameter({4 * d, d}, 3, DType::f32)),
        second(test_parameter({d, 4 * d}, 4, DType::f32)) {}
  Variable weight, bias, first, second;

  Variable forward(Variable x) const {
    Variable h = linear(apply(LayerNorm{}, x, weight, bias), first);
    return apply(Add{}, std::move(x), linear(apply(Gelu{}, std::move(h)), second));
  }
  std::vector<Variable> forward_holding_all(const Variable& x) const {
    std::vector<Variable> all{x};
    all.push_back(apply(LayerNorm{}, x, weight, bias));
    all.push_back(linear(all[1], first));
    all.push_back(apply(Gelu{}, all[2]));
    all.push_back(linear(all[3], second));
    all.push_back(apply(Add{}, x, all[4]));
    return all;
  }
};

}  // namespace

TEST_CASE("half a transformer block keeps 5 D values a token where a classical framework keeps 10 D") {
  constexpr std::int64_t tokens = 6, d = 16, statistics = 2 * tokens * 4;
  const MlpHalf block(d);
  const auto held_by = [&](std::string_view name, bool all_held) {
    Tape tape(policy(name));
    const Recording recording(tape);
    if (all_held) {
      const std::vector<Variable> values = block.forward_holding_all(test_leaf({2, 3, d}, 5, DType::f32));
      return held(tape.report());
    }
    Variable y = block.forward(test_leaf({2, 3, d}, 5, DType::f32));
    const std::int64_t bytes = held(tape.report());
    CHECK(live_bytes(Purpose::saved) == bytes);
    tape.backward(total(std::move(y)));
    CHECK(tape.saved_bytes() == bytes);
    CHECK(live_bytes(Purpose::saved) == 0);
    return bytes;
  };
  CHECK(held_by("exact", false) == 5 * d * tokens * 4 + statistics);
  CHECK(held_by("keep", false) == 10 * d * tokens * 4 + statistics);
  CHECK(held_by("exact", true) == 5 * d * tokens * 4 + statistics);
  CHECK(held_by("keep", true) == 10 * d * tokens * 4 + statistics);
}

TEST_CASE("a chain of derivations is bounded") {
  Tape tape(policy("exact"));
  const Recording recording(tape);
  Variable x = test_leaf({4, 5}, 1);
  for (int i = 0; i < 9; ++i) x = apply(Gelu{}, std::move(x));
  std::string holds;
  for (const Tape::SavedTensorReport& slot : tape.report()) holds += slot.hold == Hold::rematerialize ? 'd' : 'k';
  CHECK(holds == "kdddkdddk");
}

TEST_CASE("a chain is bounded across branches that settle in another order") {
  Tape tape(policy("exact"));
  const Recording recording(tape);
  std::vector<Variable> links{test_leaf({4, 5}, 1)};
  for (int i = 0; i < 9; ++i) links.push_back(apply(Gelu{}, links.back()));
  for (const int i : {3, 6, 1, 8, 2, 4, 7, 5, 9, 0}) links[static_cast<std::size_t>(i)] = {};
  int derived_in_a_row = 0, kept = 0;
  for (const Tape::SavedTensorReport& slot : tape.report()) {
    derived_in_a_row = slot.hold == Hold::rematerialize ? derived_in_a_row + 1 : 0;
    kept += slot.hold == Hold::keep ? 1 : 0;
    CHECK(derived_in_a_row <= 3);
  }
  CHECK(kept <= 5);
}

TEST_CASE("a sign is a bit, unless somebody keeps the tensor or it is derived") {
  const Variable x = test_leaf({3, 7}, 1), weight = test_leaf({7, 7}, 2), frozen(test_values({7, 7}, 3));
  Tape tape(policy("exact"));
  const Recording recording(tape);
  Variable y;
  SUBCASE("nobody else needs the output: 21 bits") {
    y = linear(apply(Relu{}, linear(x, weight)), frozen);
    const Reports slots = tape.report();
    CHECK(described(slots).find("relu output 0")->second == Hold::sign_mask);
    CHECK(held(slots) == 3 * 7 * 8 + 7 * 7 * 8 * 2 + 3);  // x, both weights, the mask
  }
  SUBCASE("the next layer keeps it anyway") {
    y = linear(apply(Relu{}, linear(x, weight)), weight);
    CHECK(described(tape.report()).find("relu output 0")->second == Hold::keep);
  }
  SUBCASE("its input is kept anyway") {
    const Variable h = linear(x, weight);
    y = apply(Mul{}, apply(Relu{}, h), h);
    CHECK(described(tape.report()).find("relu output 0")->second == Hold::rematerialize);
  }
  SUBCASE("a mask serves no derivation: what stands on it is kept") {
    const Variable r = apply(Relu{}, linear(x, weight));
    y = linear(apply(Scale{2}, r), weight);
    const Described all = described(tape.report());
    CHECK(all.find("relu output 0")->second == Hold::sign_mask);
    CHECK(all.find("linear input 0")->second == Hold::keep);
  }
  tape.backward(total(y));
  CHECK(live_bytes(Purpose::saved) == 0);
}

TEST_CASE("each freeze pattern of a linear layer keeps what its gradients need and no more") {
  for (int pattern = 0; pattern < 8; ++pattern) {
    CAPTURE(pattern);
    const bool wants_x = (pattern & 1) != 0, wants_weight = (pattern & 2) != 0, wants_bias = (pattern & 4) != 0;
    const Variable x(test_values({2, 3}, 1), wants_x), weight(test_values({4, 3}, 2), wants_weight),
        bias(test_values({4}, 3), wants_bias);
    Tape tape(policy("keep"));
    const Recording recording(tape);
    const Variable y = linear(x, weight, bias);
    CHECK(y.requires_grad() == (pattern != 0));
    Described expected;
    if (wants_weight) expected.emplace("linear input 0", Hold::keep);
    if (wants_x) expected.emplace("linear input 1", Hold::keep);
    CHECK(described(tape.report()) == expected);
    CHECK(live_bytes(Purpose::saved) == (wants_weight ? 2 * 3 * 8 : 0) + (wants_x ? 4 * 3 * 8 : 0));
    if (pattern != 0) tape.backward(total(y));
    CHECK(live_bytes(Purpose::saved) == 0);
  }
}

TEST_CASE("frozen layers of a stack keep nothing below the first trained one") {
  const Variable x(test_values({2, 4}, 1));
  const auto saved_with = [&](std::vector<bool> trained) {
    std::vector<Variable> weights;
    for (std::size_t i = 0; i < trained.size(); ++i) {
      weights.push_back(test_parameter({4, 4}, static_cast<std::uint32_t>(10 + i)));
      weights.back().set_requires_grad(trained[i]);
    }
    Tape tape(policy("exact"));
    const Recording recording(tape);
    Variable h = x;
    for (const Variable& weight : weights) h = apply(Gelu{}, linear(std::move(h), weight));
    const std::int64_t bytes = held(tape.report());
    if (h.requires_grad()) tape.backward(total(h));
    CHECK(live_bytes(Purpose::saved) == 0);
    return bytes;
  };
  constexpr std::int64_t tensor = 2 * 4 * 8;
  CHECK(saved_with({false, false, false}) == 0);
  CHECK(saved_with({false, false, true}) == 2 * tensor);  // the layer's input, gelu's input
  CHECK(saved_with({false, true, false}) == 3 * tensor);  // its input, two inputs of gelu
  CHECK(saved_with({true, false, false}) == 4 * tensor);
  CHECK(saved_with({true, true, true}) == 4 * tensor);  // the linear layers' inputs are derived
}

TEST_CASE("freeze patterns of a norm") {
  const Variable x = test_leaf({2, 4}, 1);
  const auto saved_of = [&](bool wants_x, bool wants_weight) {
    const Variable weight = test_parameter({4}, 2), bias = test_parameter({4}, 3);
    Variable weight_or_not = weight;
    weight_or_not.set_requires_grad(wants_weight);
    Tape tape(policy("exact"));
    const Recording recording(tape);
    const Variable y = apply(LayerNorm{}, wants_x ? x : x.detach(), weight_or_not, bias);
    const std::int64_t bytes = held(tape.report());
    tape.backward(total(y));
    return bytes;
  };
  constexpr std::int64_t all = 2 * 4 * 8 + 2 * 2 * 8;  // x, mean and rstd
  CHECK(saved_of(true, true) == all);
  CHECK(saved_of(true, false) == all);
  CHECK(saved_of(false, true) == all);
  CHECK(saved_of(false, false) == 0);  // only the bias
}

TEST_CASE("one holder for one tensor") {
  const Variable leaf = test_leaf({6, 4}, 1);
  const Variable q = test_leaf({4, 4}, 2), k = test_leaf({4, 4}, 3), v = test_leaf({4, 4}, 4);
  Tape tape(policy("keep"));
  const Recording recording(tape);
  Variable y;
  SUBCASE("three layers share an input") {
    y = apply(Add{}, apply(Add{}, linear(leaf, q), linear(leaf, k)), linear(leaf, v));
    const Reports slots = tape.report();
    CHECK(slots.size() == 4);
    CHECK(held(slots) == 6 * 4 * 8 + 3 * 4 * 4 * 8);
    const Variable& shared = leaf;
    CHECK(std::any_of(slots.begin(), slots.end(),
                      [&](const auto& slot) { return slot.readers.size() == 3 && slot.info.shape == shared.shape(); }));
  }
  SUBCASE("under several shapes") {
    y = apply(Add{}, linear(leaf.reshape({2, 3, 4}), q).reshape({6, 4}), linear(leaf, k));
    CHECK(held(tape.report()) == 6 * 4 * 8 + 2 * 4 * 4 * 8);
  }
  SUBCASE("as a constant beside itself") {
    y = apply(Mul{}, leaf, leaf.detach());
    const Reports slots = tape.report();
    CHECK(slots.size() == 1);
    CHECK(held(slots) == 6 * 4 * 8);
  }
  tape.backward(total(y));
  CHECK(live_bytes(Purpose::saved) == 0);
}

TEST_CASE("what is derived reads its sources in the shapes the op saw") {
  check_gradients(
      [](const std::vector<Variable>& leaf) {
        // [6, 12] is first seen by gelu, and read whole by split_heads as [2, 3, 12].
        const Variable& x = leaf[0];
        const Variable curved = apply(Gelu{}, x);
        const Variable heads = apply(SplitHeads{.heads = 2, .part = 1, .parts = 3}, x.reshape({2, 3, 12}));
        const Variable product = linear(heads, leaf[1]);  // keeps heads [2, 2, 3, 2], which x yields
        return apply(Add{}, total(curved), total(apply(Tanh{}, product)));
      },
      {test_values({6, 12}, 1), test_values({3, 2}, 2)});
}

TEST_CASE("q, k and v of grouped heads each have their own number of heads, in a region too") {
  class Noting final : public MemoryPolicy {
   public:
    std::string_view name() const override { return "noting"; }
    Hold decide(const SavedTensorInfo& info) override {
      if (info.groups == Groups::head) heads[info.shape.back()] = info.heads;
      return decide_exactly(info);
    }
    std::map<std::int64_t, std::int64_t> heads;  // by columns
  };
  const SequencesPtr sequences = Sequences::packed(std::vector<std::int64_t>{0, 6});
  const auto attention = [&](Variable q, Variable k, Variable v) {
    return apply(CausalAttention{.heads = 8, .kv_heads = 2, .sequences = sequences}, std::move(q), std::move(k),
                 std::move(v));
  };
  const auto scaled = [](int columns) { return apply(Scale{.factor = 2}, test_leaf({1, 6, columns}, 1)); };
  Noting noting;
  {
    Tape tape(noting);
    const Recording recording(tape);
    tape.backward(total(attention(scaled(32), scaled(8), scaled(8))));
  }
  CHECK(noting.heads == std::map<std::int64_t, std::int64_t>{{32, 8}, {8, 2}});
  noting.heads.clear();
  {
    Tape tape(noting);
    const Recording recording(tape);
    const auto region = [&](std::vector<Variable> in) { return std::vector{attention(in[0], in[1], in[1])}; };
    tape.backward(total(checkpoint(Label("region"), region, {scaled(32), scaled(8)}).front()));
  }
  CHECK(noting.heads == std::map<std::int64_t, std::int64_t>{{32, 8}, {8, 2}});
}

TEST_CASE("a parameter that only a passing view names serves derivation") {
  const Variable positions = test_parameter({1, 3, 4}, 1);
  const Variable x = test_leaf({2, 3, 4}, 2), weight = test_parameter({4, 4}, 3);
  Tape tape(policy("exact"));
  const Recording recording(tape);
  Variable y;
  {
    Variable h = apply(AddBroadcast{.shape = {3, 4}}, apply(Gelu{}, x), positions.reshape({3, 4}));
    const Variable curved = apply(Gelu{}, h);
    y = linear(std::move(h), weight);
    y = apply(Add{}, y, curved);
  }
  for (const Tape::SavedTensorReport& slot : tape.report())
    if (slot.info.op == Label("add_broadcast")) CHECK(slot.info.shape == Shape{2, 3, 4});
  tape.backward(total(y));
  CHECK(positions.grad().shape() == Shape{1, 3, 4});
  CHECK(live_bytes(Purpose::saved) == 0);
}

TEST_CASE("statistics live as long as something may be derived with them") {
  // Backward of a frozen norm on a constant needs no statistics, but rematerializing its output does.
  const Variable x(test_values({2, 4}, 1), false, "image");
  const Variable weight(test_parameter({4}, 2).tensor()), bias(test_parameter({4}, 3).tensor());
  const Variable first = test_leaf({4, 4}, 4), second = test_leaf({4, 4}, 5);
  for (const bool held_to_the_end : {false, true}) {
    CAPTURE(held_to_the_end);
    Tape tape(policy("exact"));
    const Recording recording(tape);
    std::vector<Variable> values;
    Variable normed = apply(LayerNorm{}, x, weight, bias);
    const Variable aside = linear(x, second);  // keeps x
    if (held_to_the_end) values.push_back(normed);
    const Variable y = apply(Add{}, linear(std::move(normed), first), aside);
    CHECK(held(tape.report()) == 2 * 4 * 8 + 2 * 2 * 8);  // x, mean and rstd
    tape.backward(total(y));
    CHECK(live_bytes(Purpose::saved) == 0);
  }
}

TEST_CASE("a constant of the program that a norm's derivation reads") {
  const Variable x = test_leaf({2, 3, 4}, 1), weight = test_parameter({4}, 2), bias = test_parameter({4}, 3);
  const Variable next = test_parameter({4, 4}, 6);
  for (const bool trained : {true, false}) {
    Variable scale = weight, shift = bias;
    scale.set_requires_grad(trained);
    shift.set_requires_grad(trained);
    Tape tape(policy("exact"));
    const Recording recording(tape);
    Variable h = apply(Gelu{}, x);  // needed by itself behind it
    Variable normed = apply(FrozenBatchNorm{}, h, scale, shift, Variable(test_parameter({4}, 4).tensor()),
                            Variable(Tensor::full({4}, 2, DType::f64, Device::cpu)));
    h = apply(Gelu{}, std::move(h));
    const Variable y = apply(Add{}, linear(std::move(normed), next), std::move(h));
    tape.backward(total(y));
    CHECK(live_bytes(Purpose::saved) == 0);
  }
}

TEST_CASE("random ops draw the same numbers in backward and where they are derived") {
  const RandomStream stream{.seed = 5, .step = 3, .site = 9};
  const Variable weight = test_leaf({8, 8}, 2);
  const auto check = [&](auto op) {
    const Variable x = test_leaf({5, 8}, 1);
    Tape tape(policy("exact"));
    const Recording recording(tape);
    Variable dropped = apply(op, x);
    const std::vector<double> values = dropped.tensor().to_vector();
    const Variable y = apply(Add{}, linear(std::move(dropped), weight), apply(Gelu{}, x));  // the input is kept
    const Reports slots = tape.report();
    CHECK(described(slots).find("linear input 0")->second == Hold::rematerialize);
    tape.backward({{y, test_values({5, 8}, 4)}});
    // dW = dyᵀ · dropped: the derived values are those of forward.
    const std::vector<double> dy = test_values({5, 8}, 4).to_vector(), gradient = weight.grad().to_vector();
    for (std::size_t i = 0; i < 8; ++i) {
      for (std::size_t j = 0; j < 8; ++j) {
        double expected = 0;
        for (std::size_t row = 0; row < 5; ++row) expected += dy[row * 8 + i] * values[row * 8 + j];
        CHECK(gradient[i * 8 + j] == doctest::Approx(expected).epsilon(1e-12));
      }
    }
  };
  SUBCASE("dropout") { check(Dropout{.p = 0.4, .stream = stream}); }
  SUBCASE("drop path") { check(DropPath{.p = 0.4, .stream = stream}); }
}

TEST_CASE("parameters cost nothing to hold") {
  const Variable x(test_values({2, 3}, 1), true), weight = test_parameter({4, 3}, 2);
  Tape tape(policy("keep"));
  const Recording recording(tape);
  const Variable y = linear(x, weight);
  CHECK(held(tape.report()) == 2 * 3 * 8);
  CHECK(weight.tensor().storage()->owner().purpose == Purpose::parameters);
  tape.backward(total(y));
  CHECK(weight.tensor().storage()->owner().purpose == Purpose::parameters);
}

TEST_CASE("data stays data: keeping a batch costs nothing") {
  const Variable x(Tensor::zeros({2, 3}, DType::f64, Device::cpu, Purpose::data)), weight = test_leaf({4, 3}, 2);
  Tape tape(policy("exact"));
  const Recording recording(tape);
  const Variable y = linear(x, weight);
  CHECK(held(tape.report()) == 0);
  CHECK(x.tensor().storage()->owner().purpose == Purpose::data);
  tape.backward(total(y));
  CHECK(x.tensor().storage()->owner().purpose == Purpose::data);
}

TEST_CASE("data that its caller gave up is the tape's: kept it is counted, and policies code it") {
  const auto step = [](std::string_view name) {
    Variable x(Tensor::zeros({4, 8, 64}, DType::f32, Device::cpu, Purpose::data), false, "images");
    const Variable weight = test_leaf({4, 64}, 2, DType::f32);
    const std::int64_t bytes = x.tensor().bytes();
    Tape tape(policy(name));
    const Recording recording(tape);
    const Variable y = linear(std::move(x), weight);
    const Reports reports = tape.report();
    CHECK(live_bytes(Purpose::data) == 0);
    CHECK(held(reports) == live_bytes(Purpose::saved));
    CHECK(reports.front().info.key() == "images input");
    tape.backward(total(y));
    CHECK(live_bytes(Purpose::saved) == 0);
    return std::pair(reports.front().hold, static_cast<double>(held(reports)) / static_cast<double>(bytes));
  };
  CHECK(step("exact") == std::pair(Hold::keep, 1.0));
  CHECK(step("fixed") == std::pair(Hold::quantize, 8.0 / 32 + 4.0 / (4 * 256)));  // always 8 bits
}

TEST_CASE("what is needed exactly is not derived from a tensor that may still be coded") {
  // logits = gelu(u) + b, where u lives on: only then does it settle, in codes.
  const auto gradient_of_logits = [](std::string_view name, Hold::Kind expected) {
    const Variable x = test_leaf({4, 8, 64}, 1, DType::f32), first = test_parameter({64, 64}, 2, DType::f32),
                   second = test_parameter({64, 64}, 3, DType::f32), b = test_parameter({4, 8, 64}, 4, DType::f32);
    const std::vector<std::int64_t> classes(32, 5);
    Tape tape(policy(name));
    const Recording recording(tape);
    Variable u = linear(x, first), read, loss;
    {
      Variable curve = apply(Gelu{}, u);
      read = linear(curve, second);
      Variable logits = apply(Add{}, std::move(curve), b);
      loss = apply(CrossEntropy{}, logits.reshape({32, 64}),
                   Variable(Tensor::from(std::span<const std::int64_t>(classes), {32})));
    }
    u = {};
    const Described holds = described(tape.report());
    CHECK(holds.find("cross_entropy input 0")->second == expected);
    CHECK(holds.find("gelu input 0")->second == (expected == Hold::keep ? Hold::quantize : Hold::keep));
    tape.backward({{loss, {}}, {total(std::move(read)), {}}});
    return b.grad().to_vector();
  };
  CHECK(gradient_of_logits("fixed", Hold::keep) == gradient_of_logits("exact", Hold::rematerialize));
}

TEST_CASE("a report in the midst of forward changes nothing but the time of the decision") {
  const Variable x = test_leaf({3, 4}, 1), weight = test_leaf({4, 4}, 2);
  std::vector<double> gradients[2];
  for (const bool asks : {false, true}) {
    const Variable leaf(x.tensor().clone(), true);
    Tape tape(policy("exact"));
    const Recording recording(tape);
    const Variable h = apply(Add{}, leaf, leaf);
    const Variable first = apply(Relu{}, linear(h, weight.detach()));
    if (asks) tape.report();
    const Variable y = apply(Mul{}, linear(first, weight), h);
    tape.backward(total(y));
    gradients[asks ? 1 : 0] = leaf.grad().to_vector();
    CHECK(live_bytes(Purpose::saved) == 0);
  }
  CHECK(gradients[0] == gradients[1]);
}

namespace {

/// Answers every question alike.
class Stubborn final : public MemoryPolicy {
 public:
  explicit Stubborn(Hold::Kind hold) : hold_(hold) {}
  std::string_view name() const override { return "stubborn"; }
  Hold decide(const SavedTensorInfo&) override { return {.kind = hold_}; }

 private:
  Hold::Kind hold_;
};

}  // namespace

TEST_CASE("an impossible answer of a policy is an error of the next op, and of each after it") {
  const auto message_with = [](Hold::Kind hold) {
    Stubborn stubborn(hold);
    const Variable x = test_leaf({2, 4}, 1), weight = test_leaf({4, 4}, 2);
    Tape tape(stubborn);
    const Recording recording(tape);
    Variable h = linear(linear(x, weight), weight), loss;
    const std::string first = error_of([&] { loss = total(h); });
    CHECK(error_of([&] { loss = total(h); }) == first);
    CHECK(error_of([&] { tape.finalize(); }) == first);
    if (!loss.defined()) return first;
    return error_of([&] { tape.backward(loss); });
  };
  for (const Hold::Kind wrong : {Hold::drop, Hold::rematerialize, Hold::sign_mask, Hold::quantize})
    test::check_says(message_with(wrong), name_of(wrong));
  CHECK(message_with(Hold::keep) == "no error");
}

TEST_CASE("an error in a decision reaches the caller, and the tape goes on once the cause is gone") {
  /// Throws as long as it is told to.
  class Failing final : public MemoryPolicy {
   public:
    std::string_view name() const override { return "failing"; }
    Hold decide(const SavedTensorInfo& info) override {
      if (fails) throw std::bad_alloc();
      return decide_exactly(info);
    }
    bool fails = true;
  };
  Failing failing;
  const Variable x = test_leaf({2, 4}, 1), weight = test_leaf({4, 4}, 2);
  const auto forward = [&] {
    Variable h = linear(apply(Relu{}, linear(x, weight)), weight);
    return total(std::move(h));
  };
  std::vector<double> gradients[2];
  for (const bool fails : {false, true}) {
    Variable(weight).set_grad({});
    Tape tape(failing);
    const Recording recording(tape);
    failing.fails = fails;
    if (fails) {
      CHECK_THROWS_AS(forward(), std::bad_alloc);
      CHECK_THROWS_AS(tape.finalize(), std::bad_alloc);
      failing.fails = false;
    }
    tape.backward(forward());
    gradients[fails ? 1 : 0] = weight.grad().to_vector();
    CHECK(live_bytes(Purpose::saved) == 0);
  }
  CHECK(gradients[0] == gradients[1]);
}

TEST_CASE("a saved view of a larger tensor counts its own bytes") {
  const Tensor all = test_values({8, 4}, 1);
  const Variable x(all.leading(0, 2), true), weight = test_leaf({3, 4}, 2);
  Tape tape(policy("keep"));
  const Recording recording(tape);
  const Variable y = linear(x, weight);
  CHECK(held(tape.report()) == 2 * 4 * 8 + 3 * 4 * 8);
  tape.backward(total(y));
}

TEST_CASE("the ledger on meta sees the bytes of a run") {
  const auto highest_on = [](Device device) {
    const auto leaf = [&](const Shape& shape, Purpose purpose) {
      return Variable(Tensor::full(shape, 0.5, DType::f32, device, purpose), true);
    };
    const Variable x = leaf({16, 8}, Purpose::data);
    const Variable norm_weight = leaf({8}, Purpose::parameters), norm_bias = leaf({8}, Purpose::parameters);
    const Variable first = leaf({32, 8}, Purpose::parameters), second = leaf({8, 32}, Purpose::parameters);
    ledger(device).reset_peak();
    Tape tape(policy("exact"));
    const Recording recording(tape);
    Variable h = linear(apply(LayerNorm{}, x, norm_weight, norm_bias), first);
    Variable y = apply(Add{}, x, linear(apply(Relu{}, std::move(h)), second));
    tape.backward(total(std::move(y)));
    return ledger(device).highest();
  };
  CHECK(highest_on(Device::meta) == highest_on(Device::cpu));
}
