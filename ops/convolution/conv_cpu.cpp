// Convolutions on the CPU: kernels compute blocks of images, in a type that they have arithmetic for.
#include "core/parallel.h"
#include "core/planned_device.h"
#include "ops/convolution/conv_choice.h"
#include "ops/convolution/conv_kernels.h"
#include "ops/operand.h"
#include "ops/products/product_memory.h"

#include <limits>

namespace lacuna {
namespace {

/// Calls `f(shape, first image, last)` for blocks of images, each of at most `bound` elements where that is possible.
/// Blocks differ by one image at most: kernels are slower on a short block.
template <class F>
void for_blocks(const ConvShape& s, std::int64_t bound, F&& f) {
  const std::int64_t image = std::max(s.height * s.width * s.channels, s.out_height() * s.out_width() * s.outputs);
  const std::int64_t most = std::clamp<std::int64_t>(bound / image, 1, s.images);
  const std::int64_t blocks = (s.images + most - 1) / most;
  for (std::int64_t block = 0; block < blocks; ++block) {
    const Range range = part(s.images, block, blocks);
    ConvShape images = s;
    images.images = range.end - range.begin;
    f(images, range.begin, range.end);
  }
}

/// Elements of a block where the kernels have no arithmetic for the type and its conversion to f32 has to stay small;
/// no bound where it needs none.
std::int64_t converted_at_once(ConvKernel kernel, DType type) {
  return takes_type(kernel, type) ? std::numeric_limits<std::int64_t>::max() : 4 << 20;
}

/// A weight gradient reads at most this many bytes of x at once. A decoded or recomputed block stays small. The sum has
/// the same bits for every way to save x.
constexpr std::int64_t summed_at_once = 8 << 20;

void convert(const Tensor& from, const Tensor& to) {
  if (to.device() == Device::meta) return;
  with_float_type(from.dtype(), [&]<class From>(Type<From>) {
    with_float_type(to.dtype(), [&]<class To>(Type<To>) {
      map(
          to.count(), [](auto value) { return static_cast<Compute<To>>(value); }, to.data<To>(), from.data<From>());
    });
  });
}

/// Images in a type that the kernels work in: themselves, or a converted copy.
Tensor readable(ConvKernel kernel, const Tensor& block) {
  if (takes_type(kernel, block.dtype())) return block;
  const Tensor converted = Tensor::empty(block.shape(), DType::f32, block.device(), Purpose::workspace);
  convert(block, converted);
  return converted;
}

/// Calls `f(tensor)` to write images [begin, end), or to `add` to them, in a type that the kernels work in.
template <class F>
void write(ConvKernel kernel, const Tensor& images, std::int64_t begin, std::int64_t end, bool add, F&& f) {
  const Tensor block = images.leading(begin, end);
  if (takes_type(kernel, block.dtype())) {
    f(block);
    return;
  }
  const Tensor computed = Tensor::empty(block.shape(), DType::f32, block.device(), Purpose::workspace);
  if (add) convert(block, computed);
  f(computed);
  convert(computed, block);
}

void forward_on_cpu(const ConvShape& s, const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& y) {
  if (computes_on_cuda(y.device())) return take_memory_on_cuda(ConvPass::forward, s, x.dtype(), y.device());
  const ConvKernel kernel = choose_conv_kernel(s, ConvProduct::forward, x.dtype());
  for_blocks(s, converted_at_once(kernel, x.dtype()), [&](const ConvShape& part, std::int64_t begin, std::int64_t end) {
    const Tensor from = readable(kernel, x.leading(begin, end));
    write(kernel, y, begin, end, false, [&](const Tensor& to) { conv_forward(kernel, part, from, weight, bias, to); });
  });
}

void input_gradient_on_cpu(const ConvShape& s, const Tensor& dy, const Tensor& weight, const Tensor& dx, bool add) {
  if (computes_on_cuda(dx.device())) return take_memory_on_cuda(ConvPass::input_gradient, s, dy.dtype(), dx.device());
  const ConvKernel kernel = choose_conv_kernel(s, ConvProduct::input_gradient, dy.dtype());
  for_blocks(s, converted_at_once(kernel, dy.dtype()),
             [&](const ConvShape& part, std::int64_t begin, std::int64_t end) {
               const Tensor from = readable(kernel, dy.leading(begin, end));
               write(kernel, dx, begin, end, add,
                     [&](const Tensor& to) { conv_input_gradient(kernel, part, from, weight, to, add); });
             });
}

void weight_gradient_on_cpu(const ConvShape& s, const Operand& x, const Tensor& dy, const Tensor& dweight, bool add) {
  const std::int64_t pixels = s.height * s.width;
  if (computes_on_cuda(dy.device())) {
    const Tensor in = x.rows(0, images_summed_at_once(s, dy.dtype(), dy.device()) * pixels);
    return take_memory_on_cuda(ConvPass::weight_gradient, s, dy.dtype(), dy.device());
  }
  const ConvKernel kernel = choose_conv_kernel(s, ConvProduct::weight_gradient, dy.dtype());
  for_blocks(s, summed_at_once / size_of(dy.dtype()), [&](const ConvShape& part, std::int64_t begin, std::int64_t end) {
    const Tensor in = x.rows(begin * pixels, end * pixels).reshape({end - begin, s.height, s.width, s.channels});
    conv_weight_gradient(kernel, part, readable(kernel, in), readable(kernel, dy.leading(begin, end)), dweight,
                         add || begin > 0);
  });
}

/// Each thread sums in double: one reading of dy.
template <class T>
void bias_gradient_on_cpu(const Tensor& dy, const Tensor& dbias) {
  using S = Compute<T>;
  const std::int64_t outputs = dbias.count();
  const Tensor partial = Tensor::zeros({threads(), outputs}, DType::f64, dy.device(), Purpose::workspace);
  if (dy.device() == Device::meta) return;
  double* const sums = partial.data<double>();  // [threads, O]
  parallel_tasks(dy.rows(), [&](std::int64_t row, int thread) {
    const T* const in = dy.data<T>() + row * outputs;  // [O]
    double* const sum = sums + thread * outputs;       // [O]
#pragma omp simd
    for (std::int64_t o = 0; o < outputs; ++o) sum[o] += static_cast<double>(to_compute(in[o]));
  });
  for (int thread = 1; thread < threads(); ++thread)
    for (std::int64_t o = 0; o < outputs; ++o) sums[o] += sums[thread * outputs + o];
  for (std::int64_t o = 0; o < outputs; ++o) dbias.data<S>()[o] += static_cast<S>(sums[o]);
}

const RegisterKernel cpu_forward{conv2d_forward, {DeviceKind::cpu, DeviceKind::meta}, forward_on_cpu};
const RegisterKernel cpu_input_gradient{
    conv2d_input_gradient, {DeviceKind::cpu, DeviceKind::meta}, input_gradient_on_cpu};
const RegisterKernel cpu_weight_gradient{
    conv2d_weight_gradient, {DeviceKind::cpu, DeviceKind::meta}, weight_gradient_on_cpu};
const RegisterKernel cpu_bias_gradient{
    conv2d_bias_gradient, {DeviceKind::cpu, DeviceKind::meta}, [](const Tensor& dy, const Tensor& dbias) {
      with_float_type(dy.dtype(), [&]<class T>(Type<T>) { bias_gradient_on_cpu<T>(dy, dbias); });
    }};

}  // namespace
}  // namespace lacuna
