#include "ops/conv.h"

#include "core/parallel.h"
#include "ops/kernels/conv_choice.h"
#include "ops/operand.h"

#include <limits>

namespace lacuna {
namespace {

const RegisterOp<Conv2d> conv2d;

ConvShape shape_of(const Conv2d& op, std::int64_t images, std::int64_t channels, std::int64_t outputs) {
  return {images,           op.height,       op.width,  channels,   outputs,
          op.kernel_height, op.kernel_width, op.stride, op.padding, op.groups};
}

ConvShape checked_shape(const Conv2d& op, const Tensor& x, const Tensor& weight, const Tensor& bias) {
  expect(op.stride > 0 && op.padding >= 0 && op.groups > 0,
         "conv2d: expected stride > 0, padding >= 0 and groups > 0, got {}, {} and {}", op.stride, op.padding,
         op.groups);
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
  expect(weight.dtype() == type, "conv2d: an input of {} goes with weights of {}, got {}", name_of(x.dtype()),
         name_of(type), name_of(weight.dtype()));
  expect(!bias.defined() || (bias.shape() == Shape{outputs} && bias.dtype() == type), "conv2d: bias must be {} of [{}]",
         name_of(type), outputs);
  expect(op.kernel_height <= op.height + 2 * op.padding && op.kernel_width <= op.width + 2 * op.padding,
         "conv2d: a kernel of {}x{} is larger than images of {}x{} with padding {}", op.kernel_height, op.kernel_width,
         op.height, op.width, op.padding);
  return shape_of(op, x.shape()[0], channels, outputs);
}

/// Calls `f(shape, first image, last)` for blocks of images, each of at most `bound` elements where that is possible.
template <class F>
void for_blocks(const ConvShape& s, std::int64_t bound, F&& f) {
  const std::int64_t image = std::max(s.height * s.width * s.channels, s.out_height() * s.out_width() * s.outputs);
  const std::int64_t block = std::clamp<std::int64_t>(bound / image, 1, s.images);
  for (std::int64_t begin = 0; begin < s.images; begin += block) {
    ConvShape part = s;
    part.images = std::min(block, s.images - begin);
    f(part, begin, begin + part.images);
  }
}

/// Elements of a block where the kernels have no arithmetic for the type and its conversion to f32 has to stay small;
/// no bound where it needs none.
std::int64_t converted_at_once(ConvKernel kernel, DType type) {
  return is_half_type(type) && kernel != ConvKernel::gemm ? 4 << 20 : std::numeric_limits<std::int64_t>::max();
}

/// Elements of x that a weight gradient reads at once: what is decoded or derived for it stays small, and the sum over
/// the blocks has the same bits however x is held.
constexpr std::int64_t summed_at_once = 1 << 21;

void convert(const Tensor& from, const Tensor& to) {
  launch(to.device(), [&] {
    with_float_type(from.dtype(), [&]<class From>(Type<From>) {
      with_float_type(to.dtype(), [&]<class To>(Type<To>) {
        map(
            to.count(), [](auto value) { return static_cast<Compute<To>>(value); }, to.data<To>(), from.data<From>());
      });
    });
  });
}

/// Images in a type that the kernels work in: themselves, or a converted copy.
Tensor readable(ConvKernel kernel, const Tensor& block) {
  if (!is_half_type(block.dtype()) || kernel == ConvKernel::gemm) return block;
  const Tensor converted = Tensor::empty(block.shape(), DType::f32, block.device(), Purpose::workspace);
  convert(block, converted);
  return converted;
}

/// Calls `f(tensor)` to write images [begin, end), or to `add` to them, in a type that the kernels work in.
template <class F>
void write(ConvKernel kernel, const Tensor& images, std::int64_t begin, std::int64_t end, bool add, F&& f) {
  const Tensor block = images.leading(begin, end);
  if (!is_half_type(block.dtype()) || kernel == ConvKernel::gemm) {
    f(block);
    return;
  }
  const Tensor computed = Tensor::empty(block.shape(), DType::f32, block.device(), Purpose::workspace);
  if (add) convert(block, computed);
  f(computed);
  convert(computed, block);
}

/// bias += Σ over rows of dy [..., O], in double: one reading of dy.
void add_sums_of_rows(const Tensor& dy, const Tensor& bias) {
  const std::int64_t outputs = bias.count();
  const Tensor partial = Tensor::zeros({threads(), outputs}, DType::f64, dy.device(), Purpose::workspace);
  launch(dy.device(), [&] {
    with_float_type(dy.dtype(), [&]<class T>(Type<T>) {
      using S = Compute<T>;
      double* const sums = partial.data<double>();  // [threads, O]
      parallel_tasks(dy.rows(), [&](std::int64_t row, int thread) {
        const T* const in = dy.data<T>() + row * outputs;  // [O]
        double* const sum = sums + thread * outputs;       // [O]
#pragma omp simd
        for (std::int64_t o = 0; o < outputs; ++o) sum[o] += static_cast<double>(to_compute(in[o]));
      });
      for (int thread = 1; thread < threads(); ++thread)
        for (std::int64_t o = 0; o < outputs; ++o) sums[o] += sums[thread * outputs + o];
      for (std::int64_t o = 0; o < outputs; ++o) bias.data<S>()[o] += static_cast<S>(sums[o]);
    });
  });
}

}  // namespace

std::int64_t Conv2d::macs(std::span<const Shape> inputs, const Shape& y) const {
  return y.count() * (inputs[weight].count() / inputs[weight].front());
}

Tensor Conv2d::forward(std::span<const Tensor> inputs) const {
  const Tensor &in = inputs[x], &w = inputs[weight], &b = inputs[bias];
  const ConvShape s = checked_shape(*this, in, w, b);
  Tensor y = Tensor::empty({s.images, s.out_height(), s.out_width(), s.outputs}, in.dtype(), in.device());
  const ConvKernel kernel = choose_conv_kernel(s, ConvProduct::forward, in.dtype());
  for_blocks(
      s, converted_at_once(kernel, in.dtype()), [&](const ConvShape& part, std::int64_t begin, std::int64_t end) {
        const Tensor from = readable(kernel, in.leading(begin, end));
        write(kernel, y, begin, end, false, [&](const Tensor& to) { conv_forward(kernel, part, from, w, b, to); });
      });
  return y;
}

void Conv2d::backward(Tensor dy, const Saved<Conv2d>& saved, Grads& grads) const {
  const DType parameters = compute_type(dy.dtype());
  const std::int64_t images = dy.shape().front(), outputs = dy.shape().back();
  if (grads.wanted(bias)) {
    if (!grads[bias].defined()) grads[bias] = Tensor::zeros({outputs}, parameters, dy.device());
    add_sums_of_rows(dy, grads[bias]);
  }
  if (grads.wanted(weight)) {
    const std::int64_t pixels = height * width, channels = saved.shape<input(x)>().back();
    const Operand images_in = saved.get<input(x)>();
    const ConvShape s = shape_of(*this, images, channels, outputs);
    bool add = grads[weight].defined();
    if (!add)
      grads[weight] =
          Tensor::empty({outputs, s.channels / groups, kernel_height, kernel_width}, parameters, dy.device());
    const ConvKernel kernel = choose_conv_kernel(s, ConvProduct::weight_gradient, dy.dtype());
    for_blocks(s, summed_at_once, [&](const ConvShape& part, std::int64_t begin, std::int64_t end) {
      const Tensor in = images_in.rows(begin * pixels, end * pixels).reshape({end - begin, height, width, channels});
      conv_weight_gradient(kernel, part, readable(kernel, in), readable(kernel, dy.leading(begin, end)), grads[weight],
                           add);
      add = true;
    });
  }
  if (grads.wanted(x)) {
    const Tensor w = saved.get<input(weight)>().whole();
    const ConvShape s = shape_of(*this, images, w.shape()[1] * groups, outputs);
    const bool add = grads[x].defined();
    if (!add) grads[x] = Tensor::empty({images, height, width, s.channels}, dy.dtype(), dy.device());
    const ConvKernel kernel = choose_conv_kernel(s, ConvProduct::input_gradient, dy.dtype());
    for_blocks(s, converted_at_once(kernel, dy.dtype()),
               [&](const ConvShape& part, std::int64_t begin, std::int64_t end) {
                 const Tensor from = readable(kernel, dy.leading(begin, end));
                 write(kernel, grads[x], begin, end, add,
                       [&](const Tensor& to) { conv_input_gradient(kernel, part, from, w, to, add); });
               });
  }
}

}  // namespace lacuna
