#include "ops/pooling/pool.h"

#include "core/parallel.h"
#include "ops/operand.h"
#include "ops/pooling/pool_kernels.h"
#include "ops/quantize/bit_planes.h"

#include <bit>

namespace lacuna {
namespace {

const RegisterOp<MaxPool2d> max_pool;
const RegisterOp<AvgPool2d> avg_pool;
const RegisterOp<GlobalAvgPool> global_avg_pool;

Shape in_shape(const Windows& w) { return {w.images, w.height, w.width, w.channels}; }
Shape out_shape(const Windows& w) { return {w.images, w.out_height(), w.out_width(), w.channels}; }

/// Places [begin, end) of an axis that window `index` covers inside the image.
Range covered(const Windows& w, std::int64_t index, std::int64_t extent) {
  const std::int64_t first = index * w.stride - w.padding;
  return {std::max<std::int64_t>(first, 0), std::min(first + w.kernel, extent)};
}
/// Windows [begin, end) of an axis that cover place `place`.
Range covering(const Windows& w, std::int64_t place, std::int64_t extent) {
  const std::int64_t before = place + w.padding - w.kernel;  // the last window start that ends too early
  return {before < 0 ? 0 : before / w.stride + 1, std::min((place + w.padding) / w.stride + 1, w.out(extent))};
}

bool takes_partial_windows(const MaxPool2d&) { return false; }
bool takes_partial_windows(const AvgPool2d& op) { return op.ceil_mode; }

template <class Op>
Windows windows_of(const Op& op, std::int64_t images, std::int64_t channels) {
  return {images, op.height, op.width, channels, op.kernel, op.stride, op.padding, takes_partial_windows(op)};
}

template <class Op>
Windows checked_windows(const Op& op, const Tensor& x) {
  const Shape& shape = x.shape();
  expect(shape.rank() == 4 && shape[1] == op.height && shape[2] == op.width,
         "{}: expected images [N, {}, {}, C], got {}", Op::name, op.height, op.width, shape);
  expect(op.kernel > 0 && op.kernel <= 16 && op.stride > 0 && op.padding >= 0 && 2 * op.padding <= op.kernel &&
             (op.kernel <= std::min(op.height, op.width) + 2 * op.padding || takes_partial_windows(op)),
         "{}: kernel {} (1 to 16, and no larger than the padded image), stride {} and padding {} (at most half the "
         "kernel) do not fit images of {}x{}",
         Op::name, op.kernel, op.stride, op.padding, op.height, op.width);
  return windows_of(op, shape[0], shape[3]);
}

/// Calls `f(image, row)` for all rows of all images, in parallel.
template <class F>
void for_image_rows(std::int64_t images, std::int64_t rows, F&& f) {
  parallel_tasks(images * rows, [&](std::int64_t task, int) { f(task / rows, task % rows); });
}

template <class T>
void max_pool_row(const Windows& w, const T* x, std::int64_t row, T* y, std::uint8_t* winner) {
  using S = Compute<T>;
  constexpr std::int64_t block = 64;  // channels compared at a time
  const Range vertical = covered(w, row, w.height);
  for (std::int64_t j = 0; j < w.out_width(); ++j) {
    const Range horizontal = covered(w, j, w.width);
    for (std::int64_t begin = 0; begin < w.channels; begin += block) {
      const std::int64_t count = std::min(block, w.channels - begin);
      S best[block];
      std::int32_t at[block];
      bool first = true;
      for (std::int64_t h = vertical.begin; h < vertical.end; ++h)
        for (std::int64_t v = horizontal.begin; v < horizontal.end; ++v) {
          const T* const in = x + (h * w.width + v) * w.channels + begin;  // [count]
          const auto place =
              static_cast<std::int32_t>((h - row * w.stride + w.padding) * w.kernel + (v - j * w.stride + w.padding));
#pragma omp simd
          for (std::int64_t c = 0; c < count; ++c) {
            const S value = to_compute(in[c]);
            const bool wins = first || value > best[c] || value != value;  // NaN wins, so that it propagates
            best[c] = wins ? value : best[c];
            at[c] = wins ? place : at[c];
          }
          first = false;
        }
      T* const out = y + j * w.channels + begin;                     // [count]
      std::uint8_t* const places = winner + j * w.channels + begin;  // [count]
#pragma omp simd
      for (std::int64_t c = 0; c < count; ++c) out[c] = static_cast<T>(best[c]);
#pragma omp simd
      for (std::int64_t c = 0; c < count; ++c) places[c] = static_cast<std::uint8_t>(at[c]);
    }
  }
}

/// One row of dx, summed over the windows that cover each place, so that no two threads write one element.
template <class T, class Term>
void gather_row(const Windows& w, std::int64_t row, T* dx, const Term& term) {
  using S = Compute<T>;
  constexpr std::int64_t block = 64;  // channels summed at a time
  const Range vertical = covering(w, row, w.height);
  for (std::int64_t v = 0; v < w.width; ++v) {
    const Range horizontal = covering(w, v, w.width);
    for (std::int64_t begin = 0; begin < w.channels; begin += block) {
      const std::int64_t count = std::min(block, w.channels - begin);
      S sum[block] = {};
      for (std::int64_t i = vertical.begin; i < vertical.end; ++i)
        for (std::int64_t j = horizontal.begin; j < horizontal.end; ++j)
          term(i, j, (row - i * w.stride + w.padding) * w.kernel + (v - j * w.stride + w.padding), begin, count, sum);
      T* const out = dx + v * w.channels + begin;  // [count]
#pragma GCC ivdep
      for (std::int64_t c = 0; c < count; ++c) out[c] = static_cast<T>(sum[c]);
    }
  }
}

/// Bits for the number of a place in a window.
int place_bits(const Windows& w) {
  return std::max(1, static_cast<int>(std::bit_width(static_cast<std::uint64_t>(w.kernel * w.kernel - 1))));
}
/// Bytes of the packed places of one row of windows.
std::int64_t winner_bytes(const Windows& w) { return quant::packed_bytes(w.out_width() * w.channels, place_bits(w)); }
/// Largest number of rows of windows that cover a row of the image.
std::int64_t rows_covering(const Windows& w) { return (w.kernel - 1) / w.stride + 1; }

/// `unpacked`: [threads, rows_covering, OW, C].
template <class T>
void gather_maxima(const Windows& w, const T* dy, const std::uint8_t* winner, std::uint8_t* unpacked, T* dx) {
  const std::int64_t out_row = w.out_width() * w.channels, bytes = winner_bytes(w);
  parallel_tasks(w.images * w.height, [&](std::int64_t task, int thread) {
    const std::int64_t image = task / w.height, row = task % w.height, out_image = image * w.out_height();
    const Range vertical = covering(w, row, w.height);
    std::uint8_t* const places = unpacked + thread * rows_covering(w) * out_row;  // of rows `vertical`
    for (std::int64_t i = vertical.begin; i < vertical.end; ++i)
      quant::unpack_row(winner + (out_image + i) * bytes, out_row, place_bits(w),
                        places + (i - vertical.begin) * out_row);
    gather_row(w, row, dx + task * w.width * w.channels,
               [&](std::int64_t i, std::int64_t j, std::int64_t place, std::int64_t begin, std::int64_t count,
                   Compute<T>* sum) {
                 const std::int64_t offset = j * w.channels + begin;
                 const T* const gradient = dy + (out_image + i) * out_row + offset;
                 const std::uint8_t* const at = places + (i - vertical.begin) * out_row + offset;
                 const auto wanted = static_cast<std::uint8_t>(place);
#pragma omp simd
                 for (std::int64_t c = 0; c < count; ++c)
                   sum[c] += at[c] == wanted ? to_compute(gradient[c]) : Compute<T>{};
               });
  });
}

/// One over the divisor of the window at (i, j).
template <class S>
S share(const Windows& w, bool count_include_pad, std::int64_t i, std::int64_t j) {
  if (count_include_pad) return S{1} / static_cast<S>(w.kernel * w.kernel);
  const Range vertical = covered(w, i, w.height), horizontal = covered(w, j, w.width);
  return S{1} / static_cast<S>((vertical.end - vertical.begin) * (horizontal.end - horizontal.begin));
}

template <class T>
void max_forward_on_cpu(const Windows& w, const T* x, std::uint8_t* unpacked, T* y, std::uint8_t* winners) {
  const std::int64_t out_row = w.out_width() * w.channels, bytes = winner_bytes(w);
  parallel_tasks(w.images * w.out_height(), [&](std::int64_t task, int thread) {
    const std::int64_t image = task / w.out_height();
    std::uint8_t* const places = unpacked + thread * out_row;
    max_pool_row(w, x + image * w.height * w.width * w.channels, task % w.out_height(), y + task * out_row, places);
    quant::pack_row(places, out_row, place_bits(w), winners + task * bytes);
  });
}

template <class T>
void avg_forward_on_cpu(const Windows& w, bool count_include_pad, const T* x, T* y) {
  using S = Compute<T>;
  constexpr std::int64_t block = 64;  // channels summed at a time
  for_image_rows(w.images, w.out_height(), [&](std::int64_t image, std::int64_t row) {
    const T* const from = x + image * w.height * w.width * w.channels;              // [H, W, C]
    T* const to = y + (image * w.out_height() + row) * w.out_width() * w.channels;  // [OW, C]
    const Range vertical = covered(w, row, w.height);
    for (std::int64_t j = 0; j < w.out_width(); ++j) {
      const Range horizontal = covered(w, j, w.width);
      const S factor = share<S>(w, count_include_pad, row, j);
      for (std::int64_t begin = 0; begin < w.channels; begin += block) {
        const std::int64_t count = std::min(block, w.channels - begin);
        S sum[block] = {};
        for (std::int64_t h = vertical.begin; h < vertical.end; ++h)
          for (std::int64_t v = horizontal.begin; v < horizontal.end; ++v)
#pragma omp simd
            for (std::int64_t c = 0; c < count; ++c)
              sum[c] += to_compute(from[(h * w.width + v) * w.channels + begin + c]);
#pragma GCC ivdep
        for (std::int64_t c = 0; c < count; ++c) to[j * w.channels + begin + c] = static_cast<T>(sum[c] * factor);
      }
    }
  });
}

template <class T>
void avg_backward_on_cpu(const Windows& w, bool count_include_pad, const T* dy, T* dx) {
  for_image_rows(w.images, w.height, [&](std::int64_t image, std::int64_t row) {
    const T* const from = dy + image * w.out_height() * w.out_width() * w.channels;  // [OH, OW, C]
    gather_row(
        w, row, dx + (image * w.height + row) * w.width * w.channels,
        [&](std::int64_t i, std::int64_t j, std::int64_t, std::int64_t begin, std::int64_t count, Compute<T>* sum) {
          const auto factor = share<Compute<T>>(w, count_include_pad, i, j);
          const T* const window = from + (i * w.out_width() + j) * w.channels + begin;  // [count]
#pragma omp simd
          for (std::int64_t c = 0; c < count; ++c) sum[c] += to_compute(window[c]) * factor;
        });
  });
}

/// The extents of global pooling: x is [images, places, channels].
struct Places {
  std::int64_t images, places, channels;
  explicit Places(const Shape& x)
      : images(x.front()), places(x.count() / std::max<std::int64_t>(images * x.back(), 1)), channels(x.back()) {}
};

template <class T>
void global_forward_on_cpu(const Places& p, const T* x, Compute<T>* sums, T* y) {
  using S = Compute<T>;
  parallel_tasks(p.images, [&](std::int64_t image, int thread) {
    const T* const from = x + image * p.places * p.channels;  // [places, C]
    S* const sum = sums + thread * p.channels;                // [C]
    std::fill_n(sum, p.channels, S{});
    for (std::int64_t place = 0; place < p.places; ++place)
#pragma GCC ivdep
      for (std::int64_t c = 0; c < p.channels; ++c) sum[c] += to_compute(from[place * p.channels + c]);
    T* const to = y + image * p.channels;  // [C]
    for (std::int64_t c = 0; c < p.channels; ++c) to[c] = static_cast<T>(sum[c] / static_cast<S>(p.places));
  });
}

template <class T>
void global_backward_on_cpu(const Places& p, const T* dy, T* dx) {
  using S = Compute<T>;
  parallel_tasks(p.images, [&](std::int64_t image, int) {
    const T* const from = dy + image * p.channels;        // [C]
    T* const first = dx + image * p.places * p.channels;  // [places, C]
    for (std::int64_t c = 0; c < p.channels; ++c)
      first[c] = static_cast<T>(to_compute(from[c]) / static_cast<S>(p.places));
    for (std::int64_t place = 1; place < p.places; ++place) std::copy_n(first, p.channels, first + place * p.channels);
  });
}

const RegisterKernel cpu_max_forward{
    max_pool_forward, DeviceKind::cpu,
    [](const Windows& w, const Tensor& x, const Tensor& unpacked, const Tensor& y, const Tensor& winners) {
      with_float_type(x.dtype(), [&]<class T>(Type<T>) {
        max_forward_on_cpu(w, x.data<T>(), unpacked.data<std::uint8_t>(), y.data<T>(), winners.data<std::uint8_t>());
      });
    }};
const RegisterKernel cpu_max_backward{
    max_pool_backward, DeviceKind::cpu,
    [](const Windows& w, const Tensor& dy, const Tensor& winners, const Tensor& unpacked, const Tensor& dx) {
      with_float_type(dy.dtype(), [&]<class T>(Type<T>) {
        gather_maxima(w, dy.data<T>(), winners.data<std::uint8_t>(), unpacked.data<std::uint8_t>(), dx.data<T>());
      });
    }};
const RegisterKernel cpu_avg_forward{
    avg_pool_forward, DeviceKind::cpu, [](const Windows& w, bool count_include_pad, const Tensor& x, const Tensor& y) {
      with_float_type(x.dtype(),
                      [&]<class T>(Type<T>) { avg_forward_on_cpu(w, count_include_pad, x.data<T>(), y.data<T>()); });
    }};
const RegisterKernel cpu_avg_backward{avg_pool_backward, DeviceKind::cpu,
                                      [](const Windows& w, bool count_include_pad, const Tensor& dy, const Tensor& dx) {
                                        with_float_type(dy.dtype(), [&]<class T>(Type<T>) {
                                          avg_backward_on_cpu(w, count_include_pad, dy.data<T>(), dx.data<T>());
                                        });
                                      }};
const RegisterKernel cpu_global_forward{
    global_avg_pool_forward, DeviceKind::cpu, [](const Tensor& x, const Tensor& sums, const Tensor& y) {
      with_float_type(x.dtype(), [&]<class T>(Type<T>) {
        global_forward_on_cpu(Places(x.shape()), x.data<T>(), sums.data<Compute<T>>(), y.data<T>());
      });
    }};
const RegisterKernel cpu_global_backward{global_avg_pool_backward, DeviceKind::cpu,
                                         [](const Tensor& dy, const Tensor& dx) {
                                           with_float_type(dy.dtype(), [&]<class T>(Type<T>) {
                                             global_backward_on_cpu(Places(dx.shape()), dy.data<T>(), dx.data<T>());
                                           });
                                         }};

}  // namespace

Tensor MaxPool2d::forward(std::span<const Tensor> inputs, std::vector<Tensor>& extra_outputs) const {
  const Tensor& in = inputs[x];
  const Windows w = checked_windows(*this, in);
  Tensor y = Tensor::empty(out_shape(w), in.dtype(), in.device());
  extra_outputs = {Tensor::empty({w.images, w.out_height(), winner_bytes(w)}, DType::u8, in.device())};
  const Tensor unpacked =
      Tensor::empty({threads(), w.out_width() * w.channels}, DType::u8, in.device(), Purpose::workspace);
  max_pool_forward(in.device(), w, in, unpacked, y, extra_outputs[0]);
  return y;
}
void MaxPool2d::backward(Tensor dy, const Saved<MaxPool2d>& saved, Grads& grads) const {
  const Windows w = windows_of(*this, dy.shape().front(), dy.shape().back());
  const Tensor winners = saved.get<extra_output(0)>().whole();
  grads[x] = Tensor::empty(in_shape(w), dy.dtype(), dy.device());
  const Tensor unpacked = Tensor::empty({threads(), rows_covering(w), w.out_width() * w.channels}, DType::u8,
                                        dy.device(), Purpose::workspace);
  max_pool_backward(dy.device(), w, dy, winners, unpacked, grads[x]);
}

Tensor AvgPool2d::forward(std::span<const Tensor> inputs) const {
  const Tensor& in = inputs[x];
  expect(!ceil_mode || !count_include_pad, "{}: ceil_mode with count_include_pad is not computed", name);
  const Windows w = checked_windows(*this, in);
  Tensor y = Tensor::empty(out_shape(w), in.dtype(), in.device());
  avg_pool_forward(in.device(), w, count_include_pad, in, y);
  return y;
}
void AvgPool2d::backward(Tensor dy, const Saved<AvgPool2d>&, Grads& grads) const {
  const Windows w = windows_of(*this, dy.shape().front(), dy.shape().back());
  grads[x] = Tensor::empty(in_shape(w), dy.dtype(), dy.device());
  avg_pool_backward(dy.device(), w, count_include_pad, dy, grads[x]);
}

Tensor GlobalAvgPool::forward(std::span<const Tensor> inputs) const {
  const Tensor& in = inputs[x];
  expect(in.shape() == shape && shape.rank() >= 3 && in.count() > 0, "{}: expected {} with a middle axis, got {}", name,
         shape, in.shape());
  Tensor y = Tensor::empty({shape.front(), shape.back()}, in.dtype(), in.device());
  const Tensor sums =
      Tensor::empty({threads(), shape.back()}, compute_type(in.dtype()), in.device(), Purpose::workspace);
  global_avg_pool_forward(in.device(), in, sums, y);
  return y;
}
void GlobalAvgPool::backward(Tensor dy, const Saved<GlobalAvgPool>&, Grads& grads) const {
  grads[x] = Tensor::empty(shape, dy.dtype(), dy.device());
  global_avg_pool_backward(dy.device(), dy, grads[x]);
}

}  // namespace lacuna
