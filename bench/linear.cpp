// Benchmark of the three matrix products of a linear layer's op (bias and its gradient included) relative to the peak
// multiply-add rate in registers: layers of DeiT-Ti, a CIFAR ViT and DeiT-S, and 1×1 convolutions of ResNet-50.
#include "ops/products/linear.h"
#include "bench/bench.h"

#include <fmt/format.h>

#include <cstdlib>

namespace {

using namespace lacuna;

Tensor values(const Shape& shape) {
  std::vector<float> v(static_cast<std::size_t>(shape.count()));
  for (std::size_t i = 0; i < v.size(); ++i) v[i] = static_cast<float>(i * 2654435761U % 1000) / 500 - 1;
  return Tensor::from(std::span<const float>(v), shape);
}

void measure(std::int64_t rows, std::int64_t features, std::int64_t width, double peak) {
  const Bound<Linear> op({});
  const std::vector<Tensor> inputs{values({rows, width}), values({features, width}), values({features})};
  std::vector<Tensor> extra_outputs;
  const Tensor y = op.forward(inputs, extra_outputs).front();
  const bench::KeptTensors saved(op.saves(), inputs, y, extra_outputs);
  const double flops = 2.0 * static_cast<double>(rows * features * width);
  const auto rate = [&](auto&& f) {
    const double seconds = bench::seconds(f);
    return fmt::format("{:>6.1f} ({:.2f})", flops * 1e-9 / seconds, flops / seconds / peak);
  };
  const auto backward = [&](InputSet wanted) {
    return rate([&, wanted] {
      Grads grads(3, wanted);
      op.backward({y}, saved, grads);
    });
  };
  fmt::print("{:>6} {:>5} {:>5}   y {}   dx {}   dw, db {}\n", rows, features, width,
             rate([&] { op.forward(inputs, extra_outputs); }), backward({Linear::x}),
             backward({Linear::weight, Linear::bias}));
}

}  // namespace

int main(int count, char** arguments) {
  if (count > 1) set_threads(std::atoi(arguments[1]));
  const double peak = bench::peak_flops();
  fmt::print("{} threads, peak {:.1f} GFLOP/s; GFLOP/s (part of the peak)\n", threads(), peak * 1e-9);
  fmt::print("{:>6} {:>5} {:>5}\n", "rows", "out", "in");
  for (const auto& [rows, width] : {std::pair{3152, 192}, {8320, 192}, {1576, 384}}) {
    measure(rows, 3 * width, width, peak);
    measure(rows, width, width, peak);
    measure(rows, 4 * width, width, peak);
    measure(rows, width, 4 * width, peak);
  }
  measure(50176, 256, 64, peak);
  measure(12544, 128, 512, peak);
  measure(3136, 256, 1024, peak);
  measure(784, 2048, 512, peak);
  fmt::print("peak again {:.1f} GFLOP/s\n", bench::peak_flops() * 1e-9);
}
