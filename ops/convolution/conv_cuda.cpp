// Convolutions on cuda: by cuDNN, or as matrix products of gathered rows, a row having the pixels that a window covers.
// Sums over pixels are over runs of them that the shape alone decides, so that bits do not depend on how x is held.
#include "ops/convolution/conv_cuda.h"

#include "core/backend.h"
#include "ops/arithmetic/arithmetic_kernels.h"
#include "ops/arithmetic/reduce_kernels.h"
#include "ops/convolution/conv_kernels.h"
#include "ops/cuda_libraries.h"
#include "ops/dnn_cuda.h"
#include "ops/operand.h"
#include "ops/products/product_memory.h"

#include <algorithm>

namespace lacuna {
namespace {

/// Calls `f(begin, end)` for runs of rows.
template <class F>
void for_runs(std::int64_t rows, std::int64_t run, const F& f) {
  for (std::int64_t begin = 0; begin < rows; begin += run) f(begin, std::min(rows, begin + run));
}

Tensor scratch(const Shape& shape, DType dtype, Device device) {
  return Tensor::empty(shape, dtype, device, Purpose::workspace);
}

/// Whether each window is one pixel, so that images are the rows.
bool is_product(const ConvShape& s) {
  return s.kernel_height == 1 && s.kernel_width == 1 && s.stride == 1 && s.padding == 0;
}

/// The windows of a forward pass.
cuda::GatherRows windows_of(const ConvShape& s) {
  return {.down = {s.height, s.out_height(), s.kernel_height, -s.padding.top, s.stride, 1},
          .across = {s.width, s.out_width(), s.kernel_width, -s.padding.left, s.stride, 1},
          .channels = s.channels,
          .groups = s.groups};
}

/// Rows [begin, end) of windows as a matrix [rows, row_elements]: gathered into `memory`, or the images themselves.
Matrix rows_of(const ConvShape& s, cuda::GatherRows what, const Tensor& images, const Tensor& memory,
               std::int64_t begin, std::int64_t end) {
  if (is_product(s)) return Matrix(images.row_range(begin, end));
  what.images = images.data<const std::byte>();
  what.to = memory.raw();
  what.first_row = begin;
  what.rows = end - begin;
  cuda::gather_rows(stream_of(images.device()), size_of(images.dtype()), what);
  return Matrix(memory.leading(0, end - begin));
}

/// Columns of group `g`.
Matrix group_of(const Matrix& m, std::int64_t g, std::int64_t groups) {
  const std::int64_t columns = m.columns / groups;
  return m.column_range(g * columns, (g + 1) * columns);
}

cuda::TapAxis all_taps(std::int64_t kernel) { return {kernel, kernel, 0, 1}; }

/// Weights as [outputs, kernel_height, kernel_width, channels / groups] of `dtype`.
Tensor arranged_weights(const ConvShape& s, const Tensor& weight, DType dtype) {
  const Tensor arranged =
      scratch({s.outputs, s.kernel_height * s.kernel_width * (s.channels / s.groups)}, dtype, weight.device());
  cuda::arrange_weights(stream_of(weight.device()), dtype,
                        {.weights = weight.data<const float>(),
                         .to = arranged.raw(),
                         .down = all_taps(s.kernel_height),
                         .across = all_taps(s.kernel_width),
                         .outputs = s.outputs,
                         .channels = s.channels,
                         .groups = s.groups});
  return arranged;
}

/// The convolution by cuDNN, if it has a plan. It is not asked if windows lie side by side: images are then the rows of
/// a product, or nearly so. Nor with more zeros on one side than on the other. Nor in f32, for which its plans in NHWC
/// take the memory of whole copies of the images, or round to TF32.
class Cudnn {
 public:
  Cudnn(Device device, cuda::ConvolutionPass pass, DType dtype, const ConvShape& s)
      : device_(device), what_{pass, dtype, s} {
    const bool side_by_side =
        s.groups == 1 && s.padding == 0 && s.kernel_height == s.stride && s.kernel_width == s.stride;
    has_plan_ = uses_cudnn() && dtype != DType::f32 && !side_by_side && s.padding.is_symmetric() &&
                cuda::has_plan(device.index, what_);
  }
  bool has_plan() const { return has_plan_; }
  void run(const Tensor& first, const Tensor& second, const Tensor& result) const {
    const Tensor workspace = scratch({library_workspace}, DType::u8, device_);
    cuda::convolve(stream_of(device_), device_.index, what_, first.data<const std::byte>(),
                   second.data<const std::byte>(), result.raw(), workspace.raw());
  }

 private:
  Device device_;
  cuda::Convolution what_;
  bool has_plan_ = false;
};

void forward(const ConvShape& s, const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& y) {
  const Device device = y.device();
  const Tensor arranged = arranged_weights(s, weight, x.dtype());
  if (const Cudnn cudnn(device, cuda::ConvolutionPass::forward, x.dtype(), s); cudnn.has_plan()) {
    cudnn.run(x, arranged, y);
    if (bias.defined()) add_rows(device, y, bias, 0, y);
    return;
  }
  const cuda::GatherRows windows = windows_of(s);
  const std::int64_t depth = windows.row_elements(), rows = y.rows(),
                     run = gathered_at_once(depth * size_of(x.dtype()), device);
  const Tensor memory = scratch({is_product(s) ? 0 : std::min(rows, run), depth}, x.dtype(), device);
  const std::int64_t outputs = s.outputs / s.groups;
  for_runs(rows, is_product(s) ? rows : run, [&](std::int64_t begin, std::int64_t end) {
    const Matrix from = rows_of(s, windows, x, memory, begin, end), to = Matrix(y).row_range(begin, end);
    for (std::int64_t g = 0; g < s.groups; ++g)
      gemm(group_of(from, g, s.groups), Matrix(arranged).row_range(g * outputs, (g + 1) * outputs).t(),
           group_of(to, g, s.groups),
           {.bias = bias.defined() ? bias.leading(g * outputs, (g + 1) * outputs) : Tensor()});
  });
}

/// Along one axis, the pixels whose place leaves `rest` when divided by the stride: the same taps reach all of them.
struct Rest {
  cuda::PixelAxis pixels;
  cuda::TapAxis taps;
  cuda::WindowAxis windows;  // of dy around each of these pixels

  Rest(std::int64_t rest, std::int64_t extent, std::int64_t out_extent, std::int64_t kernel, std::int64_t padding,
       std::int64_t stride)
      : pixels{extent, (extent - rest + stride - 1) / stride, rest, stride} {
    const std::int64_t first = (rest + padding) % stride;
    const std::int64_t count = first < kernel ? (kernel - first + stride - 1) / stride : 0;
    taps = {kernel, count, first, stride};
    windows = {out_extent, pixels.pixels, count, (rest + padding - first) / stride, 1, -1};
  }
};

/// dx of the pixels that have the same rests.
void input_gradient_of(const ConvShape& s, const Rest& down, const Rest& across, const Tensor& dy, const Tensor& weight,
                       const Tensor& dx, bool add) {
  const Device device = dx.device();
  const Stream stream = stream_of(device);
  const cuda::GatherRows windows{
      .down = down.windows, .across = across.windows, .channels = s.outputs, .groups = s.groups};
  const std::int64_t depth = windows.row_elements(), rows = s.images * down.pixels.pixels * across.pixels.pixels;
  const bool direct = s.stride == 1;  // the pixels are all, in order
  const auto place = [&](std::int64_t begin, std::int64_t end, const Tensor& from) {
    cuda::place_rows(stream, dx.dtype(),
                     {.from = from.defined() ? from.data<const std::byte>() : nullptr,
                      .images = dx.raw(),
                      .down = down.pixels,
                      .across = across.pixels,
                      .channels = s.channels,
                      .first_row = begin,
                      .rows = end - begin,
                      .add = add});
  };
  if (depth == 0) {
    if (!add) place(0, rows, Tensor());
    return;
  }
  const std::int64_t inputs = s.channels / s.groups, of_group = depth / s.groups;
  const Tensor arranged = scratch({depth, inputs}, dy.dtype(), device);
  cuda::arrange_weights(stream, dy.dtype(),
                        {.weights = weight.data<const float>(),
                         .to = arranged.raw(),
                         .down = down.taps,
                         .across = across.taps,
                         .outputs = s.outputs,
                         .channels = s.channels,
                         .groups = s.groups,
                         .by_inputs = true});
  const std::int64_t run = gathered_at_once((depth + (direct ? 0 : s.channels)) * size_of(dy.dtype()), device);
  const std::int64_t most = std::min(rows, run);
  const Tensor memory = scratch({is_product(s) ? 0 : most, depth}, dy.dtype(), device);
  const Tensor results = scratch({direct ? 0 : most, s.channels}, dx.dtype(), device);
  for_runs(rows, is_product(s) ? rows : run, [&](std::int64_t begin, std::int64_t end) {
    const Matrix from = rows_of(s, windows, dy, memory, begin, end);
    const Tensor to = direct ? dx.row_range(begin, end) : results.leading(0, end - begin);
    for (std::int64_t g = 0; g < s.groups; ++g)
      gemm(group_of(from, g, s.groups), Matrix(arranged).row_range(g * of_group, (g + 1) * of_group),
           group_of(Matrix(to), g, s.groups), {.add = add && direct});
    if (!direct) place(begin, end, to);
  });
}

void input_gradient_by_cudnn(const Cudnn& cudnn, const ConvShape& s, const Tensor& dy, const Tensor& weight,
                             const Tensor& dx, bool add) {
  const Tensor to = add ? scratch(dx.shape(), dx.dtype(), dx.device()) : dx;
  cudnn.run(dy, arranged_weights(s, weight, dy.dtype()), to);
  if (add) add_elements(dx.device(), dx, to, dx);
}

void input_gradient(const ConvShape& s, const Tensor& dy, const Tensor& weight, const Tensor& dx, bool add) {
  if (const Cudnn cudnn(dx.device(), cuda::ConvolutionPass::input_gradient, dy.dtype(), s); cudnn.has_plan())
    return input_gradient_by_cudnn(cudnn, s, dy, weight, dx, add);
  for (std::int64_t row = 0; row < std::min(s.stride, s.height); ++row)
    for (std::int64_t column = 0; column < std::min(s.stride, s.width); ++column)
      input_gradient_of(s, Rest(row, s.height, s.out_height(), s.kernel_height, s.padding.top, s.stride),
                        Rest(column, s.width, s.out_width(), s.kernel_width, s.padding.left, s.stride), dy, weight, dx,
                        add);
}

/// dweight (+)= matrix [outputs, taps, channels of a group].
void collect(const ConvShape& s, const Tensor& matrix, const Tensor& dweight, bool add) {
  cuda::collect_weights(stream_of(dweight.device()), matrix.dtype(),
                        {.matrix = matrix.data<const std::byte>(),
                         .weights = dweight.data<float>(),
                         .outputs = s.outputs,
                         .taps = s.kernel_height * s.kernel_width,
                         .channels = s.channels / s.groups,
                         .add = add});
}

/// Sums of runs of images, which come in the type of dy and are added in f32. False: cuDNN has no plan.
bool weight_gradient_by_cudnn(const ConvShape& s, const Operand& x, const Tensor& dy, const Tensor& dweight, bool add) {
  const Device device = dweight.device();
  const std::int64_t pixels = s.height * s.width, run = images_summed_at_once(s, dy.dtype(), device);
  const auto plan_for = [&](std::int64_t images) {
    ConvShape part = s;
    part.images = images;
    return Cudnn(device, cuda::ConvolutionPass::weight_gradient, dy.dtype(), part);
  };
  const std::int64_t rest = s.images % run;
  const Cudnn cudnn = plan_for(run), for_rest = plan_for(rest == 0 ? run : rest);
  if (!cudnn.has_plan() || !for_rest.has_plan()) return false;
  const Tensor sums = scratch({s.outputs, dweight.count() / s.outputs}, dy.dtype(), device);
  for_runs(s.images, run, [&](std::int64_t begin, std::int64_t end) {
    (end - begin == run ? cudnn : for_rest).run(dy.leading(begin, end), x.rows(begin * pixels, end * pixels), sums);
    collect(s, sums, dweight, add || begin > 0);
  });
  return true;
}

void weight_gradient(const ConvShape& s, const Operand& x, const Tensor& dy, const Tensor& dweight, bool add) {
  if (weight_gradient_by_cudnn(s, x, dy, dweight, add)) return;
  const Device device = dweight.device();
  const cuda::GatherRows windows = windows_of(s);
  const std::int64_t depth = windows.row_elements(), windows_of_image = s.out_height() * s.out_width();
  const std::int64_t pixels = s.height * s.width, images = images_summed_at_once(s, dy.dtype(), device),
                     run = is_product(s) ? images * windows_of_image
                                         : gathered_at_once(depth * size_of(dy.dtype()), device);
  const std::int64_t outputs = s.outputs / s.groups;
  const Tensor sums = is_product(s) && s.groups == 1 ? dweight.reshape({s.outputs, depth})
                                                     : scratch({s.outputs, depth / s.groups}, DType::f32, device);
  const bool direct = sums.storage() == dweight.storage();
  const Tensor memory =
      scratch({is_product(s) ? 0 : std::min(run, images * windows_of_image), depth}, dy.dtype(), device);
  bool adds = add && direct;
  for_runs(s.images, images, [&](std::int64_t first_image, std::int64_t last_image) {
    const Tensor in = x.rows(first_image * pixels, last_image * pixels);  // [rows, C]
    const std::int64_t first_row = first_image * windows_of_image;
    for_runs((last_image - first_image) * windows_of_image, run, [&](std::int64_t begin, std::int64_t end) {
      const Matrix from = rows_of(s, windows, in, memory, begin, end);
      const Matrix gradients = Matrix(dy).row_range(first_row + begin, first_row + end);
      for (std::int64_t g = 0; g < s.groups; ++g)
        gemm(group_of(gradients, g, s.groups).t(), group_of(from, g, s.groups),
             Matrix(sums).row_range(g * outputs, (g + 1) * outputs), {.add = adds});
      adds = true;
    });
  });
  if (!direct) collect(s, sums, dweight, add);
}

const RegisterKernel cuda_forward{conv2d_forward, DeviceKind::cuda, forward};
const RegisterKernel cuda_input_gradient{conv2d_input_gradient, DeviceKind::cuda, input_gradient};
const RegisterKernel cuda_weight_gradient{conv2d_weight_gradient, DeviceKind::cuda, weight_gradient};
const RegisterKernel cuda_bias_gradient{
    conv2d_bias_gradient, DeviceKind::cuda,
    [](const Tensor& dy, const Tensor& dbias) { sum_repetitions(dbias.device(), dy, dbias); }};

}  // namespace
}  // namespace lacuna
