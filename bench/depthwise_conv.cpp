// Benchmark of depthwise convolution on the shapes of MobileNetV3, EfficientNetV2 and ConvNeXt, f32: milliseconds of
// forward, gradient of the input and gradient of the weight, beside a copy of the larger of x and y.
//   bench_depthwise_conv [part of a name]
#include "ops/convolution/depthwise_conv.h"

#include "bench/bench.h"

#include <fmt/core.h>

#include <string_view>
#include <vector>

namespace {

using namespace lacuna;

struct Case {
  const char* name;
  std::int64_t images, channels, extent, kernel, stride;
};

const std::vector<Case> cases{
    {"mobilenetv3 16 3x3 112", 16, 16, 112, 3, 1},   {"mobilenetv3 64 3x3 112 stride 2", 16, 64, 112, 3, 2},
    {"mobilenetv3 72 3x3 56", 16, 72, 56, 3, 1},     {"mobilenetv3 72 5x5 56 stride 2", 16, 72, 56, 5, 2},
    {"mobilenetv3 120 5x5 28", 16, 120, 28, 5, 1},   {"mobilenetv3 240 3x3 28 stride 2", 16, 240, 28, 3, 2},
    {"mobilenetv3 672 3x3 14", 16, 672, 14, 3, 1},   {"mobilenetv3 960 5x5 7", 16, 960, 7, 5, 1},
    {"efficientnetv2 960 3x3 14", 8, 960, 14, 3, 1}, {"efficientnetv2 1536 3x3 7", 8, 1536, 7, 3, 1},
    {"convnext 96 7x7 56", 8, 96, 56, 7, 1},         {"convnext 768 7x7 7", 8, 768, 7, 7, 1},
};

void print_times(const Case& of) {
  const DepthwiseConv2d op{.padding = Padding(of.kernel / 2),
                           .kernel = of.kernel,
                           .stride = of.stride,
                           .height = of.extent,
                           .width = of.extent};
  const Tensor x = Tensor::full({of.images, of.extent, of.extent, of.channels}, 0.5, DType::f32, Device::cpu);
  const Tensor weight = Tensor::full({of.channels, 1, of.kernel, of.kernel}, 0.25, DType::f32, Device::cpu);
  const std::vector<Tensor> inputs{x, weight, Tensor()};
  const Tensor y = op.forward(inputs);
  const bench::KeptTensors kept(DepthwiseConv2d::saves, std::vector<Tensor>{x, weight}, y, {});
  const auto gradient = [&](DepthwiseConv2d::Input input) {
    return bench::seconds([&] {
      Grads grads(3, {input});
      op.backward(y, Saved<DepthwiseConv2d>(kept), grads);
    });
  };
  const Tensor to = Tensor::full(x.shape(), 0, DType::f32, Device::cpu);
  const double copy = 2e-9 * static_cast<double>(x.bytes()) / bench::copy_rate(x, to);
  fmt::print("{:<34} {:8.2f} {:8.2f} {:8.2f} {:8.2f}\n", of.name, 1e3 * bench::seconds([&] { op.forward(inputs); }),
             1e3 * gradient(DepthwiseConv2d::x), 1e3 * gradient(DepthwiseConv2d::weight), 1e3 * copy);
}

}  // namespace

int main(int count, char** arguments) {
  const std::string_view part = count > 1 ? arguments[1] : "";
  fmt::print("{:<34} {:>8} {:>8} {:>8} {:>8}\n", "ms", "forward", "input", "weight", "copy");
  for (const Case& of : cases)
    if (std::string_view(of.name).find(part) != std::string_view::npos) print_times(of);
}
