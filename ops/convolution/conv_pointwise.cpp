#include "core/parallel.h"
#include "ops/convolution/conv_algorithms.h"
#include "ops/products/gemm.h"

#include <algorithm>

namespace lacuna::pointwise {
namespace {

/// Weights [O, C, 1, 1] as [O, C].
Matrix matrix_of(const Tensor& weight) { return Matrix(weight.reshape({weight.shape()[0], weight.shape()[1]})); }

/// Calls `f(pixel of x, pixel of y)` for each pixel that a strided convolution reads.
template <class F>
void for_read_pixels(const ConvShape& s, const F& f) {
  parallel_tasks(s.images * s.out_height(), [&](std::int64_t row, int) {
    const std::int64_t image = row / s.out_height(), line = row % s.out_height() * s.stride;
    for (std::int64_t column = 0; column < s.out_width(); ++column)
      f((image * s.height + line) * s.width + column * s.stride, row * s.out_width() + column);
  });
}

/// The pixels that the convolution reads, as [N · OH · OW, C]: x itself, or a copy if it skips some.
Tensor read_pixels(const ConvShape& s, const Tensor& x) {
  if (s.stride == 1) return x;
  const Tensor read =
      Tensor::empty({s.images * s.out_height() * s.out_width(), s.channels}, x.dtype(), x.device(), Purpose::workspace);
  if (x.device() == Device::meta) return read;
  with_float_type(x.dtype(), [&]<class T>(Type<T>) {
    for_read_pixels(s, [&, from = x.data<T>(), to = read.data<T>()](std::int64_t in, std::int64_t out) {
      std::copy_n(from + in * s.channels, s.channels, to + out * s.channels);
    });
  });
  return read;
}

}  // namespace

bool takes(const ConvShape& s) {
  return s.kernel_height == 1 && s.kernel_width == 1 && s.padding == 0 && s.groups == 1;
}

void forward(const ConvShape& s, const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& y) {
  gemm(Matrix(read_pixels(s, x)), matrix_of(weight).t(), Matrix(y), {.bias = bias});
}

void gradient_of_input(const ConvShape& s, const Tensor& dy, const Tensor& weight, const Tensor& dx, bool add) {
  if (s.stride == 1) return gemm(Matrix(dy), matrix_of(weight), Matrix(dx), {.add = add, .bias = {}});
  const Tensor read = Tensor::empty({dy.rows(), s.channels}, dx.dtype(), dx.device(), Purpose::workspace);
  gemm(Matrix(dy), matrix_of(weight), Matrix(read), {.bias = {}});
  if (dx.device() == Device::meta) return;
  with_float_type(dx.dtype(), [&]<class T>(Type<T>) {
    T* const to = dx.data<T>();  // [N, H, W, C]
    if (!add)
      parallel_for(dx.count(), 4096,
                   [=](std::int64_t begin, std::int64_t end) { std::fill(to + begin, to + end, T{}); });
    for_read_pixels(s, [&, from = read.data<T>()](std::int64_t in, std::int64_t out) {
      const T* const gradient = from + out * s.channels;  // [C]
      T* const sum = to + in * s.channels;                // [C]
#pragma GCC ivdep
      for (std::int64_t c = 0; c < s.channels; ++c)
        sum[c] = static_cast<T>(to_compute(sum[c]) + to_compute(gradient[c]));
    });
  });
}

void gradient_of_weight(const ConvShape& s, const Tensor& x, const Tensor& dy, const Tensor& dweight, bool add) {
  gemm(Matrix(dy).t(), Matrix(read_pixels(s, x)), matrix_of(dweight), {.add = add, .bias = {}});
}

}  // namespace lacuna::pointwise
