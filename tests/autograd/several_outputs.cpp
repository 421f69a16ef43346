// An op with two differentiable outputs on the tape.
#include "autograd/tape.h"
#include "ops/arithmetic/arithmetic.h"
#include "tests/autograd/graphs.h"
#include "tests/ops/polar.h"

#include <doctest/doctest.h>

using namespace lacuna;

namespace {

/// A scalar that depends on u (bit 0 of `used`), on v (bit 1), on both, or on neither.
Variable loss_of(const std::vector<Variable>& leaf, int used, bool checkpointed = false) {
  const Variable radius = apply(Scale{2}, leaf[0]), angle = apply(Scale{0.5}, leaf[1]);
  const CheckpointFunction polar = [](std::vector<Variable> in) {
    auto [u, v] = apply(PolarToCartesian{}, apply(Scale{3}, std::move(in[0])), std::move(in[1]));
    return std::vector<Variable>{std::move(u), std::move(v)};
  };
  std::vector<Variable> out =
      checkpointed ? checkpoint(Label("polar"), polar, {radius, angle}) : polar({radius, angle});
  Variable loss = total(apply(Mul{}, radius, angle));
  if ((used & 1) != 0) loss = apply(Add{}, std::move(loss), total(apply(Mul{}, out[0], out[0])));
  if ((used & 2) != 0) loss = apply(Add{}, std::move(loss), total(apply(Mul{}, out[1], radius)));
  return loss;
}

}  // namespace

TEST_CASE("two outputs: gradients agree with differences whichever of them the loss depends on") {
  for (const std::string_view name : {"keep", "exact"})
    for (const bool checkpointed : {false, true})
      for (const int used : {0, 1, 2, 3}) {
        CAPTURE(name);
        CAPTURE(checkpointed);
        CAPTURE(used);
        check_gradients([=](const std::vector<Variable>& leaf) { return loss_of(leaf, used, checkpointed); },
                        {test_values({2, 3}, 1), test_values({2, 3}, 2)}, name);
        CHECK(live_bytes(Purpose::saved) == 0);
      }
}

TEST_CASE("two outputs: the policy exact and a checkpointed region give the bits of keep") {
  const auto gradients = [](std::string_view name, bool checkpointed, int used) {
    const std::vector<Variable> leaf{test_leaf({2, 3}, 1), test_leaf({2, 3}, 2)};
    Tape tape(policy(name));
    const Recording recording(tape);
    tape.backward(loss_of(leaf, used, checkpointed));
    std::vector<double> all = leaf[0].grad().to_vector();
    for (const double g : leaf[1].grad().to_vector()) all.push_back(g);
    return all;
  };
  for (const int used : {0, 1, 2, 3}) {
    CAPTURE(used);
    const std::vector<double> kept = gradients("keep", false, used);
    CHECK(gradients("exact", false, used) == kept);
    CHECK(gradients("exact", true, used) == kept);
  }
}

TEST_CASE("two outputs: only what the wanted gradients need is saved, each output under its own key") {
  const auto saved_keys = [](bool of_radius, bool of_angle) {
    const Variable radius(test_values({2, 3}, 1), of_radius), angle(test_values({2, 3}, 2), of_angle);
    Tape tape(policy("keep"));
    const Recording recording(tape);
    const auto [u, v] = apply(PolarToCartesian{}, radius, angle);
    std::vector<std::string> keys;
    for (const Tape::SavedTensorReport& report : tape.report()) keys.push_back(report.info.name());
    return keys;
  };
  CHECK(saved_keys(true, false) == std::vector<std::string>{"input #2"});
  CHECK(saved_keys(false, true) == std::vector<std::string>{"polar_to_cartesian", "polar_to_cartesian output 1"});
}

TEST_CASE("two outputs: a hook may update a leaf as soon as its gradient is complete") {
  for (const int used : {0, 1, 2, 3}) {
    CAPTURE(used);
    const std::vector<Variable> leaf{test_leaf({2, 3}, 1), test_leaf({2, 3}, 2)};
    std::vector<std::vector<double>> seen(2);
    const GradientHook hook = [&](const Leaf& done) {
      for (std::size_t i = 0; i < leaf.size(); ++i)
        if (leaf[i].leaf() == &done) {
          CHECK(seen[i].empty());
          seen[i] = done.gradient.to_vector();
          leaf[i].tensor().fill(0);
        }
    };
    for (const bool checkpointed : {false, true}) {
      const std::vector<Variable> plain{test_leaf({2, 3}, 1), test_leaf({2, 3}, 2)};
      {
        Tape tape(policy("exact"));
        const Recording recording(tape);
        tape.backward(loss_of(plain, used, checkpointed));
      }
      seen = {{}, {}};
      for (std::size_t i = 0; i < leaf.size(); ++i) {
        leaf[i].tensor().copy_from(plain[i].tensor());
        Variable(leaf[i]).set_grad({});
      }
      Tape tape(policy("exact"));
      const Recording recording(tape);
      tape.backward(loss_of(leaf, used, checkpointed), {.post_accumulate_grad_hooks = {hook}});
      for (std::size_t i = 0; i < leaf.size(); ++i) CHECK(seen[i] == plain[i].grad().to_vector());
    }
  }
}
