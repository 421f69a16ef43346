#include "autograd/tape.h"

#include "ops/arithmetic/arithmetic.h"
#include "ops/curves/activation.h"
#include "ops/products/linear.h"
#include "ops/shapes/slicing.h"
#include "tests/autograd/graphs.h"

#include <doctest/doctest.h>

using namespace lacuna;

namespace {

Variable linear(Variable x, const Variable& weight, const Variable& bias = {}) {
  return apply(Linear{}, std::move(x), weight, bias);
}

}  // namespace

TEST_CASE("a residual connection") {
  check_gradients(
      [](const std::vector<Variable>& leaf) {
        const Variable x = apply(Tanh{}, leaf[0]);
        return total(apply(Mul{}, apply(Add{}, x, apply(Gelu{}, linear(x, leaf[1], leaf[2]))), x));
      },
      {test_values({3, 4}, 1), test_values({4, 4}, 2), test_values({4}, 3)});
}

TEST_CASE("a module used twice") {
  check_gradients(
      [](const std::vector<Variable>& leaf) {
        const Variable once = apply(Silu{}, linear(leaf[0], leaf[1], leaf[2]));
        return total(apply(Silu{}, linear(once, leaf[1], leaf[2])));
      },
      {test_values({3, 5}, 1), test_values({5, 5}, 2), test_values({5}, 3)});
}

TEST_CASE("one value as both inputs of an op") {
  check_gradients(
      [](const std::vector<Variable>& leaf) {
        const Variable x = apply(Sigmoid{}, leaf[0]);
        return total(apply(Add{}, apply(Mul{}, x, x), apply(Add{}, x, x)));
      },
      {test_values({7}, 1)});
}

TEST_CASE("two losses in one backward give what their sum gives") {
  const auto gradients = [](bool as_sum) {
    const Variable x = test_leaf({3, 4}, 1), weight = test_leaf({2, 4}, 2);
    Tape tape(policy("exact"));
    const Recording recording(tape);
    const Variable y = linear(apply(Gelu{}, x), weight);
    Variable first = total(apply(Tanh{}, y)), second = total(apply(Mul{}, y, y));
    if (as_sum)
      tape.backward(apply(Add{}, first, second));
    else
      tape.backward({{first, {}}, {second, {}}});
    std::vector<double> all = x.grad().to_vector();
    for (const double g : weight.grad().to_vector()) all.push_back(g);
    return all;
  };
  CHECK(gradients(true) == gradients(false));
}

TEST_CASE("backward starts from the gradient it is given") {
  const Variable x = test_leaf({4}, 1);
  const Tensor start = test_values({4}, 2);
  const std::vector<double> before = start.to_vector();
  Tape tape(policy("exact"));
  const Recording recording(tape);
  const Variable y = apply(Scale{3}, x);
  tape.backward({{y, start}});
  for (std::size_t i = 0; i < 4; ++i) CHECK(x.grad().to_vector()[i] == 3 * before[i]);
  CHECK(start.to_vector() == before);  // the caller's own
}

TEST_CASE("a loss that is a leaf itself") {
  const Variable x(Tensor::full({}, 2, DType::f64, Device::cpu), true);
  Tape tape(policy("exact"));
  tape.backward(x);
  CHECK(x.grad().item() == 1);
}

TEST_CASE("an input gathers a gradient only if it requires one") {
  const Variable weight = test_leaf({3, 4}, 2);
  for (const bool wanted : {true, false}) {
    const Variable x(test_values({2, 4}, 1), wanted, "image");
    Tape tape(policy("exact"));
    {
      const Recording recording(tape);
      tape.backward(total(linear(x, weight)));
    }
    CHECK(x.requires_grad() == wanted);
    if (!wanted)
      CHECK_THROWS_WITH_AS(x.grad(), "only a leaf that requires a gradient has one", Error);
    else
      CHECK(x.grad().shape() == Shape{2, 4});
  }
}

TEST_CASE("backward runs once on a tape") {
  const Variable x = test_leaf({4}, 1);
  Tape tape(policy("exact"));
  const Recording recording(tape);
  const Variable loss = total(apply(Gelu{}, x));
  tape.backward(loss);
  CHECK(error_of([&] { tape.backward(loss); }) ==
        "backward was run on this tape before, and what it had saved is freed, or read in part before an error: run "
        "forward again on a new tape, or pass several losses to one call");
  CHECK(error_of([&] { apply(Gelu{}, x); }) == "backward was run on this tape already: record on a new one");
}

TEST_CASE("an invalid start of backward is an error, and the tape stays as it was") {
  const Variable x = test_leaf({4}, 1);
  Tape tape(policy("exact")), other(policy("exact"));
  Variable y, elsewhere;
  {
    const Recording recording(tape);
    y = apply(Gelu{}, x);
  }
  {
    const Recording recording(other);
    elsewhere = total(x);
  }
  CHECK(error_of([&] { tape.backward(y); }) ==
        "backward from [4]: a value with more than one element needs the gradient to start from");
  CHECK(error_of([&] {
          tape.backward({{y, test_values({2, 2}, 1)}});
        }) == "backward from [4] f64 with a gradient of [2, 2] f64");
  CHECK(error_of([&] {
          tape.backward({{y, test_values({4}, 1, DType::f32)}});
        }) == "backward from [4] f64 with a gradient of [4] f32");
  CHECK(error_of([&] { tape.backward(elsewhere); }) == "backward from a value that another tape recorded");
  CHECK(error_of([&] { tape.backward(y.detach()); }) ==
        "backward from a value that depends on no parameter that requires a gradient");
  const Recording recording(tape);
  CHECK(error_of([&] { apply(Add{}, elsewhere, elsewhere); }) ==
        "add in  takes a value that another tape recorded: detach it first");
  tape.backward(total(y));
  CHECK(x.grad().defined());
}

TEST_CASE("gradients of micro-batches add up to those of the whole batch") {
  const Tensor batch = test_values({6, 5}, 1);
  const auto gradients = [&](std::int64_t parts) {
    const Variable weight = test_leaf({3, 5}, 2), bias = test_leaf({3}, 3);
    for (std::int64_t i = 0; i < parts; ++i) {
      Tape tape(policy("exact"));
      const Recording recording(tape);
      const Variable x(batch.leading(i * 6 / parts, (i + 1) * 6 / parts));
      tape.backward(total(apply(Tanh{}, linear(x, weight, bias))));
    }
    std::vector<double> all = weight.grad().to_vector();
    for (const double g : bias.grad().to_vector()) all.push_back(g);
    return all;
  };
  const std::vector<double> whole = gradients(1), micro = gradients(3);
  for (std::size_t i = 0; i < whole.size(); ++i) CHECK(micro[i] == doctest::Approx(whole[i]).epsilon(1e-12));
}

TEST_CASE("the ledger counts a leaf's gradient as one, under its path") {
  const Variable weight = test_leaf({3, 5}, 2);
  const std::int64_t before = live_bytes(Purpose::gradients);
  {
    Tape tape(policy("exact"));
    const Recording recording(tape);
    tape.backward(total(linear(Variable(test_values({2, 5}, 1)), weight)));
  }
  CHECK(live_bytes(Purpose::gradients) - before == 3 * 5 * 8);
  CHECK(weight.grad().storage()->owner().path.text() == "leaf2");
}

TEST_CASE("a tensor changed in place since forward is refused with the op's name") {
  const Variable x = test_leaf({2, 4}, 1), weight = test_parameter({3, 4}, 2);
  Tape tape(policy("exact"));
  Variable loss;
  {
    const Recording recording(tape);
    loss = total(linear(x, weight));
  }
  SUBCASE("a parameter") {
    weight.tensor().bump_version();
    CHECK(
        error_of([&] { tape.backward(loss); }) ==
        "linear reads a tensor of parameter parameter2 ([3, 4]) as it was when it was recorded, but it was changed in "
        "place since: run backward before the change, or forward again");
  }
  SUBCASE("an input") {
    x.tensor().bump_version();
    CHECK(error_of([&] { tape.backward(loss); }).starts_with("linear reads a tensor of"));
  }
  SUBCASE("also by an op that comes later") {
    weight.tensor().bump_version();
    const Recording recording(tape);
    CHECK(error_of([&] { linear(x, weight); }).starts_with("linear reads a tensor of parameter parameter2 ([3, 4])"));
  }
}

TEST_CASE("a tensor changed before its signs were packed is refused") {
  const Variable x = test_leaf({3, 4}, 1), weight(test_values({4, 4}, 2));
  Tape tape(policy("exact"));
  const Recording recording(tape);
  Variable loss;
  {
    const Variable h = apply(Relu{}, linear(x, weight));
    loss = total(h);
    h.tensor().bump_version();
  }
  CHECK(error_of([&] { tape.backward(loss); }).starts_with("relu reads a tensor of relu"));
}

TEST_CASE("a value may die after its source was changed in place") {
  const Variable x = test_leaf({2, 4}, 1), weight = test_leaf({4, 4}, 2);
  Tape tape(policy("exact"));
  const Recording recording(tape);
  Variable loss;
  {
    const Variable h = apply(Gelu{}, x);  // could be derived from x, which gelu keeps
    loss = total(linear(h, weight));
    x.tensor().bump_version();
  }
  CHECK(error_of([&] { tape.backward(loss); }).starts_with("gelu reads a tensor of"));
}

namespace {

/// x [3, 4], weight [4, 4].
struct SmallGraph {
  Variable x = test_leaf({3, 4}, 1), weight = test_leaf({4, 4}, 2);
  Variable forward() const {
    const Variable h = apply(Gelu{}, linear(x, weight));
    return apply(Relu{}, linear(apply(Add{}, h, x), weight));
  }
};

}  // namespace

TEST_CASE("nothing stays saved after backward") {
  for (const std::string_view name : {"keep", "exact"}) {
    CAPTURE(name);
    const std::int64_t before = ledger(Device::cpu).total();
    const SmallGraph graph;
    Tape tape(policy(name));
    {
      const Recording recording(tape);
      tape.backward(total(graph.forward()));
    }
    CHECK(tape.saved_bytes() > 0);
    CHECK(live_bytes(Purpose::saved) == 0);
    CHECK(ledger(Device::cpu).total() - before == 2 * (12 + 16) * 8);  // values and gradients of both
  }
}

TEST_CASE("nothing stays saved by a tape dropped without backward, though its values live on") {
  for (const std::string_view name : {"keep", "exact"}) {
    CAPTURE(name);
    const std::int64_t before = ledger(Device::cpu).total();
    const SmallGraph graph;
    Variable y;
    {
      Tape tape(policy(name));
      const Recording recording(tape);
      y = graph.forward();
    }
    CHECK(live_bytes(Purpose::saved) == 0);
    CHECK(ledger(Device::cpu).total() - before == (12 + 16 + 12) * 8);  // x, weight and y
  }
}

TEST_CASE("nothing stays saved after an error in backward") {
  for (const std::string_view name : {"keep", "exact"}) {
    CAPTURE(name);
    const std::int64_t before = ledger(Device::cpu).total();
    {
      const SmallGraph graph;
      Tape tape(policy(name));
      const Recording recording(tape);
      const Variable y = graph.forward();
      graph.weight.tensor().bump_version();
      CHECK_THROWS_AS(tape.backward(total(y)), Error);
    }
    CHECK(ledger(Device::cpu).total() == before);
  }
}

TEST_CASE("an op whose output no loss depends on has no backward") {
  const Variable x = test_leaf({3, 4}, 1), weight = test_leaf({4, 4}, 2), other = test_leaf({4, 4}, 3);
  Tape tape(policy("exact"));
  const Recording recording(tape);
  const Variable aside = apply(Gelu{}, linear(apply(Gelu{}, x), other));
  tape.backward(total(linear(x, weight)));
  CHECK(x.grad().defined());
  CHECK_FALSE(other.grad().defined());
  CHECK(live_bytes(Purpose::saved) == 0);
  CHECK(aside.tensor().defined());
}

TEST_CASE("values outlive the tape") {
  const Variable x = test_leaf({3, 4}, 1);
  Variable h, y;
  {
    Tape tape(policy("exact"));
    const Recording recording(tape);
    h = apply(Gelu{}, x);
    y = apply(Gelu{}, h);
    tape.backward(total(y));
  }
  CHECK(h.tensor().storage()->owner().purpose == Purpose::transient);
  const std::vector<double> values = h.tensor().to_vector();
  Tape tape(policy("exact"));
  const Recording recording(tape);
  CHECK(error_of([&] { apply(Gelu{}, h); }) == "gelu in  takes a value that another tape recorded: detach it first");
  const Variable weight = test_leaf({2, 4}, 3);
  tape.backward(total(linear(h.detach(), weight)));
  CHECK(weight.grad().defined());
  CHECK(h.tensor().to_vector() == values);
}

TEST_CASE("without a tape nothing is recorded") {
  const Variable x = test_leaf({3, 4}, 1);
  const std::int64_t before = ledger(Device::cpu).total();
  CHECK_FALSE(apply(Gelu{}, x).requires_grad());
  CHECK(ledger(Device::cpu).total() == before);
  Tape outer(policy("exact")), inner(policy("exact"));
  const Recording recording(outer);
  {
    const Recording nested(inner);
    apply(Gelu{}, x);
  }
  apply(Gelu{}, x);
  CHECK(outer.size() == 1);
  CHECK(inner.size() == 1);
}

TEST_CASE("a reshape is free in both directions, also where ops add to one gradient in place") {
  check_gradients(
      [](const std::vector<Variable>& leaf) {
        const Variable x = apply(Tanh{}, leaf[0]);  // [6, 4]
        const Variable tokens = x.reshape({2, 3, 4});
        const Variable first = apply(Slice{.axis = 1, .begin = 0, .end = 1, .extent = 3}, tokens);
        const Variable rest = apply(Slice{.axis = 1, .begin = 1, .end = 3, .extent = 3}, tokens);
        return total(apply(Mul{}, apply(Concat{.axis = 1, .extents = {2, 1}}, rest, first), x.reshape({2, 3, 4})));
      },
      {test_values({6, 4}, 1)});
}

TEST_CASE("requires_grad can be set on leaves only") {
  Variable x(test_values({4}, 1));
  CHECK_FALSE(x.requires_grad());
  x.set_requires_grad(true);
  CHECK(x.requires_grad());
  Tape tape(policy("exact"));
  const Recording recording(tape);
  Variable y = apply(Gelu{}, x);
  CHECK_THROWS_AS(y.set_requires_grad(false), Error);
  const std::vector<std::int64_t> labels{1, 2};
  CHECK_THROWS_WITH_AS(Variable(Tensor::from(std::span<const std::int64_t>(labels), {2}), true),
                       "a tensor of i64 has no gradient", Error);
}

TEST_CASE("a hook sees a leaf once, when backward has passed all its readers, in regions too") {
  for (const bool reaches_loss : {true, false}) {
    const Variable x = test_leaf({2, 3, 4}, 1), w = test_leaf({2, 3, 4}, 2);
    Tape tape(policy("exact"));
    const Recording recording(tape);
    const auto region = [&](const Variable& in) {
      return checkpoint_of(Label("region"), in, [&w](Variable inner) { return apply(Mul{}, std::move(inner), w); });
    };
    Variable unused = region(x);
    Variable y = apply(Add{}, region(x), apply(Scale{0.5}, x));
    if (reaches_loss) y = apply(Add{}, std::move(y), std::move(unused));
    unused = {};
    std::vector<std::vector<double>> told_x, told_w;
    tape.backward(total(apply(Mul{}, std::move(y), w)),
                  {.post_accumulate_grad_hooks = {[&](const Leaf& leaf) {
                     (&leaf == x.leaf() ? told_x : told_w).push_back(leaf.gradient.to_vector());
                   }}});
    REQUIRE(told_x.size() == 1);
    REQUIRE(told_w.size() == 1);
    CHECK(told_x[0] == x.grad().to_vector());
    CHECK(told_w[0] == w.grad().to_vector());
  }
}

TEST_CASE("after an error in backward, backward cannot run again and calls no hook") {
  const SmallGraph graph;
  Tape tape(policy("exact"));
  const Recording recording(tape);
  const Variable loss = total(graph.forward());
  int told = 0;
  {
    const BackwardOptions stopping{.post_accumulate_grad_hooks = {[&](const Leaf&) {
                                     ++told;
                                     fail("stop");
                                   }},
                                   .retain_graph = true};
    CHECK(error_of([&] { tape.backward(loss, stopping); }) == "stop");
  }
  CHECK(told == 1);
  // Half of what it had passed on would be there twice.
  CHECK(error_of([&] { tape.backward(loss); }).starts_with("backward was run on this tape before"));
  CHECK(told == 1);
}

TEST_CASE("two gradient hooks run for each leaf in the order in which they were given") {
  const Variable x = test_leaf({2, 3}, 1), w = test_leaf({2, 3}, 2);
  Tape tape(policy("exact"));
  const Recording recording(tape);
  std::vector<std::pair<int, const Leaf*>> calls;
  const Variable loss = total(apply(Mul{}, x, w));
  tape.backward(loss, {.post_accumulate_grad_hooks = {[&](const Leaf& leaf) { calls.emplace_back(1, &leaf); },
                                                      [&](const Leaf& leaf) { calls.emplace_back(2, &leaf); }}});
  REQUIRE(calls.size() == 4);
  for (const std::size_t i : {0U, 2U}) {
    CHECK(calls[i].first == 1);
    CHECK(calls[i + 1].first == 2);
    CHECK(calls[i].second == calls[i + 1].second);
  }
  CHECK(calls[0].second != calls[2].second);
}

TEST_CASE("a hook that takes the gradient away hides the leaf from the hooks behind it") {
  Variable x = test_leaf({2, 3}, 1);
  Tape tape(policy("exact"));
  const Recording recording(tape);
  int second = 0;
  tape.backward(total(apply(Gelu{}, x)),
                {.post_accumulate_grad_hooks = {[&](const Leaf&) { x.set_grad({}); }, [&](const Leaf&) { ++second; }}});
  CHECK(second == 0);
}

TEST_CASE("using an undefined or moved-from variable is an error") {
  Variable x = test_leaf({2, 3}, 1);
  const Variable moved = std::move(x);
  for (const Variable& empty : {Variable(), x}) {
    CHECK_FALSE(empty.defined());
    CHECK_FALSE(empty.requires_grad());
    CHECK(empty.leaf() == nullptr);
    CHECK_THROWS_AS(empty.tensor(), Error);
    CHECK_THROWS_AS(empty.shape(), Error);
    CHECK_THROWS_AS(empty.grad(), Error);
    CHECK_THROWS_AS(empty.detach(), Error);
    CHECK_THROWS_AS(empty.reshape({6}), Error);
    CHECK_THROWS_AS(Variable(empty).set_requires_grad(true), Error);
    Tape tape(policy("exact"));
    CHECK_THROWS_AS(tape.backward(empty), Error);
  }
}
