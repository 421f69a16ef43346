// Tensors rematerialized from codes are computed a few rows at a time.
#include "autograd/tape.h"
#include "core/parallel.h"
#include "ops/arithmetic/arithmetic.h"
#include "ops/curves/activation.h"
#include "ops/norms/batch_norm.h"
#include "ops/norms/layer_norm.h"
#include "ops/products/linear.h"
#include "tests/autograd/graphs.h"

namespace lacuna {
namespace {

/// As `exact`, but what `add` makes is coded.
class CodedSums final : public MemoryPolicy {
 public:
  explicit CodedSums(const quant::QuantConfig& coding = {.bits = 8, .grouping = {}, .quantizer = "nearest"})
      : MemoryPolicy(true), coding_(coding) {}
  std::string_view name() const override { return "coded sums"; }
  Hold decide(const SavedTensorInfo& info) override {
    if (info.op.text() != "add") return policy("exact").decide(info);
    return {.kind = Hold::quantize, .config = coding_};
  }

 private:
  quant::QuantConfig coding_;
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

namespace {

/// Gradients without any summation: they show the quantized values that an activation's backward reads, and the output
/// rematerialized from them.
std::vector<double> read_and_derived(const Variable& x, MemoryPolicy& memory) {
  const Device device = x.tensor().device();
  const Variable factor(Tensor::full(x.shape(), 0.5, DType::f32, device, Purpose::parameters), true);
  Tape tape(memory);
  const Recording recording(tape);
  Variable sum = apply(Add{}, x, Variable(Tensor::zeros(x.shape(), DType::f32, device)));
  tape.backward(total(apply(Mul{}, apply(Gelu{}, std::move(sum)), factor)));
  std::vector<double> found;
  if (device == Device::meta) return found;
  for (const Variable& leaf : {x, factor})
    for (const double value : leaf.grad().to_vector()) found.push_back(value);
  return found;
}

/// Draws, ranges of columns, and what is turned, with means of samples and without.
const std::vector<quant::QuantConfig> various_codings{{.bits = 4, .grouping = {}, .quantizer = "dithered"},
                                                      {.bits = 8, .grouping = {quant::Grouping::Kind::columns, 96}},
                                                      quant::min_error_config(3, {quant::Grouping::Kind::columns, 96}),
                                                      quant::min_error_config(2, {}),
                                                      quant::min_error_config(3, {.size = 768})};

}  // namespace

TEST_CASE("quantized tensors decode to the same bits on any number of threads") {
  const int before = threads();
  // Rows of which a run has 13: dealt to one thread, to three, or, to more threads than a run has rows, together.
  for (const Shape& shape : {Shape{80, 20'000}, Shape{2, 40, 20'000}})
    for (const quant::QuantConfig& coding : various_codings) {
      CAPTURE(coding.bits);
      CodedSums coded(coding);
      const auto with_threads = [&](int count) {
        set_threads(count);
        return read_and_derived(test_leaf(shape, 5, DType::f32), coded);
      };
      const std::vector<double> together = with_threads(16);
      CHECK(with_threads(1) == together);
      CHECK(with_threads(3) == together);
    }
  set_threads(before);
}

TEST_CASE(
    "a chain of several links that each thread derives for itself has the bits of one that is kept, and takes the "
    "bytes that meta predicts") {
  const int before = threads();
  const auto gradients = [](const Variable& x, MemoryPolicy& memory) {
    const Device device = x.tensor().device();
    const Shape& shape = x.shape();
    const auto made = [&](const Shape& of, double value) {
      return Variable(Tensor::full(of, value, DType::f32, device, Purpose::parameters), true);
    };
    const Variable weight = made({3, shape.back()}, 0.25), scale = made({shape.back()}, 1.5),
                   shift = made({shape.back()}, 0.125);
    Tape tape(memory);
    const Recording recording(tape);
    Variable h = apply(Add{}, x, Variable(Tensor::zeros(shape, DType::f32, device)));
    h = apply(Gelu{}, apply(BatchNormRelu{}, std::move(h), scale, shift));
    h = apply(Mul{}, h, h);
    tape.backward(total(apply(Linear{}, std::move(h), weight, Variable())));
    std::vector<double> found;
    if (device == Device::meta) return found;
    for (const Variable& leaf : {x, weight, scale, shift})
      for (const double value : leaf.grad().to_vector()) found.push_back(value);
    return found;
  };
  CodedSums coded;
  for (const Shape& shape : {Shape{1040, 1024}, Shape{257, 1024}, Shape{3, 307'200}})
    for (const int count : {1, 2, 3}) {
      CAPTURE(shape.count());
      CAPTURE(count);
      set_threads(count);
      const Variable x = codable_leaf(shape);
      CHECK(gradients(x, coded) == gradients(codable_leaf(shape), policy("keep")));
      const auto peak_on = [&](Device device) {
        const Variable leaf(Tensor::full(shape, 0.5, DType::f32, device, Purpose::data), true);
        const std::int64_t held = ledger(device).total();
        ledger(device).reset_peak();
        gradients(leaf, coded);
        return ledger(device).peak() - held;
      };
      CHECK(peak_on(Device::meta) == peak_on(Device::cpu));
    }
  set_threads(before);
}

TEST_CASE("what is decoded by threads apart takes the bytes that meta predicts") {
  const int before = threads();
  for (const Shape& shape : {Shape{600, 1000}, Shape{4, 150, 1000}})
    for (const quant::QuantConfig& coding : various_codings)
      for (const int count : {1, 2, 3}) {
        CAPTURE(coding.bits);
        CAPTURE(count);
        set_threads(count);
        CodedSums coded(coding);
        const auto peak_on = [&](Device device) {
          const Variable x(Tensor::full(shape, 0.5, DType::f32, device, Purpose::data), true);
          const std::int64_t held = ledger(device).total();
          ledger(device).reset_peak();
          read_and_derived(x, coded);
          return ledger(device).peak() - held;
        };
        CHECK(peak_on(Device::meta) == peak_on(Device::cpu));
      }
  set_threads(before);
}

}  // namespace lacuna
