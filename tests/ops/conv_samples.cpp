#include "ops/convolution/conv.h"
#include "tests/ops/op_sample.h"

namespace lacuna {
namespace {

struct Extents {
  std::int64_t images, channels, outputs;
};

OpSample conv(std::string name, Conv2d op, Extents extents, bool bias) {
  return {.name = std::move(name),
          .op = bound(op),
          .inputs =
              [=](DType dtype) {
                const Shape weight{extents.outputs, extents.channels / op.groups, op.kernel_height, op.kernel_width};
                return std::vector{
                    sample_values({extents.images, op.height, op.width, extents.channels}, dtype, 1),
                    sample_values(weight, dtype == DType::f64 ? dtype : DType::f32, 2, -0.5, 0.5),
                    bias ? sample_values({extents.outputs}, dtype == DType::f64 ? dtype : DType::f32, 3) : Tensor()};
              },
          .differentiable = bias ? InputSet{0, 1, 2} : InputSet{0, 1},
          .weight = 1};
}

const RegisterSample square(conv("conv2d 3x3",
                                 {.padding = 1, .kernel_height = 3, .kernel_width = 3, .height = 7, .width = 5},
                                 {2, 16, 32}, true));
const RegisterSample many_tiles(conv("conv2d 3x3, several tiles",
                                     {.padding = 1, .kernel_height = 3, .kernel_width = 3, .height = 9, .width = 10},
                                     {3, 32, 16}, false));
const RegisterSample odd_channels(conv("conv2d 3x3 of 3 channels",
                                       {.padding = 1, .kernel_height = 3, .kernel_width = 3, .height = 6, .width = 6},
                                       {2, 3, 5}, true));
const RegisterSample strided(conv(
    "conv2d 3x3 stride 2", {.stride = 2, .padding = 1, .kernel_height = 3, .kernel_width = 3, .height = 7, .width = 8},
    {2, 8, 8}, false));
const RegisterSample stem(conv(
    "conv2d 7x7 stride 2", {.stride = 2, .padding = 3, .kernel_height = 7, .kernel_width = 7, .height = 11, .width = 9},
    {2, 3, 8}, false));
const RegisterSample pointwise(conv("conv2d 1x1", {.height = 5, .width = 3}, {2, 8, 24}, true));
const RegisterSample pointwise_strided(conv("conv2d 1x1 stride 2", {.stride = 2, .height = 5, .width = 6}, {2, 8, 16},
                                            false));
const RegisterSample grouped(conv(
    "conv2d 3x3 in groups", {.padding = 1, .groups = 2, .kernel_height = 3, .kernel_width = 3, .height = 5, .width = 4},
    {2, 8, 16}, true));
const RegisterSample oblong(conv("conv2d 1x3 without padding",
                                 {.kernel_height = 1, .kernel_width = 3, .height = 4, .width = 7}, {2, 4, 6}, true));
const RegisterSample same(conv(
    "conv2d 3x3 stride 2, SAME",
    {.stride = 2, .padding = same_padding(8, 6, 3, 2), .kernel_height = 3, .kernel_width = 3, .height = 8, .width = 6},
    {2, 16, 8}, true));
const RegisterSample same_stem(conv(
    "conv2d 5x5 stride 2 of 3 channels, SAME",
    {.stride = 2, .padding = same_padding(9, 8, 5, 2), .kernel_height = 5, .kernel_width = 5, .height = 9, .width = 8},
    {2, 3, 8}, false));
Conv2d dilated(std::int64_t dilation, std::int64_t height, std::int64_t width, std::int64_t groups = 1) {
  return {.padding = dilation,
          .groups = groups,
          .dilation = dilation,
          .kernel_height = 3,
          .kernel_width = 3,
          .height = height,
          .width = width};
}
const RegisterSample dilated_by_2(conv("conv2d 3x3, dilation 2", dilated(2, 9, 7), {2, 16, 32}, true));
const RegisterSample dilated_in_groups(conv("conv2d 3x3 in groups, dilation 3", dilated(3, 7, 8, 2), {2, 8, 16},
                                            false));
const RegisterSample dilated_past_the_image(conv("conv2d 3x3, dilation 5 of 4x6", dilated(5, 4, 6), {3, 5, 3}, true));
const RegisterSample one_sided(
    conv("conv2d 2x2 with other zeros on each side, in groups",
         {.padding = {1, 0, 0, 1}, .groups = 2, .kernel_height = 2, .kernel_width = 2, .height = 4, .width = 5},
         {3, 4, 6}, false));
const RegisterSample patches(conv("conv2d of patches",
                                  {.stride = 4, .kernel_height = 4, .kernel_width = 4, .height = 8, .width = 12},
                                  {2, 3, 10}, true));

}  // namespace
}  // namespace lacuna
