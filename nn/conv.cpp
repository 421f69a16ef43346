#include "nn/conv.h"

#include "nn/adapter.h"
#include "nn/init.h"
#include "ops/convolution/conv.h"
#include "ops/convolution/depthwise_conv.h"

namespace lacuna::nn {

Conv2d::Conv2d(Module& parent, std::string_view name, std::int64_t in, std::int64_t out, const Conv2dOptions& options)
    : Adaptable(parent, name),
      stride_(options.stride),
      padding_(options.padding),
      groups_(options.groups),
      dilation_(options.dilation),
      same_(options.same),
      weight_(*this, "weight", {out, in / options.groups, options.kernel, options.kernel},
              options.init.weight ? options.init.weight
                                  : init::torch_default(in / options.groups * options.kernel * options.kernel)) {
  const bool is_depthwise = groups_ > 1 && groups_ == in;  // small, and computed by kernels of their own
  if (options.takes_few_bits && !is_depthwise) weight_.allow_few_bits();
  expect(in % groups_ == 0 && out % groups_ == 0, "{}: {} groups do not divide {} and {} channels", path(), groups_, in,
         out);
  if (options.bias)
    bias_.emplace(*this, "bias", Shape{out},
                  options.init.bias ? options.init.bias
                                    : init::torch_default(in / options.groups * options.kernel * options.kernel));
}

Variable Conv2d::forward(Variable x) const {
  const Scope scope(*this);
  return active_adapter() != nullptr ? active_adapter()->forward(std::move(x), {}, {}) : forward_alone(std::move(x));
}

Variable Conv2d::forward_alone(Variable x) const {
  const std::int64_t height = x.shape()[1], width = x.shape()[2];
  const Padding padding = same_ ? same_padding(height, width, kernel(), stride_) : Padding(padding_);
  const bool depthwise = groups_ == weight_.shape()[0] && groups_ == x.shape()[3] && groups_ > 1 && dilation_ == 1 &&
                         DepthwiseConv2d::computes(kernel(), stride_, padding);
  if (depthwise) {
    const DepthwiseConv2d op{
        .padding = padding, .kernel = kernel(), .stride = stride_, .height = height, .width = width};
    return apply(op, std::move(x), weight_.variable(), bias_ ? bias_->variable() : Variable());
  }
  const lacuna::Conv2d op{.stride = stride_,
                          .padding = padding,
                          .groups = groups_,
                          .dilation = dilation_,
                          .kernel_height = kernel(),
                          .kernel_width = kernel(),
                          .height = height,
                          .width = width};
  return apply(op, std::move(x), weight_.variable(), bias_ ? bias_->variable() : Variable());
}

}  // namespace lacuna::nn
