// Benchmark of the memory-bound ops: GB/s of the minimal reads and writes, next to a copy in the same run.
#include "bench/bench.h"
#include "ops/arithmetic/arithmetic.h"
#include "ops/curves/activation.h"
#include "ops/curves/dropout.h"
#include "ops/curves/softmax.h"
#include "ops/norms/layer_norm.h"
#include "ops/quantize/sign_mask.h"

#include <fmt/core.h>

namespace {

using namespace lacuna;

/// Random values in [-2, 2), since activations are not constant.
Tensor drawn(const Shape& shape, DType dtype) {
  const RandomStream stream{.seed = 1, .step = 0, .site = 0};
  std::vector<float> values(static_cast<std::size_t>(shape.count()));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = 4 * stream.uniform(i) - 2;
  return Tensor::from(std::span<const float>(values), shape, dtype);
}

void print(std::string_view name, double forward, double backward, double copy) {
  fmt::print("  {:<14} forward {:6.1f} ({:3.0f} %)", name, forward, 100 * forward / copy);
  if (backward > 0) fmt::print("  backward {:6.1f} ({:3.0f} %)", backward, 100 * backward / copy);
  fmt::print("\n");
}

/// `*_passes`: the minimal number of reads and writes of a tensor of x's size; 0 if the pass does nothing.
template <class Op>
void measure(std::string_view name, const Op& op, const std::vector<Tensor>& inputs, int forward_passes,
             int backward_passes, double copy) {
  std::vector<Tensor> extra_outputs;
  const auto operation = std::make_shared<const Bound<Op>>(op);
  Tensor y = operation->forward(inputs, extra_outputs).front();
  const bench::KeptTensors kept(Op::saves, inputs, y, extra_outputs);
  InputSet wanted;
  for (int i = 0; i < static_cast<int>(inputs.size()); ++i) wanted.insert(i);
  const double pass = 1e-9 * static_cast<double>(y.bytes());
  const double forward = forward_passes * pass / bench::seconds([&] {
                           std::vector<Tensor> statistics;
                           y = operation->forward(inputs, statistics).front();
                         });
  Tensor dy = y.clone();
  const double backward = backward_passes == 0 ? 0 : backward_passes * pass / bench::seconds([&] {
                                                       Grads grads(inputs.size(), wanted);
                                                       op.backward(std::move(dy), Saved<Op>(kept), grads);
                                                       dy = grads[0];
                                                     });
  print(name, forward, backward, copy);
}

void measure_all(const Shape& shape, DType dtype) {
  const Tensor x = drawn(shape, dtype);
  const Tensor vector = Tensor::full({shape.back()}, 1, compute_type(dtype), Device::cpu);
  const double copy = bench::copy_rate(x, x.clone());
  fmt::print("{} {}, copy {:.1f}\n", to_string(shape), name_of(dtype), copy);
  measure("layer_norm", LayerNorm{}, {x, vector, vector}, 2, 3, copy);
  measure("gelu", Gelu{}, {x}, 2, 3, copy);
  measure("gelu tanh", Gelu(Gelu::Form::tanh), {x}, 2, 3, copy);
  measure("relu", Relu{}, {x}, 2, 3, copy);
  measure("silu", Silu{}, {x}, 2, 3, copy);
  measure("add", Add{}, {x, x.clone()}, 3, 0, copy);
  measure("mul", Mul{}, {x, x.clone()}, 3, 6, copy);
  measure("softmax", Softmax{}, {x}, 2, 3, copy);
  measure("dropout", Dropout{.p = 0.1, .stream = {}}, {x}, 2, 2, copy);
  const double packing = 1e-9 * static_cast<double>(x.bytes()) / bench::seconds([&] { quant::pack_signs(x); });
  print("pack_signs", packing, 0, copy);
}

}  // namespace

int main() {
  fmt::print("{} threads; GB/s, and percent of a copy of the same size\n", threads());
  measure_all({16, 197, 192}, DType::f32);  // fits the last-level cache
  measure_all({64, 197, 768}, DType::f32);
  measure_all({64, 197, 768}, DType::bf16);
  measure_all({16, 3, 197, 197}, DType::f32);
}
