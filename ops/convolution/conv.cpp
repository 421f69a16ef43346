#include "ops/convolution/conv.h"

#include "core/coded/codec.h"
#include "core/planned_device.h"
#include "ops/convolution/conv_kernels.h"
#include "ops/convolution/phases.h"
#include "ops/operand.h"
#include "ops/products/gemm.h"
#include "ops/row_blocks.h"

#include <algorithm>

namespace lacuna {
namespace {

const RegisterOp<Conv2d> conv2d;

/// Zeros around images for which an odd kernel of stride 1 gives images of the same size.
Padding same_size_padding(const Conv2d& op) {
  const std::int64_t down = (op.kernel_height - 1) / 2, across = (op.kernel_width - 1) / 2;
  return {down, across, down, across};
}

/// The ordinary convolution; a dilated one is such a convolution over the phases of its images (phases.h).
ConvShape shape_of(const Conv2d& op, std::int64_t images, std::int64_t channels, std::int64_t outputs) {
  return {images,          op.height, op.width,
          channels,        outputs,   op.kernel_height,
          op.kernel_width, op.stride, op.dilation == 1 ? op.padding : same_size_padding(op),
          op.groups};
}

ConvShape checked_shape(const Conv2d& op, const Tensor& x, const Tensor& weight, const Tensor& bias) {
  expect(op.stride > 0 && op.padding.least() >= 0 && op.groups > 0,
         "conv2d: expected stride > 0, padding >= 0 and groups > 0, got {}, {} and {}", op.stride, op.padding.least(),
         op.groups);
  const Padding same = same_size_padding(op);
  const bool keeps_size = op.kernel_height % 2 == 1 && op.kernel_width % 2 == 1 && op.padding.is_symmetric() &&
                          op.padding.top == op.dilation * same.top && op.padding.left == op.dilation * same.left;
  expect(op.dilation == 1 || (op.dilation > 1 && op.stride == 1 && keeps_size),
         "conv2d: dilation {} expects stride 1, an odd kernel and a padding of dilation · (kernel - 1) / 2, got stride "
         "{}, a kernel of {}x{} and padding {}",
         op.dilation, op.stride, op.kernel_height, op.kernel_width, op.padding.top);
  expect(x.shape().rank() == 4 && x.shape()[1] == op.height && x.shape()[2] == op.width,
         "conv2d: expected images [N, {}, {}, C], got {}", op.height, op.width, x.shape());
  expect(x.shape()[0] > 0, "conv2d: expected one image or more, got {}", x.shape());
  const std::int64_t channels = x.shape()[3], outputs = weight.shape().front();
  expect(outputs % op.groups == 0 && channels % op.groups == 0 &&
             weight.shape() == Shape{outputs, channels / op.groups, op.kernel_height, op.kernel_width},
         "conv2d: weight {} does not fit {} channels in {} groups: expected [O, C / groups, {}, {}], O and C multiples "
         "of groups",
         weight.shape(), channels, op.groups, op.kernel_height, op.kernel_width);
  const DType type = compute_type(x.dtype());
  expect(weight.dtype() == type || weight.is_coded(), "conv2d: an input of {} goes with weights of {}, got {}",
         name_of(x.dtype()), name_of(type), name_of(weight.dtype()));
  expect(!bias.defined() || (bias.shape() == Shape{outputs} && bias.dtype() == type), "conv2d: bias must be {} of [{}]",
         name_of(type), outputs);
  expect(op.dilation > 1 || (op.kernel_height <= op.height + op.padding.top + op.padding.bottom &&
                             op.kernel_width <= op.width + op.padding.left + op.padding.right),
         "conv2d: a kernel of {}x{} is larger than images of {}x{} with padding {}, {}, {} and {}", op.kernel_height,
         op.kernel_width, op.height, op.width, op.padding.top, op.padding.left, op.padding.bottom, op.padding.right);
  return shape_of(op, x.shape()[0], channels, outputs);
}

/// Whether the convolution is the product of pixels and a weight [O, C].
bool is_product(const ConvShape& s) {
  return s.kernel_height == 1 && s.kernel_width == 1 && s.stride == 1 && s.padding == 0 && s.groups == 1;
}
Matrix matrix_of(const Tensor& weight) { return Matrix(weight.reshape({weight.shape()[0], weight.shape()[1]})); }

/// Weights as the kernels read them. Those in few bits are decoded for this pass: the kernels arrange a copy of the
/// whole weight anyway.
Tensor readable(const Tensor& weight, DType dtype) {
  if (!weight.is_coded()) return weight;
  const Tensor decoded = Tensor::empty(weight.shape(), compute_type(dtype), weight.device(), Purpose::workspace);
  decode(weight, decoded);
  return decoded;
}

ConvShape shape_of_phases(const ConvShape& s, const Phases& phases) {
  ConvShape of_phases = s;
  of_phases.images = phases.count();
  of_phases.height = phases.rows();
  of_phases.width = phases.columns();
  return of_phases;
}

Tensor phases_like(const Tensor& images, const Phases& phases) {
  return Tensor::empty({phases.count(), phases.rows(), phases.columns(), images.shape().back()}, images.dtype(),
                       images.device(), Purpose::workspace);
}
Tensor split(const Tensor& images, const Phases& phases) {
  const Tensor parts = phases_like(images, phases);
  split_phases(images.device(), phases, images, parts);
  return parts;
}

/// Calls `f(phases, shape, first, last)` for runs of images, so that their phases take little memory.
/// `on_cuda`: bytes of a run on a GPU. Shape and device alone decide how many: bits do not depend on how x is held.
template <class F>
void for_runs(const Conv2d& op, const ConvShape& s, const Tensor& images, std::int64_t (*on_cuda)(Device), const F& f) {
  const std::int64_t bytes_at_once =
      computes_on_cuda(images.device()) ? on_cuda(images.device()) : std::int64_t{32} << 20;
  const std::int64_t run =
      std::max<std::int64_t>(1, bytes_at_once / (s.height * s.width * s.channels * size_of(images.dtype())));
  for (std::int64_t first = 0; first < s.images; first += run) {
    const std::int64_t last = std::min(s.images, first + run);
    const Phases phases{op.dilation, last - first, op.height, op.width};
    f(phases, shape_of_phases(s, phases), first, last);
  }
}

void dilated_forward(const Conv2d& op, const ConvShape& s, const Tensor& x, const Tensor& weight, const Tensor& bias,
                     const Tensor& y) {
  for_runs(op, s, y, cached_at_once,
           [&](const Phases& phases, const ConvShape& shape, std::int64_t first, std::int64_t last) {
             const Tensor out = y.leading(first, last), parts = split(x.leading(first, last), phases),
                          results = phases_like(out, phases);
             conv2d_forward(y.device(), shape, parts, weight, bias, results);
             join_phases(y.device(), phases, results, out, false);
           });
}

void dilated_input_gradient(const Conv2d& op, const ConvShape& s, const Tensor& dy, const Tensor& weight,
                            const Tensor& dx, bool add) {
  for_runs(op, s, dy, cached_at_once,
           [&](const Phases& phases, const ConvShape& shape, std::int64_t first, std::int64_t last) {
             const Tensor out = dx.leading(first, last), parts = split(dy.leading(first, last), phases),
                          results = phases_like(out, phases);
             conv2d_input_gradient(dx.device(), shape, parts, weight, results, false);
             join_phases(dx.device(), phases, results, out, add);
           });
}

void dilated_weight_gradient(const Conv2d& op, const ConvShape& s, const Operand& x, const Tensor& dy,
                             const Tensor& dweight, bool add) {
  const std::int64_t pixels = s.height * s.width;
  for_runs(op, s, dy, summed_at_once,
           [&](const Phases& phases, const ConvShape& shape, std::int64_t first, std::int64_t last) {
             const Tensor in = split(
                 x.rows(first * pixels, last * pixels).reshape({last - first, s.height, s.width, s.channels}), phases);
             conv2d_weight_gradient(dweight.device(), shape, Operand(in), split(dy.leading(first, last), phases),
                                    dweight, add || first > 0);
           });
}

}  // namespace

std::int64_t Conv2d::macs(std::span<const Shape> inputs, const Shape& y) const {
  return y.count() * (inputs[weight].count() / inputs[weight].front());
}

Tensor Conv2d::forward(std::span<const Tensor> inputs) const {
  const Tensor& in = inputs[x];
  const ConvShape s = checked_shape(*this, in, inputs[weight], inputs[bias]);
  Tensor y = Tensor::empty({s.images, s.out_height(), s.out_width(), s.outputs}, in.dtype(), in.device());
  if (inputs[weight].is_coded() && is_product(s))
    gemm(Matrix(in), matrix_of(inputs[weight]).t(), Matrix(y), {.bias = inputs[bias]});
  else if (dilation > 1)
    dilated_forward(*this, s, in, readable(inputs[weight], in.dtype()), inputs[bias], y);
  else
    conv2d_forward(y.device(), s, in, readable(inputs[weight], in.dtype()), inputs[bias], y);
  return y;
}

void Conv2d::backward(Tensor dy, const Saved<Conv2d>& saved, Grads& grads) const {
  const DType parameters = compute_type(dy.dtype());
  const Device device = dy.device();
  const std::int64_t images = dy.shape().front(), outputs = dy.shape().back();
  if (grads.wanted(bias)) {
    if (!grads[bias].defined()) grads[bias] = Tensor::zeros({outputs}, parameters, device);
    conv2d_bias_gradient(device, dy, grads[bias]);
  }
  if (grads.wanted(weight)) {
    const ConvShape s = shape_of(*this, images, saved.shape<input(x)>().back(), outputs);
    const bool add = grads[weight].defined();
    if (!add)
      grads[weight] = Tensor::empty({outputs, s.channels / groups, kernel_height, kernel_width}, parameters, device);
    if (dilation > 1)
      dilated_weight_gradient(*this, s, saved.get<input(x)>(), dy, grads[weight], add);
    else
      conv2d_weight_gradient(device, s, saved.get<input(x)>(), dy, grads[weight], add);
  }
  if (grads.wanted(x)) {
    const Tensor w = saved.get<input(weight)>().whole();
    const ConvShape s = shape_of(*this, images, w.shape()[1] * groups, outputs);
    const bool add = grads[x].defined();
    if (!add) grads[x] = Tensor::empty({images, height, width, s.channels}, dy.dtype(), device);
    if (w.is_coded() && is_product(s))
      gemm(Matrix(dy), matrix_of(w), Matrix(grads[x]), {.add = add});
    else if (dilation > 1)
      dilated_input_gradient(*this, s, dy, readable(w, dy.dtype()), grads[x], add);
    else
      conv2d_input_gradient(device, s, dy, readable(w, dy.dtype()), grads[x], add);
  }
}

}  // namespace lacuna
