// Depthwise convolution on the CPU. A tile of outputs of one row stays in registers while vectors run over the
// channels, so that memory is read in order.
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

template <int number>
using Constant = std::integral_constant<int, number>;
/// A vector's channels, as a constant, so that whole vectors are loaded without a test.
template <class C>
using Lanes = std::integral_constant<std::int64_t, lanes<C>>;

/// Outputs [first, first + width) of row `i`, those beyond the row left out. The window has `kernel` rows and columns
/// (0: as the shape says) and moves by `stride`.
template <class T, int kernel, int stride, int width>
class Tile {
  using C = Compute<T>;

 public:
  Tile(const DepthwiseShape& s, std::int64_t i, std::int64_t first)
      : s_(s), i_(i), first_(first), outputs_(std::min<std::int64_t>(width, s.out_width - first)) {
    for (int c = 0; c < reach(); ++c) {
      const std::int64_t own = s.column_at(first * stride + c - s.left);
      places_[c] = own < 0 ? -1 : own * s.channels;
    }
  }

  /// y = bias + x * taps for `count` channels; added to y if `add`. x: the image, y: its row of outputs, each from the
  /// first of these channels on, as `taps` and `bias`.
  void forward(const T* x, const C* taps, const C* bias, T* y, bool add, auto count) const {
    const Vector<C> start = bias == nullptr ? Vector<C>{} : tile::load_as(bias, count);
    Vector<C> sums[width];
    for (Vector<C>& sum : sums) sum = start;
    for (std::int64_t p = 0; p < window(); ++p) {
      const T* const row = row_of(x, p);
      if (row == nullptr) continue;
      Vector<C> weights[most];
      for (int q = 0; q < window(); ++q) weights[q] = tile::load_as(taps + (p * window() + q) * s_.channels, count);
      for_columns([&](auto c) {
        const Vector<C> pixel = tile::load_as(row + places_[c], count);
#pragma GCC unroll 16
        for (int t = 0; t < width; ++t)
          if (c >= t * stride && c - t * stride < window()) sums[t] += pixel * weights[c - t * stride];
      });
    }
#pragma GCC unroll 16
    for (int t = 0; t < width; ++t)
      if (t < outputs_) {
        T* const to = y + (first_ + t) * s_.channels;
        tile::store_as(to, add ? tile::load_as(to, count) + sums[t] : sums[t], count);
      }
  }

  /// Adds the products of the outputs' gradients with the pixels of their windows to `sums` [window, window], vectors
  /// of channels `pitch` elements apart. dy: the row of gradients.
  void weight_sums(const T* x, const T* dy, C* sums, std::int64_t pitch, auto count) const {
    Vector<C> gradient[width];
#pragma GCC unroll 16
    for (int t = 0; t < width; ++t)
      gradient[t] = t < outputs_ ? tile::load_as(dy + (first_ + t) * s_.channels, count) : Vector<C>{};
    for (std::int64_t p = 0; p < window(); ++p) {
      const T* const row = row_of(x, p);
      if (row == nullptr) continue;
      Vector<C> own[most];
      for (int q = 0; q < window(); ++q) own[q] = tile::load(sums + (p * window() + q) * pitch);
      for_columns([&](auto c) {
        const Vector<C> pixel = tile::load_as(row + places_[c], count);
#pragma GCC unroll 16
        for (int t = 0; t < width; ++t)
          if (c >= t * stride && c - t * stride < window()) own[c - t * stride] += pixel * gradient[t];
      });
      for (int q = 0; q < window(); ++q) tile::store(sums + (p * window() + q) * pitch, own[q]);
    }
  }

 private:
  static constexpr int most = kernel == 0 ? 16 : kernel;

  int window() const { return kernel == 0 ? static_cast<int>(s_.kernel) : kernel; }
  int reach() const { return (width - 1) * stride + window(); }
  const T* row_of(const T* x, std::int64_t p) const {
    const std::int64_t own = s_.row_at(i_ * stride + p - s_.top);
    return own < 0 ? nullptr : x + own * s_.width * s_.channels;
  }
  /// Calls `f(c)` for the columns that have a pixel; unrolled if the window is known, so that sums stay in registers.
  template <class F>
  [[gnu::always_inline]] void for_columns(const F& f) const {
    if constexpr (kernel == 0) {
      for (int c = 0; c < reach(); ++c)
        if (places_[c] >= 0) f(c);
    } else {
      [&]<int... c>(std::integer_sequence<int, c...>) { ((places_[c] >= 0 ? f(Constant<c>{}) : void()), ...); }
      (std::make_integer_sequence<int, (width - 1) * stride + kernel>{});
    }
  }

  const DepthwiseShape& s_;
  std::int64_t i_, first_, outputs_;
  std::int64_t places_[(width - 1) * stride + most];  // of the pixels in an image's row, in elements; negative: zeros
};

/// Calls `f` with the window's width, the stride and the outputs of a tile.
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

/// Calls `f(channel, count)` for vectors of channels [first, last).
template <class C, class F>
[[gnu::always_inline]] inline void for_channels(std::int64_t first, std::int64_t last, const F& f) {
  for (; first + lanes<C> <= last; first += lanes<C>) f(first, Lanes<C>{});
  if (first < last) f(first, last - first);
}

void forward(const DepthwiseShape& s, const Tensor& x, const Tensor& taps, const Tensor& bias, const Tensor& y,
             bool add) {
  with_float_type(x.dtype(), [&]<class T>(Type<T>) {
    using C = Compute<T>;
    const C* const start = bias.defined() ? bias.data<C>() : nullptr;  // [C]
    with_tile(s, [&]<int kernel, int stride, int width>(Constant<kernel>, Constant<stride>, Constant<width>) {
      parallel_tasks(s.images * s.out_height, [&](std::int64_t task, std::int64_t) {
        const T* const image = x.data<T>() + task / s.out_height * s.height * s.width * s.channels;
        T* const row = y.data<T>() + task * s.out_width * s.channels;
        for (std::int64_t first = 0; first < s.out_width; first += width) {
          const Tile<T, kernel, stride, width> tile(s, task % s.out_height, first);
          for_channels<C>(0, s.channels, [&](std::int64_t c, auto count) {
            tile.forward(image + c, taps.data<C>() + c, start == nullptr ? start : start + c, row + c, add, count);
          });
        }
      });
    });
  });
}

void weight_sums(const DepthwiseShape& s, const Tensor& x, const Tensor& dy, std::int64_t first, const Tensor& sums) {
  const std::int64_t parts = sums.shape()[0], window = s.kernel * s.kernel;
  with_float_type(x.dtype(), [&]<class T>(Type<T>) {
    using C = Compute<T>;
    constexpr std::int64_t group = 4 * lanes<C>;  // channels whose sums stay in the first cache
    const std::int64_t groups = (s.channels + group - 1) / group;
    with_tile(s, [&]<int kernel, int stride, int width>(Constant<kernel>, Constant<stride>, Constant<width>) {
      parallel_tasks(groups * parts, [&](std::int64_t task, std::int64_t) {
        const std::int64_t part = task % parts, begin = task / parts * group, end = std::min(begin + group, s.channels);
        std::vector<C> own(static_cast<std::size_t>(window * group));  // [window, group], sums of one image
        for (std::int64_t n = (part + parts - first % parts) % parts; n < s.images; n += parts) {
          const T* const image = x.data<T>() + n * s.height * s.width * s.channels;
          std::ranges::fill(own, C{0});
          for (std::int64_t i = 0; i < s.out_height; ++i) {
            const T* const gradients = dy.data<T>() + (n * s.out_height + i) * s.out_width * s.channels;
            for (std::int64_t j = 0; j < s.out_width; j += width) {
              const Tile<T, kernel, stride, width> tile(s, i, j);
              for_channels<C>(begin, end, [&](std::int64_t c, auto count) {
                tile.weight_sums(image + c, gradients + c, own.data() + (c - begin), group, count);
              });
            }
          }
          for (std::int64_t tap = 0; tap < window; ++tap) {
            C* const to = sums.data<C>() + (part * window + tap) * s.channels;  // [C]
            for (std::int64_t c = begin; c < end; ++c) to[c] += own[static_cast<std::size_t>(tap * group + c - begin)];
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
