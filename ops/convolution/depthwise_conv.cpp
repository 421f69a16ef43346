#include "ops/convolution/depthwise_conv.h"

#include "core/parallel.h"
#include "ops/arithmetic/reduce.h"
#include "ops/convolution/depthwise_conv_kernels.h"
#include "ops/operand.h"

#include <algorithm>

namespace lacuna {
namespace {

const RegisterOp<DepthwiseConv2d> depthwise_conv;

Tensor taps_of(const Tensor& weight, bool flipped) {
  const Shape& shape = weight.shape();
  const Tensor taps =
      Tensor::empty({shape[2], shape[3], shape[0]}, weight.dtype(), weight.device(), Purpose::workspace);
  depthwise_taps(taps.device(), weight, flipped, taps);
  return taps;
}

DepthwiseShape windows_of(const DepthwiseConv2d& op, std::int64_t images, std::int64_t channels) {
  return {.images = images,
          .height = op.height,
          .width = op.width,
          .channels = channels,
          .kernel = op.kernel,
          .stride = op.stride,
          .spread = 1,
          .top = op.padding.top,
          .left = op.padding.left,
          .out_height = op.padding.rows_of(op.height, op.kernel, op.stride),
          .out_width = op.padding.columns_of(op.width, op.kernel, op.stride)};
}

/// Sums over images that are made beside each other.
std::int64_t most_parts(Device device) { return device.kind == DeviceKind::cuda ? 128 : threads(); }

}  // namespace

std::int64_t DepthwiseConv2d::macs(std::span<const Shape>, const Shape& y) const { return y.count() * kernel * kernel; }

Tensor DepthwiseConv2d::forward(std::span<const Tensor> inputs) const {
  const Tensor &in = inputs[x], &w = inputs[weight], &b = inputs[bias];
  const Shape& shape = in.shape();
  expect(shape.rank() == 4 && shape[1] == height && shape[2] == width,
         "depthwise_conv2d: expected images [N, {}, {}, C], got {}", height, width, shape);
  const DType parameters = compute_type(in.dtype());
  expect(w.shape() == Shape{shape[3], 1, kernel, kernel} && w.dtype() == parameters,
         "depthwise_conv2d: expected a weight {} in {} for images {}, got {} in {}", Shape{shape[3], 1, kernel, kernel},
         name_of(parameters), shape, w.shape(), name_of(w.dtype()));
  expect(!b.defined() || (b.shape() == Shape{shape[3]} && b.dtype() == parameters),
         "depthwise_conv2d: expected a bias [{}] in {}", shape[3], name_of(parameters));
  expect(computes(kernel, stride, padding) && kernel <= height + padding.top + padding.bottom &&
             kernel <= width + padding.left + padding.right,
         "depthwise_conv2d: a kernel of {0}x{0} (at most 16x16) with stride {1} (at most 2) and padding {2}, {3}, {4} "
         "and {5} does not fit images of {6}x{7}",
         kernel, stride, padding.top, padding.left, padding.bottom, padding.right, height, width);
  const DepthwiseShape s = windows_of(*this, shape[0], shape[3]);
  Tensor y = Tensor::empty({s.images, s.out_height, s.out_width, s.channels}, in.dtype(), in.device());
  depthwise_forward(y.device(), s, in, taps_of(w, false), b, y, false);
  return y;
}

void DepthwiseConv2d::backward(const Tensor& dy, const Saved<DepthwiseConv2d>& saved, Grads& grads) const {
  const std::int64_t images = dy.shape()[0], channels = dy.shape()[3], pixels = height * width;
  const DType parameters = compute_type(dy.dtype());
  if (grads.wanted(bias)) grads[bias] = sum_over_leading(dy, {channels});
  if (grads.wanted(weight)) {
    const Operand in = saved.get<input(x)>();
    const std::int64_t parts = std::clamp<std::int64_t>(images, 1, most_parts(dy.device()));
    const Tensor sums = Tensor::zeros({parts, kernel, kernel, channels}, parameters, dy.device(), Purpose::workspace);
    const std::int64_t run = std::max<std::int64_t>(in.block_rows() / pixels, 1);  // images decoded at a time
    for (std::int64_t first = 0; first < images; first += run) {
      const std::int64_t last = std::min(images, first + run);
      depthwise_weight_sums(dy.device(), windows_of(*this, last - first, channels),
                            in.rows(first * pixels, last * pixels), dy.leading(first, last), first, sums);
    }
    grads[weight] = Tensor::empty({channels, 1, kernel, kernel}, parameters, dy.device());
    depthwise_weight_gradient(dy.device(), sums, grads[weight]);
  }
  if (grads.wanted(x)) {  // dx = dy * the rotated weight
    const DepthwiseShape s{.images = images,
                           .height = dy.shape()[1],
                           .width = dy.shape()[2],
                           .channels = channels,
                           .kernel = kernel,
                           .stride = 1,
                           .spread = stride,
                           .top = kernel - 1 - padding.top,
                           .left = kernel - 1 - padding.left,
                           .out_height = height,
                           .out_width = width};
    const bool add = grads[x].defined();
    if (!add) grads[x] = Tensor::empty({images, height, width, channels}, dy.dtype(), dy.device());
    depthwise_forward(dy.device(), s, dy, taps_of(saved.get<input(weight)>().whole(), true), Tensor(), grads[x], add);
  }
}

}  // namespace lacuna
