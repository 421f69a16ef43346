// The kernel that is chosen for a convolution, against direct sums in f64.
#include "ops/convolution/conv_choice.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

namespace lacuna {
namespace {

Tensor normal(const Shape& shape, std::uint32_t seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> distribution;
  std::vector<float> values(static_cast<std::size_t>(shape.count()));
  for (float& value : values) value = distribution(engine);
  return Tensor::from(values, shape);
}

double error_of(const Tensor& computed, const Tensor& exact) {
  const std::vector<double> a = computed.to_vector(), b = exact.to_vector();
  double worst = 0, largest = 0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    worst = std::max(worst, std::abs(a[i] - b[i]));
    largest = std::max(largest, std::abs(b[i]));
  }
  return worst / largest;
}

Tensor twice(const Tensor& x) {
  std::vector<double> values = x.to_vector();
  for (double& value : values) value *= 2;
  return Tensor::from(std::span<const double>(values), x.shape());
}

/// Shapes of every branch of the rule; with strided 1x1 windows channels and outputs that are multiples of 16 and not.
std::vector<ConvShape> shapes() {
  std::vector<ConvShape> all;
  for (const std::int64_t stride : {1, 2, 3})
    for (const std::int64_t padding : {0, 1})
      for (const auto& [channels, outputs] :
           {std::pair<std::int64_t, std::int64_t>{16, 32}, {24, 16}, {16, 24}, {3, 5}, {40, 10}, {64, 64}, {272, 8}})
        all.push_back({2, 9, 8, channels, outputs, 1, 1, stride, padding, 1});
  for (const std::int64_t stride : {1, 2})
    for (const std::int64_t groups : {1, 2, 4}) {
      all.push_back({2, 7, 9, 16, 32, 3, 3, stride, 1, groups});
      all.push_back({2, 7, 9, 8, 12, 3, 3, stride, 1, groups});
      all.push_back({2, 7, 9, 64, 64, 3, 1, stride, 1, groups});
      all.push_back({2, 7, 9, 12, 8, 1, 1, stride, 0, groups});
    }
  for (const std::int64_t groups : {1, 2}) {  // other zeros on each side
    all.push_back({2, 8, 6, 16, 32, 3, 3, 2, same_padding(8, 6, 3, 2), groups});
    all.push_back({2, 7, 9, 12, 8, 3, 3, 1, {0, 2, 1, 1}, groups});
  }
  all.push_back({1, 20, 20, 3, 16, 7, 7, 2, 3, 1});
  all.push_back({5, 16, 16, 24, 40, 1, 1, 1, 0, 1});     // 1,280 pixels
  all.push_back({17, 16, 16, 128, 128, 3, 3, 1, 1, 1});  // tiles of 4x4, two for each channel
  return all;
}

/// The machine properties that the selection rule depends on.
struct Machine {
  DType type;
  int vector;
  onednn::Bf16Products bf16_by;
};
constexpr Machine machines[] = {{DType::f32, 32, onednn::Bf16Products::none},
                                {DType::f32, 64, onednn::Bf16Products::none},
                                {DType::bf16, 32, onednn::Bf16Products::none},
                                {DType::bf16, 64, onednn::Bf16Products::vectors},
                                {DType::bf16, 64, onednn::Bf16Products::tiles}};

}  // namespace

/// In f32, which every kernel takes.
TEST_CASE("convolution: the kernel chosen for any machine and type agrees with direct sums in f64") {
  for (const ConvShape& s : shapes()) {
    const Shape in{s.images, s.height, s.width, s.channels}, out{s.images, s.out_height(), s.out_width(), s.outputs},
        taps{s.outputs, s.channels / s.groups, s.kernel_height, s.kernel_width};
    const Tensor x = normal(in, 1), weight = normal(taps, 2), dy = normal(out, 3);
    const Tensor x64 = x.to(DType::f64), weight64 = weight.to(DType::f64), dy64 = dy.to(DType::f64);
    const Tensor y64 = Tensor::zeros(out, DType::f64, Device::cpu), dx64 = Tensor::zeros(in, DType::f64, Device::cpu),
                 dweight64 = Tensor::zeros(taps, DType::f64, Device::cpu);
    direct::forward(s, x64, weight64, {}, y64);
    direct::gradient_of_input(s, dy64, weight64, dx64, false);
    direct::gradient_of_weight(s, x64, dy64, dweight64, false);
    for (const Machine& machine : machines) {
      CAPTURE(name_of(machine.type));
      CAPTURE(machine.vector);
      CAPTURE(to_string(in));
      CAPTURE(to_string(taps));
      CAPTURE(s.stride);
      CAPTURE(s.padding);
      const auto choose = [&](ConvProduct product) {
        const ConvKernel kernel = choose_conv_kernel(s, product, machine.type, machine.vector, machine.bf16_by);
        CHECK(kernel != ConvKernel::direct);  // too slow for anything but f64
        return kernel;
      };
      const Tensor y = Tensor::empty(out, DType::f32, Device::cpu), dx = Tensor::empty(in, DType::f32, Device::cpu),
                   dweight = Tensor::empty(taps, DType::f32, Device::cpu);
      conv_forward(choose(ConvProduct::forward), s, x, weight, {}, y);
      CHECK(error_of(y, y64) < 1e-5);
      const ConvKernel input_kernel = choose(ConvProduct::input_gradient);
      conv_input_gradient(input_kernel, s, dy, weight, dx, false);
      CHECK(error_of(dx, dx64) < 1e-5);
      conv_input_gradient(input_kernel, s, dy, weight, dx, true);
      CHECK(error_of(dx, twice(dx64)) < 1e-5);
      const ConvKernel weight_kernel = choose(ConvProduct::weight_gradient);
      conv_weight_gradient(weight_kernel, s, x, dy, dweight, false);
      CHECK(error_of(dweight, dweight64) < 1e-5);
      conv_weight_gradient(weight_kernel, s, x, dy, dweight, true);
      CHECK(error_of(dweight, twice(dweight64)) < 1e-5);
    }
  }
}

TEST_CASE("convolution: f64 is computed directly") {
  for (const ConvShape& s : shapes())
    for (const ConvProduct product : {ConvProduct::forward, ConvProduct::input_gradient, ConvProduct::weight_gradient})
      CHECK(choose_conv_kernel(s, product, DType::f64) == ConvKernel::direct);
}

}  // namespace lacuna
