// Outputs that kernels on cuda compute again from codes of an input, against those from the decoded input.
#include "core/stand_in/fibers.h"
#include "ops/curves/activation.h"
#include "ops/curves/gated_activation.h"
#include "ops/norms/batch_norm.h"
#include "ops/norms/layer_norm.h"
#include "ops/norms/rms_norm.h"
#include "ops/quantize/sign_mask.h"
#include "tests/ops/op_run.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

namespace lacuna {
namespace {

using quant::QuantConfig;

struct Sample {
  std::string name;
  std::shared_ptr<const Operation> op;
  Shape shape;                // of x
  std::int64_t channels = 0;  // elements of each parameter
  int parameters = 0;
  bool has_residual = false, has_signs = false;
  bool has_up = false;  // input 1 is like x
  int in_codes = 1;     // the first inputs
  bool has_coded_residual = false;
};

template <class Op>
std::shared_ptr<const Operation> bound_op(Op op) {
  return std::make_shared<Bound<Op>>(std::move(op));
}

std::vector<Sample> samples() {
  std::vector<Sample> all;
  for (const Shape& shape : {Shape{7, 3, 256}, Shape{9, 3, 64}, Shape{5, 3, 40}}) {
    const std::int64_t width = shape.back();
    all.push_back({"gelu", bound_op(Gelu{}), shape});
    all.push_back({"gelu, tanh", bound_op(Gelu{Gelu::Form::tanh}), shape});
    all.push_back({"hard_swish", bound_op(HardSwish{}), shape});
    all.push_back({"sigmoid", bound_op(Sigmoid{}), shape});
    all.push_back({"tanh", bound_op(Tanh{}), shape});
    all.push_back({"relu", bound_op(Relu{}), shape});
    all.push_back({"relu by signs", bound_op(Relu{}), shape, 0, 0, false, true});
    for (const auto curve : {GatedActivation::Curve::silu, GatedActivation::Curve::gelu}) {
      all.push_back({"gated", bound_op(GatedActivation{.curve = curve}), shape, 0, 0, false, false, true, 2});
      all.push_back({"gated, joined", bound_op(GatedActivation{.curve = curve}), shape});
    }
    all.push_back({"layer_norm", bound_op(LayerNorm{}), shape, width, 2});
    all.push_back({"layer_norm without bias", bound_op(LayerNorm{}), shape, width, 1});
    all.push_back({"rms_norm", bound_op(RmsNorm{.offset = 1}), shape, width, 1});
    all.push_back({"rms_norm of parts", bound_op(RmsNorm{.heads = 2}), shape, width / 2, 1});
    all.push_back({"batch_norm", bound_op(BatchNorm{}), shape, width, 2});
    all.push_back({"batch_norm_relu", bound_op(BatchNormRelu{}), shape, width, 2});
    all.push_back({"batch_norm_relu by signs", bound_op(BatchNormRelu{}), shape, width, 2, false, true});
    all.push_back({"batch_norm_add_relu", bound_op(BatchNormAddRelu{}), shape, width, 2, true, true});
    all.push_back({"batch_norm_add_relu, residual in codes", bound_op(BatchNormAddRelu{}), shape, width, 2, true, false,
                   false, 1, true});
    all.push_back({"frozen_batch_norm", bound_op(FrozenBatchNorm{}), shape, width, 4});
  }
  all.push_back({"gated, joined, rows of 20", bound_op(GatedActivation{}), {9, 40}});
  all.push_back({"gated, up kept", bound_op(GatedActivation{}), {9, 40}, 0, 0, false, false, true});
  all.push_back({"rms_norm of parts of 4", bound_op(RmsNorm{.heads = 6}), {9, 24}, 4, 1});
  return all;
}

std::vector<Tensor> inputs_of(const Sample& sample, DType dtype) {
  std::vector<Tensor> inputs{sample_values(sample.shape, dtype, 1)};
  if (sample.has_up) inputs.push_back(sample_values(sample.shape, dtype, 7));
  for (std::uint32_t i = 0; i < 2 || i < static_cast<std::uint32_t>(sample.parameters); ++i)
    inputs.push_back(static_cast<int>(i) < sample.parameters
                         ? sample_values({sample.channels}, compute_type(dtype), 2 + i, 0.5, 1.5)
                         : Tensor());
  if (sample.has_residual) inputs.push_back(sample_values(sample.shape, dtype, 9));
  return each(inputs, [](const Tensor& tensor) { return tensor.defined() ? tensor.to(Device::cuda) : tensor; });
}

/// The inputs that are held in codes.
std::vector<int> coded_inputs(const Sample& sample) {
  std::vector<int> inputs(static_cast<std::size_t>(sample.in_codes));
  std::iota(inputs.begin(), inputs.end(), 0);
  if (sample.has_coded_residual) inputs.push_back(BatchNormAddRelu::residual);
  return inputs;
}

/// The output of the op, to be computed again with `held` in place of the coded inputs.
Operand output_from(const Sample& sample, const Result& result, const std::vector<Operand>& held) {
  const std::vector<int> coded = coded_inputs(sample);
  RematerializedForm form{.op = sample.op, .sources = {}, .shape = result.y().shape()};
  for (const Remat& row : sample.op->rematerializes()) {
    const Tensor& tensor = result.at(row.from);
    form.sources.push_back(tensor.defined() ? Operand(tensor) : Operand());
    for (std::size_t i = 0; i < held.size(); ++i)
      if (row.from == input(coded[i])) form.sources.back() = held[i];
  }
  if (sample.has_signs) form.signs = quant::pack_signs(result.y());
  return Operand(std::move(form), result.y().shape(), result.y().dtype(), Device::cuda, {}, {});
}

}  // namespace

TEST_CASE("cuda: rows computed again from codes have the bits of those from decoded rows, and take no more memory") {
  const auto peak_of = [](const std::function<void()>& f) {
    Ledger& memory = ledger(Device::cuda);
    const std::int64_t held = memory.total();
    memory.reset_peak();
    f();
    return memory.peak() - held;
  };
  for (const Sample& sample : samples()) {
    CAPTURE(sample.name);
    CAPTURE(sample.shape.back());
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
      const Result result = forward(*sample.op, inputs_of(sample, dtype));
      const std::int64_t rows = result.y().rows(), width = sample.shape.back();
      for (const QuantConfig& config : {QuantConfig{.bits = 4, .grouping = {.size = 256}, .quantizer = "dithered"},
                                        QuantConfig{.bits = 7, .grouping = {.size = width}, .quantizer = "dithered"},
                                        QuantConfig{.bits = 2, .grouping = {.size = 8}, .quantizer = "nearest"},
                                        QuantConfig{.bits = 8, .grouping = {.size = 1 << 20}}}) {
        CAPTURE(config.bits);
        std::vector<Operand> codes, values;
        for (const int i : coded_inputs(sample)) {
          const Tensor& x = result.inputs[static_cast<std::size_t>(i)];
          codes.emplace_back(QuantizedForm{quant::quantize(x, config, 42 + static_cast<std::uint64_t>(i))}, x.shape(),
                             dtype, Device::cuda, Label(), Label());
          values.emplace_back(codes.back().whole());
        }
        const Operand coded = output_from(sample, result, codes), decoded = output_from(sample, result, values);
        for (const auto& [begin, end] :
             {std::pair{std::int64_t{0}, rows}, {rows / 3, rows / 2 + 1}, {rows - 1, rows}}) {
          CAPTURE(begin);
          Tensor got, expected;
          const std::int64_t taken = peak_of([&, b = begin, e = end] { got = coded.rows(b, e); });
          const std::int64_t needed = peak_of([&, b = begin, e = end] { expected = decoded.rows(b, e); });
          if (result.y().shape().back() % 8 == 0 && !sample.has_coded_residual) CHECK(taken == needed);  // else decoded
          CHECK(same_bits(got, expected));
        }
        const cuda::stand_in::ScheduleScope schedule(3);
        CHECK(same_bits(coded.whole(), decoded.whole()));
      }
    }
  }
}

TEST_CASE("cuda: gradients of gated activations from codes have the bits of those from decoded gates and ups") {
  constexpr std::int64_t rows = 9;
  using Curve = GatedActivation::Curve;
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16})
    for (const std::int64_t width : {256, 384, 40})
      for (const QuantConfig& config : {QuantConfig{.bits = 4, .grouping = {.size = 128}, .quantizer = "dithered"},
                                        QuantConfig{.bits = 7, .grouping = {.size = 256}, .quantizer = "nearest"},
                                        QuantConfig{.bits = 8, .grouping = {.size = 8}}}) {
        CAPTURE(width);
        CAPTURE(config.bits);
        const auto held = [&](std::int64_t columns, std::uint32_t site) {
          const Tensor x = sample_values({rows, columns}, dtype, site).to(Device::cuda);
          return Operand(QuantizedForm{quant::quantize(x, config, site)}, x.shape(), dtype, Device::cuda, {}, {});
        };
        const Operand gate = held(width, 1), up = held(width, 2), both = held(2 * width, 3);
        const Tensor dy = sample_values({rows, width}, dtype, 4).to(Device::cuda);
        const auto gradients = [&](const Operand& gates, const Operand& ups, bool of_gate, bool of_up) {
          const auto place = [&](bool wanted) {
            return wanted ? Tensor::full(gates.shape(), 7, dtype, Device::cuda) : Tensor();
          };
          const Tensor dgate = place(of_gate), dup = place(of_up && ups.defined());
          gated_activation_backward(Device::cuda, Curve::silu, gates, ups, dy, dgate, dup);
          return std::vector{dgate, dup};
        };
        const Operand none, gate_values(gate.whole()), up_values(up.whole()), both_values(both.whole());
        const auto check = [](const std::vector<Tensor>& got, const std::vector<Tensor>& expected) {
          for (std::size_t i = 0; i < got.size(); ++i)
            if (expected[i].defined()) CHECK(same_bits(got[i], expected[i]));
        };
        check(gradients(both, none, true, true), gradients(both_values, none, true, true));
        for (const auto& [of_gate, of_up] : {std::pair{true, true}, {true, false}, {false, true}})
          check(gradients(gate, up, of_gate, of_up), gradients(gate_values, up_values, of_gate, of_up));
      }
}

TEST_CASE("cuda: codes with exact signs are decoded with the bits of decoding them first and rectifying them then") {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16})
    for (const QuantConfig& config : {QuantConfig{.bits = 4, .grouping = {.size = 256}, .quantizer = "dithered"},
                                      QuantConfig{.bits = 8, .grouping = {.size = 128}},
                                      QuantConfig{.bits = 4, .grouping = {.size = 24}, .quantizer = "nearest"},
                                      QuantConfig{.bits = 8, .grouping = {.kind = quant::Grouping::Kind::columns}}}) {
      CAPTURE(config.bits);
      CAPTURE(config.grouping.size);
      const Tensor x = sample_values({5, 3, 256}, dtype, 1).to(Device::cuda), signs = quant::pack_signs(x);
      x.leading(0, 1).fill(std::numeric_limits<double>::quiet_NaN());
      const quant::QuantizedTensor codes = quant::quantize(x, config, 42);
      const Operand operand(QuantizedForm{codes, signs}, x.shape(), dtype, Device::cuda, {}, {});
      for (const auto& [begin, end] : {std::pair{0, 15}, {3, 7}, {14, 15}}) {
        const Tensor expected = Tensor::empty({end - begin, 256}, dtype, Device::cuda);
        quant::dequantize(codes, begin * 256, end * 256, expected);
        quant::rectify(expected, signs, begin * 256, expected);
        CHECK(same_bits(operand.rows(begin, end), expected));
      }
    }
}

}  // namespace lacuna
