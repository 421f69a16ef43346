#include "core/parallel.h"
#include "ops/convolution/conv_algorithms.h"

#include <algorithm>

namespace lacuna::direct {
namespace {

/// Calls `f(position, tap)` for the taps of a window that begins at `first` whose position is in [0, extent).
template <class F>
void for_taps(std::int64_t first, std::int64_t kernel, std::int64_t extent, F&& f) {
  for (std::int64_t tap = std::max<std::int64_t>(0, -first); tap < std::min(kernel, extent - first); ++tap)
    f(first + tap, tap);
}

/// Calls `f(x offset, weight offset, y offset)` for every tap of one output channel of one image. Each call stands for
/// the products over the channels of the group: contiguous in x, a kernel area apart in the weights.
template <class F>
void for_products(const ConvShape& s, std::int64_t image, std::int64_t output, F&& f) {
  const std::int64_t inner = s.channels / s.groups, group = output / (s.outputs / s.groups);
  const std::int64_t area = s.kernel_height * s.kernel_width;
  for (std::int64_t i = 0; i < s.out_height(); ++i)
    for (std::int64_t j = 0; j < s.out_width(); ++j) {
      const std::int64_t to = ((image * s.out_height() + i) * s.out_width() + j) * s.outputs + output;
      for_taps(i * s.stride - s.padding.top, s.kernel_height, s.height, [&](std::int64_t h, std::int64_t p) {
        for_taps(j * s.stride - s.padding.left, s.kernel_width, s.width, [&](std::int64_t w, std::int64_t q) {
          const std::int64_t from = ((image * s.height + h) * s.width + w) * s.channels + group * inner;
          f(from, output * inner * area + p * s.kernel_width + q, to);
        });
      });
    }
}

}  // namespace

void forward(const ConvShape& s, const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& y) {
  if (y.device() == Device::meta) return;
  with_float_type(y.dtype(), [&]<class T>(Type<T>) {
    const T *const in = x.data<T>(), *const w = weight.data<T>();
    T* const out = y.data<T>();
    const std::int64_t inner = s.channels / s.groups, area = s.kernel_height * s.kernel_width;
    parallel_tasks(s.images, [&](std::int64_t image, int) {
      const std::int64_t places = s.out_height() * s.out_width();
      for (std::int64_t o = 0; o < s.outputs; ++o) {
        const T start = bias.defined() ? bias.data<T>()[o] : T{};
        for (std::int64_t place = 0; place < places; ++place) out[(image * places + place) * s.outputs + o] = start;
        for_products(s, image, o, [&](std::int64_t from, std::int64_t tap, std::int64_t to) {
          auto sum = to_compute(out[to]);
          for (std::int64_t c = 0; c < inner; ++c) sum += to_compute(in[from + c]) * to_compute(w[tap + c * area]);
          out[to] = static_cast<T>(sum);
        });
      }
    });
  });
}

void gradient_of_input(const ConvShape& s, const Tensor& dy, const Tensor& weight, const Tensor& dx, bool add) {
  if (dx.device() == Device::meta) return;
  if (!add) dx.fill(0);
  with_float_type(dx.dtype(), [&]<class T>(Type<T>) {
    const T *const g = dy.data<T>(), *const w = weight.data<T>();
    T* const out = dx.data<T>();
    const std::int64_t inner = s.channels / s.groups, area = s.kernel_height * s.kernel_width;
    parallel_tasks(s.images, [&](std::int64_t image, int) {
      for (std::int64_t o = 0; o < s.outputs; ++o)
        for_products(s, image, o, [&](std::int64_t from, std::int64_t tap, std::int64_t to) {
          for (std::int64_t c = 0; c < inner; ++c)
            out[from + c] =
                static_cast<T>(to_compute(out[from + c]) + to_compute(g[to]) * to_compute(w[tap + c * area]));
        });
    });
  });
}

void gradient_of_weight(const ConvShape& s, const Tensor& x, const Tensor& dy, const Tensor& dweight, bool add) {
  if (dweight.device() == Device::meta) return;
  if (!add) dweight.fill(0);
  with_float_type(dweight.dtype(), [&]<class T>(Type<T>) {
    const T *const in = x.data<T>(), *const g = dy.data<T>();
    T* const out = dweight.data<T>();
    const std::int64_t inner = s.channels / s.groups, area = s.kernel_height * s.kernel_width;
    parallel_tasks(s.outputs, [&](std::int64_t o, int) {
      for (std::int64_t image = 0; image < s.images; ++image)
        for_products(s, image, o, [&](std::int64_t from, std::int64_t tap, std::int64_t to) {
          for (std::int64_t c = 0; c < inner; ++c)
            out[tap + c * area] =
                static_cast<T>(to_compute(out[tap + c * area]) + to_compute(g[to]) * to_compute(in[from + c]));
        });
    });
  });
}

}  // namespace lacuna::direct
