// Depthwise convolution on the CPU. Vectors run over channels; a tile of outputs of one row stays in registers.
#include "ops/convolution/depthwise_conv_kernels.h"

#include "core/parallel.h"
#include "ops/kernels/tile.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace lacuna {
namespace {

using tile::lanes;
using tile::Vector;

/// Pixels of one row that a tile reads: pointers to a vector of channels, to zeros beyond the image.
template <class T>
class RowPixels {
 public:
  explicit RowPixels(const DepthwiseShape& s) : s_(s), zeros_(static_cast<std::size_t>(lanes<Compute<T>>)) {}

  /// Pixel `column`, counted from the padded row's begin, of the row that starts at `row`.
  const T* at(const T* row, std::int64_t column) const {
    const std::int64_t own = s_.column_at(column - s_.left);
    return own >= 0 ? row + own * s_.channels : zeros_.data();
  }

 private:
  const DepthwiseShape& s_;
  std::vector<T> zeros_;
};

/// Kernels of `kernel` columns (0: as the shape says) `stride` apart, `width` outputs at a time, `count` channels from
/// a channel on.
template <class T, int kernel, int stride, int width>
class Tiles {
  using C = Compute<T>;

 public:
  Tiles(const DepthwiseShape& s, std::int64_t channel)
      : s_(s), channel_(channel), count_(std::min(lanes<C>, s.channels - channel)), pixels_(s) {}

  /// Outputs [first, first + width) of row `i`, those beyond the row left out; added to y if `add`. x: the image.
  void forward(const T* x, const C* taps, const Vector<C>& bias, std::int64_t i, std::int64_t first, T* y,
               bool add) const {
    Vector<C> sums[width];
    for (Vector<C>& sum : sums) sum = bias;
    for (std::int64_t p = 0; p < s_.kernel; ++p) {
      const std::int64_t own = s_.row_at(i * stride + p - s_.top);
      if (own < 0) continue;
      const T* const row = x + own * s_.width * s_.channels + channel_;
      Vector<C> weights[columns];
      for (int q = 0; q < window(); ++q)
        weights[q] = tile::load_as(taps + (p * s_.kernel + q) * s_.channels + channel_, count_);
      for_columns([&](auto c) {
        const Vector<C> pixel = tile::load_as(pixels_.at(row, first * stride + c), count_);
#pragma GCC unroll 16
        for (int t = 0; t < width; ++t)
          if (c >= t * stride && c - t * stride < window()) sums[t] += pixel * weights[c - t * stride];
      });
    }
    for (int t = 0; t < width && first + t < s_.out_width; ++t) {
      T* const to = y + (first + t) * s_.channels + channel_;
      tile::store_as(to, add ? tile::load_as(to, count_) + sums[t] : sums[t], count_);
    }
  }

  /// Adds the products of outputs [first, first + width) of dy's row `i` with row p of their windows to `sums`
  /// [kernel].
  void weight_sums(const T* x, const T* dy, std::int64_t i, std::int64_t p, std::int64_t first, Vector<C>* sums) const {
    const T* const row = x + s_.row_at(i * stride + p - s_.top) * s_.width * s_.channels + channel_;
    const T* const gradients = dy + i * s_.out_width * s_.channels + channel_;
    Vector<C> gradient[width];
#pragma GCC unroll 16
    for (int t = 0; t < width; ++t)
      gradient[t] =
          first + t < s_.out_width ? tile::load_as(gradients + (first + t) * s_.channels, count_) : Vector<C>{};
    for_columns([&](auto c) {
      const Vector<C> pixel = tile::load_as(pixels_.at(row, first * stride + c), count_);
#pragma GCC unroll 16
      for (int t = 0; t < width; ++t)
        if (c >= t * stride && c - t * stride < window()) sums[c - t * stride] += pixel * gradient[t];
    });
  }

  static constexpr int columns = kernel == 0 ? 16 : kernel;

 private:
  int window() const { return kernel == 0 ? static_cast<int>(s_.kernel) : kernel; }
  /// Calls `f(c)` for the columns that the tile reads; unrolled if the kernel is known, so that sums stay in registers.
  template <class F>
  [[gnu::always_inline]] void for_columns(const F& f) const {
    if constexpr (kernel == 0) {
      for (int c = 0; c < (width - 1) * stride + window(); ++c) f(c);
    } else {
      [&]<int... c>(std::integer_sequence<int, c...>) { (f(std::integral_constant<int, c>{}), ...); }
      (std::make_integer_sequence<int, (width - 1) * stride + kernel>{});
    }
  }

  const DepthwiseShape& s_;
  std::int64_t channel_, count_;
  RowPixels<T> pixels_;
};

template <int number>
using Constant = std::integral_constant<int, number>;

/// Calls `f` with the kernel's width, the stride and the outputs of a tile.
template <class F>
void with_tile(const DepthwiseShape& s, const F& f) {
  if (s.stride == 1) {
    if (s.kernel == 7) return f(Constant<7>{}, Constant<1>{}, Constant<6>{});
    if (s.kernel == 5) return f(Constant<5>{}, Constant<1>{}, Constant<6>{});
    if (s.kernel == 3) return f(Constant<3>{}, Constant<1>{}, Constant<8>{});
    return f(Constant<0>{}, Constant<1>{}, Constant<2>{});
  }
  if (s.kernel == 5) return f(Constant<5>{}, Constant<2>{}, Constant<4>{});
  if (s.kernel == 3) return f(Constant<3>{}, Constant<2>{}, Constant<4>{});
  f(Constant<0>{}, Constant<2>{}, Constant<2>{});
}

void forward(const DepthwiseShape& s, const Tensor& x, const Tensor& taps, const Tensor& bias, const Tensor& y,
             bool add) {
  with_float_type(x.dtype(), [&]<class T>(Type<T>) {
    using C = Compute<T>;
    with_tile(s, [&]<int kernel, int stride, int width>(Constant<kernel>, Constant<stride>, Constant<width>) {
      parallel_tasks(s.images * s.out_height, [&](std::int64_t task, std::int64_t) {
        const T* const image = x.data<T>() + task / s.out_height * s.height * s.width * s.channels;
        T* const row = y.data<T>() + task * s.out_width * s.channels;
        for (std::int64_t channel = 0; channel < s.channels; channel += lanes<C>) {
          const Tiles<T, kernel, stride, width> tiles(s, channel);
          const Vector<C> start =
              bias.defined() ? tile::load_as(bias.data<C>() + channel, s.channels - channel) : Vector<C>{};
          for (std::int64_t first = 0; first < s.out_width; first += width)
            tiles.forward(image, taps.data<C>(), start, task % s.out_height, first, row, add);
        }
      });
    });
  });
}

void weight_sums(const DepthwiseShape& s, const Tensor& x, const Tensor& dy, std::int64_t first, const Tensor& sums) {
  const std::int64_t parts = sums.shape()[0];
  with_float_type(x.dtype(), [&]<class T>(Type<T>) {
    using C = Compute<T>;
    const std::int64_t blocks = (s.channels + lanes<C> - 1) / lanes<C>;
    with_tile(s, [&]<int kernel, int stride, int width>(Constant<kernel>, Constant<stride>, Constant<width>) {
      // A run shorter than the parts leaves some without an image: parts come last, and each row of the window is a
      // task, so that every thread has a share.
      const std::int64_t rows = s.images < parts ? 1 : s.kernel;
      parallel_tasks(blocks * (s.kernel / rows) * parts, [&](std::int64_t task, std::int64_t) {
        const std::int64_t part = task % parts, channel = task / parts % blocks * lanes<C>;
        const std::int64_t top = task / parts / blocks * rows;
        const Tiles<T, kernel, stride, width> tiles(s, channel);
        for (std::int64_t n = (part + parts - first % parts) % parts; n < s.images; n += parts) {
          const T* const image = x.data<T>() + n * s.height * s.width * s.channels;
          const T* const gradients = dy.data<T>() + n * s.out_height * s.out_width * s.channels;
          for (std::int64_t p = top; p < top + rows; ++p) {
            C* const to = sums.data<C>() + (part * s.kernel + p) * s.kernel * s.channels + channel;  // [kernel, C]
            const std::int64_t count = s.channels - channel;
            Vector<C> own[Tiles<T, kernel, stride, width>::columns] = {};
            for (std::int64_t i = 0; i < s.out_height; ++i) {
              if (s.row_at(i * stride + p - s.top) < 0) continue;
              for (std::int64_t j = 0; j < s.out_width; j += width) tiles.weight_sums(image, gradients, i, p, j, own);
            }
            for (std::int64_t q = 0; q < s.kernel; ++q)
              tile::store_as(to + q * s.channels, tile::load_as(to + q * s.channels, count) + own[q], count);
          }
        }
      });
    });
  });
}

const RegisterKernel cpu_taps{
    depthwise_taps, DeviceKind::cpu, [](const Tensor& weight, bool flipped, const Tensor& taps) {
      with_compute_type(weight.dtype(), [&]<class C>(Type<C>) {
        const std::int64_t channels = weight.shape()[0], count = weight.count() / channels;
        for (std::int64_t c = 0; c < channels; ++c)
          for (std::int64_t i = 0; i < count; ++i)
            taps.data<C>()[(flipped ? count - 1 - i : i) * channels + c] = weight.data<C>()[c * count + i];
      });
    }};
const RegisterKernel cpu_forward{depthwise_forward, DeviceKind::cpu, forward};
const RegisterKernel cpu_weight_sums{depthwise_weight_sums, DeviceKind::cpu, weight_sums};
const RegisterKernel cpu_weight_gradient{
    depthwise_weight_gradient, DeviceKind::cpu, [](const Tensor& sums, const Tensor& dweight) {
      with_compute_type(sums.dtype(), [&]<class C>(Type<C>) {
        const std::int64_t channels = dweight.shape()[0], count = dweight.count() / channels;
        for (std::int64_t c = 0; c < channels; ++c)
          for (std::int64_t i = 0; i < count; ++i) {
            C sum = 0;
            for (std::int64_t part = 0; part < sums.shape()[0]; ++part)
              sum += sums.data<C>()[(part * count + i) * channels + c];
            dweight.data<C>()[c * count + i] = sum;
          }
      });
    }};

}  // namespace
}  // namespace lacuna
