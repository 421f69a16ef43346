// Benchmark of batch norm's passes: GB/s of the minimal reads and writes, next to a copy in the same run.
#include "ops/norms/batch_norm.h"
#include "bench/bench.h"

#include <fmt/core.h>

namespace {

using namespace lacuna;

/// The minimal number of reads and writes of a tensor of x's size.
struct Passes {
  int forward, backward;
};

template <class Op>
void measure(const Shape& shape, const Op& op, const Passes& passes, double copy) {
  const std::int64_t channels = shape.back();
  const Tensor x = Tensor::full(shape, 0.5, DType::f32, Device::cpu);
  const Tensor vector = Tensor::full({channels}, 1, DType::f32, Device::cpu);
  std::vector<Tensor> inputs{x, vector, vector};
  if constexpr (requires { Op::residual; }) inputs.push_back(x.clone());
  std::vector<Tensor> extra_outputs;
  Tensor y = op.forward(inputs, extra_outputs);
  const bench::KeptTensors kept(Op::saves, inputs, y, extra_outputs);
  InputSet wanted;
  for (int i = 0; i < static_cast<int>(inputs.size()); ++i) wanted.insert(i);
  const double pass = 1e-9 * static_cast<double>(x.bytes());
  const double forward = passes.forward * pass / bench::seconds([&] {
                           std::vector<Tensor> statistics;
                           y = op.forward(inputs, statistics);
                         });
  Tensor dy = x.clone();
  const double backward = passes.backward * pass / bench::seconds([&] {
                            Grads grads(inputs.size(), wanted);
                            op.backward(std::move(dy), Saved<Op>(kept), grads);
                            dy = grads[Op::x];
                          });
  fmt::print("  {:<20} forward {:6.1f} ({:3.0f} %)  backward {:6.1f} ({:3.0f} %)\n", Op::name, forward,
             100 * forward / copy, backward, 100 * backward / copy);
}

}  // namespace

int main() {
  fmt::print("{} threads; GB/s, and percent of a copy of the same size\n", threads());
  for (const Shape& shape : {Shape{16, 112, 112, 64}, Shape{16, 56, 56, 256}, Shape{16, 14, 14, 1024},
                             Shape{128, 32, 32, 64}, Shape{128, 4, 4, 512}, Shape{128, 32, 32, 16}}) {
    const Tensor from = Tensor::full(shape, 1, DType::f32, Device::cpu);
    const double copy = bench::copy_rate(from, from.clone());
    fmt::print("{}, copy {:.1f}\n", to_string(shape), copy);
    measure(shape, BatchNorm{}, {3, 5}, copy);
    measure(shape, BatchNormRelu{}, {3, 5}, copy);
    measure(shape, BatchNormAddRelu{}, {4, 8}, copy);
  }
}
