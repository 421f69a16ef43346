// What is derived from codes comes some rows at a time.
#include "ops/activation.h"
#include "ops/arithmetic.h"
#include "ops/linear.h"
#include "tests/autograd/graphs.h"

namespace lacuna {
namespace {

/// As `exact`, but what `add` makes is coded, to nearest.
class CodedSums final : public MemoryPolicy {
 public:
  std::string_view name() const override { return "coded sums"; }
  Decision settle(const SlotFacts& facts) override {
    if (facts.op.text() != "add") return policy("exact").settle(facts);
    return {.hold = Hold::code, .coding = {.bits = 8, .grouping = {}, .rounding = codec::Rounding::nearest}};
  }
};

/// Values of which any 255 that follow each other are 255 steps of one size: 8 bits hold whole groups of 256 without an
/// error.
Variable codable_leaf(const Shape& shape) {
  std::vector<float> values(static_cast<std::size_t>(shape.count()));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i * 37 % 255) / 16 - 4;
  return Variable(Tensor::from(std::span<const float>(values), shape), true, "values");
}

}  // namespace

TEST_CASE("a chain derived from codes run by run has the bits of one that is kept, however the rows divide") {
  const auto gradient = [](const Shape& shape, MemoryPolicy& memory) {
    const Variable weight = test_leaf({3, shape.back()}, 2, DType::f32);
    Tape tape(memory);
    const Recording recording(tape);
    Variable h =
        apply(Gelu{}, apply(Add{}, codable_leaf(shape), Variable(Tensor::zeros(shape, DType::f32, Device::cpu))));
    h = apply(Linear{}, apply(Gelu{}, std::move(h)), weight, Variable());
    tape.backward(total(std::move(h)));
    return weight.grad().to_vector();
  };
  CodedSums coded;
  // Runs of 1 MiB: several even ones, one, one and a bit more, and rows that are longer than a run.
  for (const Shape& shape :
       {Shape{1040, 1024}, Shape{256, 1024}, Shape{257, 1024}, Shape{700, 2, 1152}, Shape{3, 307'200}}) {
    CAPTURE(shape.count());
    CHECK(gradient(shape, coded) == gradient(shape, policy("keep")));
  }
}

}  // namespace lacuna
