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

/// As `exact`, but what `add` makes is coded.
class CodedSums final : public MemoryPolicy {
 public:
  explicit CodedSums(const codec::Coding& coding = {.bits = 8, .grouping = {}, .rounding = codec::Rounding::nearest})
      : coding_(coding) {}
  std::string_view name() const override { return "coded sums"; }
  Decision settle(const SlotFacts& facts) override {
    if (facts.op.text() != "add") return policy("exact").settle(facts);
    return {.hold = Hold::code, .coding = coding_};
  }

 private:
  codec::Coding coding_;
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
  // What draws and ranges of columns yield does not depend on who decodes it: rows that are all one thread's are
  // decoded in other runs than those of three.
  for (const codec::Coding& coding : {codec::Coding{.bits = 4, .grouping = {}, .rounding = codec::Rounding::dithered},
                                      codec::Coding{.bits = 8, .grouping = {codec::Grouping::Kind::column, 96}},
                                      codec::least_error(2, {}), codec::least_error(3, {.size = 768})}) {
    CodedSums drawn(coding);
    const auto of_x = [&](int count) {
      set_threads(count);
      const Variable x = test_leaf({4, 150, 1000}, 5, DType::f32);
      Tape tape(drawn);
      const Recording recording(tape);
      tape.backward(total(apply(Gelu{}, apply(Add{}, x, Variable(Tensor::zeros(x.shape(), DType::f32, Device::cpu))))));
      return x.grad().to_vector();
    };
    CHECK(of_x(1) == of_x(3));
  }
  set_threads(before);
}

TEST_CASE("a curve of many rows takes off what codes of few bits add in the mean, in columns too") {
  // GELU's derivative bends one way between 0 and 2.
  const Shape shape{1024, 1024};
  std::vector<float> values(static_cast<std::size_t>(shape.count()));
  const RandomStream stream{.seed = 7, .step = 0, .site = 1};
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = 0.2F + 1.6F * static_cast<float>(stream.uniform(i));
  const auto mean_gradient = [&](MemoryPolicy& memory) {
    const Variable x(Tensor::from(std::span<const float>(values), shape), true, "values");
    Tape tape(memory);
    const Recording recording(tape);
    tape.backward(total(apply(Gelu{}, apply(Add{}, x, Variable(Tensor::zeros(shape, DType::f32, Device::cpu))))));
    double sum = 0;
    for (const double value : x.grad().to_vector()) sum += value;
    return sum / static_cast<double>(shape.count());
  };
  const codec::Grouping columns{codec::Grouping::Kind::column, 64};
  CodedSums told(codec::least_error(3, columns)), untold({.bits = 3, .grouping = columns});
  const double exact = mean_gradient(policy("exact"));
  CHECK(std::abs(mean_gradient(told) - exact) < 2e-4);
  CHECK(std::abs(mean_gradient(untold) - exact) > 1e-3);  // stochastic rounding tells no variance
}

}  // namespace lacuna
