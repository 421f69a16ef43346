#include "ops/shapes/resize.h"

#include "core/parallel.h"
#include "ops/shapes/resize_kernels.h"

#include <algorithm>
#include <vector>

namespace lacuna {
namespace {

const RegisterOp<Resize> resize_op;

std::vector<ResampledAxis::Taps> all_taps(const ResampledAxis& axis) {
  std::vector<ResampledAxis::Taps> taps;
  for (std::int32_t i = 0; i < axis.out; ++i) taps.push_back(axis.taps(i));
  return taps;
}

template <class T>
void resize_on_cpu(const ResampledAxes& axes, const Tensor& x, std::int64_t first_row, const Tensor& y) {
  using C = Compute<T>;
  const std::int64_t channels = y.shape().back(), across = axes.across.out, down = axes.down.out;
  const std::int64_t width = axes.across.extent, height = axes.down.extent;
  const std::vector<ResampledAxis::Taps> columns = all_taps(axes.across);
  const T* const from = x.data<T>();
  T* const to = y.data<T>();
  parallel_for(y.rows(), 16384 / channels + 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const std::int64_t pixel = first_row + row, image = pixel / (down * across);
      const ResampledAxis::Taps h = axes.down.taps(static_cast<std::int32_t>(pixel / across % down));
      const ResampledAxis::Taps& w = columns[static_cast<std::size_t>(pixel % across)];
      const T *const above = from + (image * height + h.low) * width * channels, *const below =
                                                                                     from + (image * height + h.high) *
                                                                                                width * channels;
      const T *const a = above + w.low * channels, *const b = above + w.high * channels;
      const T *const c = below + w.low * channels, *const d = below + w.high * channels;
      const C down_share = h.share<C>(), across_share = w.share<C>();
      T* const out = to + row * channels;
      if (axes.down.resampling == Resampling::nearest) {
        std::copy_n(a, channels, out);
        continue;
      }
#pragma GCC ivdep
      for (std::int64_t k = 0; k < channels; ++k) {
        const C upper = (1 - across_share) * to_compute(a[k]) + across_share * to_compute(b[k]);
        const C lower = (1 - across_share) * to_compute(c[k]) + across_share * to_compute(d[k]);
        out[k] = static_cast<T>((1 - down_share) * upper + down_share * lower);
      }
    }
  });
}

template <class T>
void gradient_on_cpu(const ResampledAxes& axes, const Tensor& dy, const Tensor& dx) {
  using C = Compute<T>;
  const std::int64_t channels = dx.shape().back(), across = axes.across.out, down = axes.down.out;
  const std::int64_t width = axes.across.extent, height = axes.down.extent;
  const std::vector<ResampledAxis::Taps> columns = all_taps(axes.across), rows = all_taps(axes.down);
  const T* const from = dy.data<T>();
  T* const to = dx.data<T>();
  parallel_tasks(dx.shape()[0] * height, [&](std::int64_t line, int) {
    std::vector<C> sums(static_cast<std::size_t>(channels));
    const auto h = static_cast<std::int32_t>(line % height);
    const ResampledAxis::Range reads_h = axes.down.readers(h);
    for (std::int32_t w = 0; w < width; ++w) {
      const ResampledAxis::Range reads_w = axes.across.readers(w);
      std::fill(sums.begin(), sums.end(), C{});
      for (std::int32_t i = reads_h.begin; i < reads_h.end; ++i) {
        const C down_share = ResampledAxis::weight_of<C>(rows[static_cast<std::size_t>(i)], h);
        for (std::int32_t j = reads_w.begin; j < reads_w.end; ++j) {
          const C share = down_share * ResampledAxis::weight_of<C>(columns[static_cast<std::size_t>(j)], w);
          const T* const in = from + ((line / height * down + i) * across + j) * channels;
          C* const sum = sums.data();
#pragma GCC ivdep
          for (std::int64_t k = 0; k < channels; ++k) sum[k] += share * to_compute(in[k]);
        }
      }
      T* const out = to + (line * width + w) * channels;
      for (std::int64_t k = 0; k < channels; ++k) out[k] = static_cast<T>(sums[static_cast<std::size_t>(k)]);
    }
  });
}

const RegisterKernel cpu_resize{
    resize_pixels, DeviceKind::cpu,
    [](const ResampledAxes& axes, const Tensor& x, std::int64_t first_row, const Tensor& y) {
      with_float_type(y.dtype(), [&]<class T>(Type<T>) { resize_on_cpu<T>(axes, x, first_row, y); });
    }};
const RegisterKernel cpu_resize_gradient{
    resize_gradient, DeviceKind::cpu, [](const ResampledAxes& axes, const Tensor& dy, const Tensor& dx) {
      with_float_type(dx.dtype(), [&]<class T>(Type<T>) { gradient_on_cpu<T>(axes, dy, dx); });
    }};

ResampledAxes axes_of(const Resize& op) {
  return {{static_cast<std::int32_t>(op.height), static_cast<std::int32_t>(op.out_height), op.resampling},
          {static_cast<std::int32_t>(op.width), static_cast<std::int32_t>(op.out_width), op.resampling}};
}

}  // namespace

Tensor Resize::forward(std::span<const Tensor> inputs) const {
  constexpr std::int64_t most = 1 << 15;
  const Shape& shape = inputs[x].shape();
  expect(shape.rank() == 4 && shape[1] == height && shape[2] == width && shape.count() > 0,
         "resize: expected images [N, {}, {}, C], got {}", height, width, shape);
  expect(height < most && width < most && out_height > 0 && out_width > 0 && out_height < most && out_width < most,
         "resize: expected sides from 1 to {}, got {}x{} to {}x{}", most - 1, height, width, out_height, out_width);
  Tensor y = Tensor::empty({shape[0], out_height, out_width, shape[3]}, inputs[x].dtype(), inputs[x].device());
  resize_pixels(y.device(), axes_of(*this), inputs[x], 0, y);
  return y;
}

void Resize::backward(const Tensor& dy, const Saved<Resize>&, Grads& grads) const {
  grads[x] = Tensor::empty({dy.shape()[0], height, width, dy.shape()[3]}, dy.dtype(), dy.device());
  resize_gradient(dy.device(), axes_of(*this), dy, grads[x]);
}

void Resize::rematerialize(const RematInputs<Resize>& from, const Tensor& out) const {
  resize_pixels(out.device(), axes_of(*this), from.get<input(x)>(), from.first_row(), out);
}

}  // namespace lacuna
