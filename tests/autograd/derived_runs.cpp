// What is derived from codes comes some rows at a time.
#include "core/parallel.h"
#include "ops/activation.h"
#include "ops/arithmetic.h"
#include "ops/batch_norm.h"
#include "ops/layer_norm.h"
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

TEST_CASE("what each thread decodes and works on apart has the bits of what is kept") {
  const int before = threads();
  const auto gradients = [](const Shape& shape, MemoryPolicy& memory) {
    const std::int64_t width = shape.back();
    const Variable x = codable_leaf(shape), weight = test_leaf({3, width}, 2, DType::f32),
                   scale = test_leaf({width}, 3, DType::f32), shift = test_leaf({width}, 4, DType::f32);
    Tape tape(memory);
    const Recording recording(tape);
    const Variable sum = apply(Add{}, x, Variable(Tensor::zeros(shape, DType::f32, Device::cpu)));
    Variable all = apply(Linear{}, apply(LayerNorm{}, sum, scale, shift), weight, Variable());
    const auto add = [&](Variable h) {
      all = apply(Add{}, std::move(all), apply(Linear{}, std::move(h), weight, Variable()));
    };
    add(apply(Gelu{}, sum));
    add(apply(BatchNormRelu{}, sum, scale, shift));
    add(apply(Mul{}, sum, sum));
    tape.backward(total(std::move(all)));
    std::vector<double> found;
    for (const Variable& leaf : {x, weight, scale, shift})
      for (const double value : leaf.grad().to_vector()) found.push_back(value);
    return found;
  };
  CodedSums coded;
  // Runs of 1 MiB: several, a bit more than one, fewer rows than are dealt together, one row that is longer.
  for (const Shape& shape : {Shape{1040, 1024}, Shape{257, 1024}, Shape{5, 60'000}, Shape{3, 307'200}})
    for (const int count : {1, 2, 3}) {
      CAPTURE(shape.count());
      CAPTURE(count);
      set_threads(count);
      CHECK(gradients(shape, coded) == gradients(shape, policy("keep")));
    }
  set_threads(before);
}

}  // namespace lacuna
