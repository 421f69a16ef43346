#include "autograd/tape.h"
#include "ops/arithmetic/arithmetic.h"
#include "ops/curves/activation.h"
#include "ops/products/linear.h"
#include "tests/autograd/graphs.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

using namespace lacuna;

namespace {

/// Writes down what it is told.
class Witness final : public Observer {
 public:
  void before(Phase phase, const Operation& op, Label path) override {
    CHECK_FALSE(inside_);
    inside_ = true;
    lines.push_back(fmt::format("{} {} {}", phase == Phase::forward ? ">" : "<", op.name(), path.text()));
  }
  void after(Phase, const Operation&, Label, const Work& work, std::span<const Tensor> results) override {
    CHECK(inside_);
    inside_ = false;
    lines.back() += fmt::format(" {} {}", work.bytes, work.macs);
    for (const Tensor& result : results) lines.back() += fmt::format(" {}", result.shape());
  }
  std::vector<std::string> lines;

 private:
  bool inside_ = false;
};

}  // namespace

TEST_CASE("an observer sees each op once a pass, in order, with its bytes, products and results") {
  const Variable x = test_leaf({2, 4}, 1), weight = test_leaf({3, 4}, 2);
  Witness witness;
  Tape tape(policy("exact"));
  tape.set_observer(&witness);
  {
    const Recording recording(tape);
    const AllocationScope scope({Purpose::transient, {}, Label("head")});
    Variable h = apply(Linear{}, x, weight, Variable());
    tape.backward(total(apply(Relu{}, std::move(h))));
  }
  apply(Gelu{}, x);                                   // not on the tape
  constexpr int in = 8 * 8, w = 12 * 8, out = 6 * 8;  // bytes
  const auto line = [](std::string_view what, int bytes, int macs, std::string_view results) {
    return fmt::format("{} {} {} {}", what, bytes, macs, results);
  };
  CHECK(witness.lines == std::vector<std::string>{
                             line("> linear head", in + w + out, 2 * 4 * 3, "[2, 3]"),
                             line("> relu head", out + out, 0, "[2, 3]"),
                             line("> sum head", out + 8, 0, "[]"),
                             line("< sum head", 8 + out, 0, "[2, 3]"),
                             line("< relu head", out + 1 + out, 0, "[2, 3]"),  // 6 signs are a byte
                             line("< linear head", out + in + w + in + w, 2 * 2 * 4 * 3, "[2, 4] [3, 4]"),
                         });
}

namespace {

/// The ops that ran, in order, without what they took.
std::vector<std::string> names_of(const std::vector<std::string>& lines) {
  std::vector<std::string> ops;
  for (const std::string& line : lines) ops.push_back(line.substr(0, line.find(' ', 2)));
  return ops;
}

}  // namespace

TEST_CASE("an observer sees a region's ops in forward, and in backward those that run again") {
  const Variable x = test_leaf({2, 4}, 1), in = test_leaf({3, 4}, 2), out = test_leaf({4, 3}, 3);
  const auto mlp = [&](Variable value) {
    return apply(Linear{}, apply(Gelu{}, apply(Linear{}, std::move(value), in, Variable())), out, Variable());
  };
  const auto gradients = [&](const std::function<Variable()>& forward) {
    for (const Variable& leaf : {x, in, out}) Variable(leaf).set_grad({});
    Witness witness;
    Tape tape(policy("exact"));
    tape.set_observer(&witness);
    const Recording recording(tape);
    tape.backward(total(forward()));
    std::vector<std::vector<double>> values;
    for (const Variable& leaf : {x, in, out}) values.push_back(leaf.grad().to_vector());
    return std::pair(names_of(witness.lines), values);
  };
  const auto [kept, exact] = gradients([&] { return apply(Add{}, mlp(x), x); });
  const auto [ran, again] = gradients([&] {
    return checkpoint_of(Label("region"), x, [&](Variable value) { return apply(Add{}, mlp(value), value); });
  });
  // Nobody reads what the second linear layer gives, nor the sum.
  CHECK(ran == std::vector<std::string>{"> linear", "> gelu", "> linear", "> add", "> sum", "< sum", "> linear",
                                        "> gelu", "< add", "< linear", "< gelu", "< linear"});
  CHECK(again == exact);
  // A region that runs again within one: its ops count among the outer one's.
  const auto [nested, gradients_nested] = gradients([&] {
    return checkpoint_of(Label("region"), x, [&](Variable value) {
      Variable sum;
      if (is_recomputing())
        sum = checkpoint_of(Label("part"), value, mlp);
      else
        sum = mlp(value);
      return apply(Add{}, std::move(sum), value);
    });
  });
  CHECK(gradients_nested == exact);
  CHECK(std::count(nested.begin(), nested.end(), "> linear") == 4);  // two in forward, one in each run again
  CHECK(std::count(nested.begin(), nested.end(), "> add") == 1);
}

TEST_CASE("a region may contain ops that are not recorded, and a region without gradients") {
  const Variable x = test_leaf({2, 4}, 1), weight = test_leaf({4, 4}, 2);
  const auto gradient = [&](const std::function<Variable()>& forward) {
    Variable(weight).set_grad({});
    Witness witness;
    Tape tape(policy("exact"));
    tape.set_observer(&witness);
    const Recording recording(tape);
    tape.backward(total(forward()));
    return std::pair(weight.grad().to_vector(), names_of(witness.lines));
  };
  const auto unrecorded = [](const Variable& value) {
    const NoGrad no_grad;
    return apply(Gelu{}, value).detach();
  };
  const auto scaled = [&](const Variable& value) { return apply(Linear{}, value, weight, Variable()); };
  const Variable constant(x.tensor());
  const auto [exact, ran] = gradient([&] { return scaled(unrecorded(constant)); });
  const auto [again, ran_again] = gradient([&] {
    return checkpoint_of(Label("region"), constant, [&](const Variable& value) { return scaled(unrecorded(value)); });
  });
  CHECK(again == exact);
  CHECK(std::count(ran_again.begin(), ran_again.end(), "> gelu") == 2);
  const auto [frozen, ran_frozen] = gradient([&] {
    return checkpoint_of(Label("region"), constant, [&](const Variable& value) {
      const auto curve = [](const Variable& in) { return apply(Gelu{}, in); };
      return scaled(is_recomputing() ? checkpoint_of(Label("frozen"), value, curve) : curve(value));
    });
  });
  CHECK(frozen == exact);
  CHECK(std::count(ran_frozen.begin(), ran_frozen.end(), "> gelu") == 2);
  const auto [outside, ran_outside] = gradient([&] {
    return scaled(checkpoint_of(Label("frozen"), constant, [](const Variable& in) { return apply(Gelu{}, in); }));
  });
  CHECK(outside == exact);
  CHECK(std::count(ran_outside.begin(), ran_outside.end(), "> gelu") == 1);
}

TEST_CASE("a region whose last result is read runs again whole; other ops than in forward are an error") {
  const Variable x = test_leaf({2, 4}, 1), factor = test_leaf({2, 4}, 2);
  Witness witness;
  {
    Tape tape(policy("exact"));
    tape.set_observer(&witness);
    const Recording recording(tape);
    tape.backward(total(checkpoint_of(Label("region"), x, [&](Variable value) {
      return apply(Mul{}, apply(Gelu{}, std::move(value)), factor);  // the product reads what it multiplies
    })));
  }
  CHECK(names_of(witness.lines) ==
        std::vector<std::string>{"> gelu", "> mul", "> sum", "< sum", "> gelu", "< mul", "< gelu"});
  const auto other_ops = [&](bool more) {
    return error_of([&] {
      Tape tape(policy("exact"));
      const Recording recording(tape);
      tape.backward(total(checkpoint_of(Label("region"), x, [&](Variable value) {
        Variable y = apply(Gelu{}, std::move(value));
        if (is_recomputing() == more) y = apply(Silu{}, std::move(y));
        return y;
      })));
    });
  };
  CHECK(other_ops(true) == "region was recomputed with another op than in forward: silu as number 1");
  CHECK(other_ops(false) == "region was recomputed by 1 ops, after 2 in forward");
}
