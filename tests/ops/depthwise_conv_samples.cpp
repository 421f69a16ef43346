#include "ops/convolution/depthwise_conv.h"
#include "tests/ops/op_sample.h"

namespace lacuna {
namespace {

OpSample sample(std::string name, DepthwiseConv2d op, std::int64_t images, std::int64_t channels, bool biased) {
  InputSet differentiable{DepthwiseConv2d::x, DepthwiseConv2d::weight};
  if (biased) differentiable.insert(DepthwiseConv2d::bias);
  return {.name = std::move(name),
          .op = bound(op),
          .inputs =
              [=](DType dtype) {
                const DType parameters = compute_type(dtype);
                return std::vector{sample_values({images, op.height, op.width, channels}, dtype, 1),
                                   sample_values({channels, 1, op.kernel, op.kernel}, parameters, 2),
                                   biased ? sample_values({channels}, parameters, 3) : Tensor()};
              },
          .differentiable = differentiable};
}

const RegisterSample samples[] = {
    RegisterSample(sample("depthwise_conv2d", {.padding = 3, .kernel = 7, .height = 9, .width = 8}, 2, 5, true)),
    RegisterSample(sample("depthwise_conv2d, kernel larger than the image",
                          {.padding = 3, .kernel = 7, .height = 3, .width = 2}, 3, 17, false)),
    RegisterSample(sample("depthwise_conv2d, 3x3", {.padding = 1, .kernel = 3, .height = 4, .width = 11}, 2, 3, false)),
    RegisterSample(sample("depthwise_conv2d, no padding", {.kernel = 3, .height = 4, .width = 3}, 1, 9, true)),
    RegisterSample(
        sample("depthwise_conv2d, an even window", {.padding = 1, .kernel = 4, .height = 5, .width = 4}, 3, 4, true)),
    RegisterSample(sample("depthwise_conv2d, stride 2",
                          {.padding = 1, .kernel = 3, .stride = 2, .height = 6, .width = 19}, 3, 17, true)),
    RegisterSample(sample("depthwise_conv2d, 5x5, stride 2",
                          {.padding = 2, .kernel = 5, .stride = 2, .height = 9, .width = 12}, 2, 5, false)),
    RegisterSample(sample("depthwise_conv2d, stride 2 that leaves a row and a column",
                          {.kernel = 4, .stride = 2, .height = 7, .width = 9}, 1, 3, false)),
    RegisterSample(sample("depthwise_conv2d, SAME with stride 2",
                          {.padding = same_padding(8, 11, 5, 2), .kernel = 5, .stride = 2, .height = 8, .width = 11}, 2,
                          4, true)),
    RegisterSample(sample("depthwise_conv2d, other zeros on each side",
                          {.padding = {0, 2, 1, 0}, .kernel = 3, .height = 5, .width = 4}, 2, 6, false)),
    RegisterSample(sample("depthwise_conv2d, 5x5", {.padding = 2, .kernel = 5, .height = 3, .width = 13}, 2, 9, true)),
    RegisterSample(sample("depthwise_conv2d, 1x1", {.kernel = 1, .height = 2, .width = 3}, 2, 6, true))};

}  // namespace
}  // namespace lacuna
