#include "ops/convolution/phases.h"

#include "core/parallel.h"
#include "core/tensor.h"

#include <algorithm>

namespace lacuna {
namespace {

/// Calls `f(pixel of the phases, pixel of the images)`; the latter is -1 beyond the image.
template <class F>
void for_pixels(const Phases& p, std::int64_t channels, const F& f) {
  const std::int64_t lines = p.count() * p.rows();
  parallel_for(lines, 16384 / (p.columns() * channels) + 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t line = begin; line < end; ++line) {
      const std::int64_t phase = line / p.rows(), image = phase / (p.down() * p.across());
      const std::int64_t h = phase / p.across() % p.down() + line % p.rows() * p.dilation;
      for (std::int64_t j = 0; j < p.columns(); ++j) {
        const std::int64_t w = phase % p.across() + j * p.dilation;
        f(line * p.columns() + j, h < p.height && w < p.width ? (image * p.height + h) * p.width + w : -1);
      }
    }
  });
}

template <class T>
void split_on_cpu(const Phases& p, const Tensor& images, const Tensor& split) {
  const std::int64_t channels = images.shape().back();
  const T* const from = images.data<T>();
  T* const to = split.data<T>();
  for_pixels(p, channels, [=](std::int64_t pixel, std::int64_t source) {
    if (source < 0)
      std::fill_n(to + pixel * channels, channels, T{});
    else
      std::copy_n(from + source * channels, channels, to + pixel * channels);
  });
}

template <class T>
void join_on_cpu(const Phases& p, const Tensor& split, const Tensor& images, bool add) {
  const std::int64_t channels = images.shape().back();
  const T* const from = split.data<T>();
  T* const to = images.data<T>();
  for_pixels(p, channels, [=](std::int64_t pixel, std::int64_t target) {
    if (target < 0) return;
    const T* const in = from + pixel * channels;
    T* const out = to + target * channels;
    if (!add) {
      std::copy_n(in, channels, out);
      return;
    }
#pragma GCC ivdep
    for (std::int64_t c = 0; c < channels; ++c) out[c] = static_cast<T>(to_compute(out[c]) + to_compute(in[c]));
  });
}

const RegisterKernel cpu_split{
    split_phases, DeviceKind::cpu, [](const Phases& phases, const Tensor& images, const Tensor& split) {
      with_float_type(images.dtype(), [&]<class T>(Type<T>) { split_on_cpu<T>(phases, images, split); });
    }};
const RegisterKernel cpu_join{
    join_phases, DeviceKind::cpu, [](const Phases& phases, const Tensor& split, const Tensor& images, bool add) {
      with_float_type(images.dtype(), [&]<class T>(Type<T>) { join_on_cpu<T>(phases, split, images, add); });
    }};

}  // namespace
}  // namespace lacuna
