#include "ops/conv.h"

#include "core/parallel.h"
#include "ops/conv_kernels.h"
#include "ops/gemm.h"

namespace lacuna {
namespace {

const RegisterOp<Conv2d> conv2d;

ConvShape shape_of(const Conv2d& op, std::int64_t images, std::int64_t channels, std::int64_t outputs) {
  return {images,           op.height,       op.width,  channels,   outputs,
          op.kernel_height, op.kernel_width, op.stride, op.padding, op.groups};
}

DType type_of_parameters(DType activations) { return activations == DType::f64 ? DType::f64 : DType::f32; }

ConvShape checked_shape(const Conv2d& op, const Tensor& x, const Tensor& weight, const Tensor& bias) {
  expect(op.stride > 0 && op.padding >= 0 && op.groups > 0,
         "conv2d: expected stride > 0, padding >= 0 and groups > 0, got {}, {} and {}", op.stride, op.padding,
         op.groups);
  expect(x.shape().rank() == 4 && x.shape()[1] == op.height && x.shape()[2] == op.width,
         "conv2d: expected images [N, {}, {}, C], got {}", op.height, op.width, x.shape());
  const std::int64_t channels = x.shape()[3], outputs = weight.shape().front();
  expect(outputs % op.groups == 0 && channels % op.groups == 0 &&
             weight.shape() == Shape{outputs, channels / op.groups, op.kernel_height, op.kernel_width},
         "conv2d: weight {} does not fit {} channels in {} groups: expected [O, C / groups, {}, {}], O and C multiples "
         "of groups",
         weight.shape(), channels, op.groups, op.kernel_height, op.kernel_width);
  const DType type = type_of_parameters(x.dtype());
  expect(weight.dtype() == type, "conv2d: an input of {} goes with weights of {}, got {}", name_of(x.dtype()),
         name_of(type), name_of(weight.dtype()));
  expect(!bias.defined() || (bias.shape() == Shape{outputs} && bias.dtype() == type), "conv2d: bias must be {} of [{}]",
         name_of(type), outputs);
  expect(op.kernel_height <= op.height + 2 * op.padding && op.kernel_width <= op.width + 2 * op.padding,
         "conv2d: a kernel of {}x{} is larger than images of {}x{} with padding {}", op.kernel_height, op.kernel_width,
         op.height, op.width, op.padding);
  return shape_of(op, x.shape()[0], channels, outputs);
}

/// A product of matrices, one row a pixel.
bool is_gemm(const ConvShape& s) {
  return s.kernel_height == 1 && s.kernel_width == 1 && s.stride == 1 && s.padding == 0 && s.groups == 1;
}

Matrix matrix_of(const Tensor& weight) { return Matrix(weight.reshape({weight.shape()[0], weight.shape()[1]})); }

void convolve(const ConvShape& s, const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& y) {
  if (x.dtype() == DType::f64)
    direct::forward(s, x, weight, bias, y);
  else if (winograd::takes(s))
    winograd::forward(s, x, weight, bias, y);
  else
    onednn::forward(s, x, weight, bias, y);
}

void gradient_of_input(const ConvShape& s, const Tensor& dy, const Tensor& weight, const Tensor& dx) {
  if (dy.dtype() == DType::f64)
    direct::gradient_of_input(s, dy, weight, dx);
  else if (winograd::takes(s))
    winograd::gradient_of_input(s, dy, weight, dx);
  else
    onednn::gradient_of_input(s, dy, weight, dx);
}

void gradient_of_weight(const ConvShape& s, const Tensor& x, const Tensor& dy, const Tensor& dweight, bool add) {
  if (x.dtype() == DType::f64)
    direct::gradient_of_weight(s, x, dy, dweight, add);
  else if (winograd::takes(s))
    winograd::gradient_of_weight(s, x, dy, dweight, add);
  else
    onednn::gradient_of_weight(s, x, dy, dweight, add);
}

bool is_half_type(DType type) { return type == DType::bf16 || type == DType::f16; }

/// Calls `f(shape, first image, last)` for blocks of images: all at once, or where the kernels have no arithmetic for
/// the type and its conversion to f32 has to stay small, as many as fit a bound.
template <class F>
void for_blocks(const ConvShape& s, DType type, F&& f) {
  constexpr std::int64_t bound = 4 << 20;  // elements of a converted block
  const std::int64_t image = std::max(s.height * s.width * s.channels, s.out_height() * s.out_width() * s.outputs);
  const std::int64_t block = is_half_type(type) ? std::clamp<std::int64_t>(bound / image, 1, s.images) : s.images;
  for (std::int64_t begin = 0; begin < s.images; begin += block) {
    ConvShape part = s;
    part.images = std::min(block, s.images - begin);
    f(part, begin, begin + part.images);
  }
}

/// Images [begin, end) in a type that kernels work in: a view, or a converted copy.
Tensor readable(const Tensor& images, std::int64_t begin, std::int64_t end) {
  const Tensor block = images.leading(begin, end);
  if (!is_half_type(block.dtype())) return block;
  const Tensor converted = Tensor::empty(block.shape(), DType::f32, block.device(), Purpose::workspace);
  converted.copy_from(block);
  return converted;
}

/// Calls `f(tensor)` to write images [begin, end), in a type that kernels work in.
template <class F>
void write(const Tensor& images, std::int64_t begin, std::int64_t end, F&& f) {
  const Tensor block = images.leading(begin, end);
  if (!is_half_type(block.dtype())) {
    f(block);
    return;
  }
  const Tensor computed = Tensor::empty(block.shape(), DType::f32, block.device(), Purpose::workspace);
  f(computed);
  block.copy_from(computed);
}

void add_to(const Tensor& sum, const Tensor& term) {
  launch(sum.device(), [&] {
    with_float_type(sum.dtype(), [&]<class T>(Type<T>) {
      map(
          sum.count(), [](auto a, auto b) { return a + b; }, sum.data<T>(), sum.data<T>(), term.data<T>());
    });
  });
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

Tensor Conv2d::forward(std::span<const Tensor> inputs) const {
  const Tensor &in = inputs[x], &w = inputs[weight], &b = inputs[bias];
  const ConvShape s = checked_shape(*this, in, w, b);
  Tensor y = Tensor::empty({s.images, s.out_height(), s.out_width(), s.outputs}, in.dtype(), in.device());
  if (is_gemm(s)) {
    gemm(Matrix(in), matrix_of(w).t(), Matrix(y), {.bias = b});
    return y;
  }
  for_blocks(s, in.dtype(), [&](const ConvShape& part, std::int64_t begin, std::int64_t end) {
    const Tensor from = readable(in, begin, end);
    write(y, begin, end, [&](const Tensor& to) { convolve(part, from, w, b, to); });
  });
  return y;
}

void Conv2d::backward(Tensor dy, const Saved<Conv2d>& saved, Grads& grads) const {
  const DType parameters = type_of_parameters(dy.dtype());
  const std::int64_t images = dy.shape().front(), outputs = dy.shape().back();
  if (grads.wanted(bias)) {
    if (!grads[bias].defined()) grads[bias] = Tensor::zeros({outputs}, parameters, dy.device());
    add_sums_of_rows(dy, grads[bias]);
  }
  if (grads.wanted(weight)) {
    const Tensor in = saved.get<input(x)>();
    const ConvShape s = shape_of(*this, images, in.shape().back(), outputs);
    bool add = grads[weight].defined();
    if (!add)
      grads[weight] =
          Tensor::empty({outputs, s.channels / groups, kernel_height, kernel_width}, parameters, dy.device());
    const Tensor dweight = grads[weight];
    if (is_gemm(s)) {
      gemm(Matrix(dy).t(), Matrix(in), matrix_of(dweight), {.add = add, .bias = {}});
    } else {
      for_blocks(s, dy.dtype(), [&](const ConvShape& part, std::int64_t begin, std::int64_t end) {
        gradient_of_weight(part, readable(in, begin, end), readable(dy, begin, end), dweight, add);
        add = true;
      });
    }
  }
  if (grads.wanted(x)) {
    const Tensor w = saved.get<input(weight)>();
    const ConvShape s = shape_of(*this, images, w.shape()[1] * groups, outputs);
    const bool add = grads[x].defined();
    if (is_gemm(s)) {
      if (!add) grads[x] = Tensor::empty({images, height, width, s.channels}, dy.dtype(), dy.device());
      gemm(Matrix(dy), matrix_of(w), Matrix(grads[x]), {.add = add, .bias = {}});
      return;
    }
    const Tensor dx = Tensor::empty({images, height, width, s.channels}, dy.dtype(), dy.device());
    for_blocks(s, dy.dtype(), [&](const ConvShape& part, std::int64_t begin, std::int64_t end) {
      const Tensor from = readable(dy, begin, end);
      write(dx, begin, end, [&](const Tensor& to) { gradient_of_input(part, from, w, to); });
    });
    if (add)
      add_to(grads[x], dx);
    else
      grads[x] = dx;
  }
}

}  // namespace lacuna
