// Benchmark of the convolution kernels on the shapes of Lacuna's models, in GFLOP/s by definition (2 · products,
// padding included): each kernel family that supports a shape, and the one that the selection rule chooses.
//   bench_conv [--bf16] [part of a name]
#include "ops/convolution/conv.h"
#include "bench/bench.h"
#include "core/parallel.h"
#include "ops/convolution/conv_choice.h"

#include <fmt/core.h>

#include <string_view>
#include <vector>

namespace {

using namespace lacuna;

struct Case {
  const char* name;
  ConvShape shape;
};

ConvShape square(std::int64_t images, std::int64_t channels, std::int64_t outputs, std::int64_t extent,
                 std::int64_t kernel, std::int64_t stride) {
  return {images, extent, extent, channels, outputs, kernel, kernel, stride, kernel / 2, 1};
}

const std::vector<Case> cases{
    {"resnet50 64-256 1x1 56", square(16, 64, 256, 56, 1, 1)},
    {"resnet50 256-64 1x1 56", square(16, 256, 64, 56, 1, 1)},
    {"resnet50 512-128 1x1 28", square(16, 512, 128, 28, 1, 1)},
    {"resnet50 1024-256 1x1 14", square(16, 1024, 256, 14, 1, 1)},
    {"resnet50 256-1024 1x1 14", square(16, 256, 1024, 14, 1, 1)},
    {"resnet50 2048-512 1x1 7", square(16, 2048, 512, 7, 1, 1)},
    {"resnet50 256-512 1x1 56 stride 2", square(16, 256, 512, 56, 1, 2)},
    {"resnet50 1024-2048 1x1 14 stride 2", square(16, 1024, 2048, 14, 1, 2)},
    {"resnet50 64-64 3x3 56", square(16, 64, 64, 56, 3, 1)},
    {"resnet50 128-128 3x3 28", square(16, 128, 128, 28, 3, 1)},
    {"resnet50 256-256 3x3 14", square(16, 256, 256, 14, 3, 1)},
    {"resnet50 512-512 3x3 7", square(16, 512, 512, 7, 3, 1)},
    {"resnet50 128-128 3x3 56 stride 2", square(16, 128, 128, 56, 3, 2)},
    {"resnet50 512-512 3x3 14 stride 2", square(16, 512, 512, 14, 3, 2)},
    {"resnet50 stem 3-64 7x7 224 stride 2", square(16, 3, 64, 224, 7, 2)},
    {"resnet18 stem 3-64 3x3 32", square(128, 3, 64, 32, 3, 1)},
    {"resnet18 64-64 3x3 32", square(128, 64, 64, 32, 3, 1)},
    {"resnet18 128-128 3x3 16", square(128, 128, 128, 16, 3, 1)},
    {"resnet18 256-256 3x3 8", square(128, 256, 256, 8, 3, 1)},
    {"resnet18 512-512 3x3 4", square(128, 512, 512, 4, 3, 1)},
    {"resnet18 64-128 3x3 32 stride 2", square(128, 64, 128, 32, 3, 2)},
    {"resnet18 64-128 1x1 32 stride 2", square(128, 64, 128, 32, 1, 2)},
    {"resnet20 stem 3-16 3x3 32", square(128, 3, 16, 32, 3, 1)},
    {"resnet20 16-16 3x3 32", square(128, 16, 16, 32, 3, 1)},
    {"resnet20 32-32 3x3 16", square(128, 32, 32, 16, 3, 1)},
    {"resnet20 64-64 3x3 8", square(128, 64, 64, 8, 3, 1)},
    {"resnet20 16-32 3x3 32 stride 2", square(128, 16, 32, 32, 3, 2)},
    {"retinanet head 256-256 3x3 40", square(1, 256, 256, 40, 3, 1)},
    {"retinanet head 256-256 3x3 20", square(1, 256, 256, 20, 3, 1)},
    {"retinanet head 256-256 3x3 10", square(1, 256, 256, 10, 3, 1)},
    {"retinanet head 256-256 3x3 5", square(1, 256, 256, 5, 3, 1)},
    {"retinanet logits 256-819 3x3 40", square(1, 256, 819, 40, 3, 1)},
    {"vit patches 3-192 16x16 224", {16, 224, 224, 3, 192, 16, 16, 16, 0, 1}},
    {"resnext50 128-128 3x3 56 in 32 groups", {16, 56, 56, 128, 128, 3, 3, 1, 1, 32}},
};

/// Results have separate tensors, because operands that are overwritten grow from run to run to infinity, and products
/// of infinities took 1.7 times as long on the machine of docs/performance.md.
struct Operands {
  Tensor x, weight, dy;
  Tensor y, dx, dweight;
};

Operands operands(const ConvShape& s, DType type) {
  const auto filled = [=](const Shape& shape, double value) { return Tensor::full(shape, value, type, Device::cpu); };
  const auto parameters = [](const Shape& shape, double value) {
    return Tensor::full(shape, value, DType::f32, Device::cpu);
  };
  const Shape in{s.images, s.height, s.width, s.channels}, out{s.images, s.out_height(), s.out_width(), s.outputs};
  const Shape weight{s.outputs, s.channels / s.groups, s.kernel_height, s.kernel_width};
  return {filled(in, 0.5), parameters(weight, 0.25), filled(out, 0.5), filled(out, 0),
          filled(in, 0),   parameters(weight, 0)};
}

template <class Forward, class GradientOfInput, class GradientOfWeight>
void print_rates(std::string_view kernels, const ConvShape& s, const Operands& t, const Forward& forward,
                 const GradientOfInput& gradient_of_input, const GradientOfWeight& gradient_of_weight) {
  const double work = 2e-9 * static_cast<double>(t.y.count() * t.weight.count()) / static_cast<double>(s.outputs);
  fmt::print("  {:<10} {:6.1f} {:6.1f} {:6.1f}\n", kernels,
             work / bench::seconds([&] { forward(s, t.x, t.weight, Tensor(), t.y); }),
             work / bench::seconds([&] { gradient_of_input(s, t.dy, t.weight, t.dx, false); }),
             work / bench::seconds([&] { gradient_of_weight(s, t.x, t.dy, t.dweight, false); }));
}

/// Measures the op itself, with the kernels it selects.
void print_rates_of_op(const ConvShape& s, const Operands& t) {
  const Conv2d op{.stride = s.stride,
                  .padding = s.padding,
                  .groups = s.groups,
                  .kernel_height = s.kernel_height,
                  .kernel_width = s.kernel_width,
                  .height = s.height,
                  .width = s.width};
  const bench::KeptTensors kept(Conv2d::saves, std::vector<Tensor>{t.x, t.weight}, t.y, {});
  const auto gradient = [&](Conv2d::Input input) {
    Grads grads(3, {input});
    op.backward(t.dy, Saved<Conv2d>(kept), grads);
  };
  print_rates(
      "conv2d", s, t,
      [&](const auto&...) {
        op.forward(std::vector{t.x, t.weight, Tensor()});
      },
      [&](const auto&...) { gradient(Conv2d::x); }, [&](const auto&...) { gradient(Conv2d::weight); });
}

void print_rates_of(ConvKernel kernel, std::string_view kernels, const ConvShape& shape, const Operands& t) {
  print_rates(
      kernels, shape, t, [=](const auto&... of) { conv_forward(kernel, of...); },
      [=](const auto&... of) { conv_input_gradient(kernel, of...); },
      [=](const auto&... of) { conv_weight_gradient(kernel, of...); });
}

}  // namespace

int main(int count, char** arguments) {
  const bool half = count > 1 && std::string_view(arguments[1]) == "--bf16";
  const std::string_view part = count > 1 + half ? arguments[1 + half] : "";
  const DType type = half ? DType::bf16 : DType::f32;
  fmt::print("{}, {} threads; GFLOP/s of forward, gradient of the input, gradient of the weight\n", name_of(type),
             threads());
  for (const auto& [name, shape] : cases) {
    if (std::string_view(name).find(part) == std::string_view::npos) continue;
    fmt::print("{}\n", name);
    const Operands t = operands(shape, type);
    if (takes_type(ConvKernel::onednn, type)) print_rates_of(ConvKernel::onednn, "oneDNN", shape, t);
    if (takes_type(ConvKernel::gather, type)) print_rates_of(ConvKernel::gather, "gathered", shape, t);
    if (pointwise::takes(shape)) print_rates_of(ConvKernel::pointwise, "product", shape, t);
    if (takes_type(ConvKernel::winograd, type) && winograd::takes(shape))
      print_rates_of(ConvKernel::winograd, "Winograd", shape, t);
    print_rates_of_op(shape, t);
  }
}
