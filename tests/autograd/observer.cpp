#include "ops/activation.h"
#include "ops/arithmetic.h"
#include "ops/linear.h"
#include "tests/autograd/graphs.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

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
    lines.back() += fmt::format(" {} {}", work.bytes, work.multiply_adds);
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
  const auto line = [](std::string_view what, int bytes, int multiply_adds, std::string_view results) {
    return fmt::format("{} {} {} {}", what, bytes, multiply_adds, results);
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

TEST_CASE("an observer sees a region's ops in forward, and again where they run once more") {
  const Variable x = test_leaf({2, 4}, 1), weight = test_leaf({3, 4}, 2);
  Witness witness;
  Tape tape(policy("exact"));
  tape.set_observer(&witness);
  {
    const Recording recording(tape);
    tape.backward(total(recompute(Label("region"), x, true, [&weight](Variable in) {
      return apply(Linear{}, std::move(in), weight, Variable());
    })));
  }
  std::vector<std::string> ops;
  for (const std::string& line : witness.lines) ops.push_back(line.substr(0, line.find(' ', 2)));
  CHECK(ops == std::vector<std::string>{"> linear", "> sum", "< sum", "> linear", "< linear"});
}
