#include "ops/convolution/depthwise_conv_cuda.h"

#include "core/block.h"
#include "ops/cuda/elements.h"

namespace lacuna::cuda {
namespace {

struct Taps {
  static constexpr int threads = 256;
  DepthwiseTaps what;
  LACUNA_DEVICE void operator()(const Block<Taps>& block) const {
    const std::int64_t e = block.global_thread();
    if (e >= what.count * what.channels) return;
    const std::int64_t tap = e / what.channels, c = e % what.channels;
    what.taps[e] = what.weights[c * what.count + (what.flipped ? what.count - 1 - tap : tap)];
  }
};

/// Taps of a window of one axis that meet the image's own pixels: begin, begin + spread and so on before end. `first`:
/// the pixel that tap `begin` meets.
struct Inside {
  std::int32_t begin, end, first;
  LACUNA_DEVICE Inside(std::int32_t start, const DepthwiseExtents& s, std::int64_t extent) {
    const auto spread = static_cast<std::int32_t>(s.spread), all = static_cast<std::int32_t>(s.kernel);
    first = start < 0 ? 0 : (start + spread - 1) / spread;
    begin = first * spread - start;
    const std::int32_t behind = static_cast<std::int32_t>((extent - 1) * spread + 1) - start;
    end = behind < all ? behind : all;
  }
};

/// A thread has eight channels of an output.
template <class T>
struct Forward {
  static constexpr int threads = 128;
  DepthwiseForward what;
  Kept<T> x;
  Kept<float> taps, bias;
  Written<T> y;
  LACUNA_DEVICE void operator()(const Block<Forward>& block) const {
    const DepthwiseExtents& s = what.of;
    const std::int64_t units = (s.channels + 7) / 8, pixel = block.global_thread() / units;
    if (pixel >= s.images * s.out_height * s.out_width) return;
    const std::int64_t c = block.global_thread() % units * 8, line = pixel / s.out_width;
    const auto i = static_cast<std::int32_t>(line % s.out_height), j = static_cast<std::int32_t>(pixel % s.out_width);
    const auto stride = static_cast<std::int32_t>(s.stride), spread = static_cast<std::int32_t>(s.spread);
    const Inside rows(i * stride - static_cast<std::int32_t>(s.top), s, s.height),
        columns(j * stride - static_cast<std::int32_t>(s.left), s, s.width);
    Eight sum = what.bias != nullptr ? bias.at_row(0, s.channels, c) : Eight{};
    std::int64_t from = (line / s.out_height * s.height + rows.first) * s.width + columns.first;
    for (std::int32_t p = rows.begin; p < rows.end; p += spread, from += s.width)
      for (std::int32_t q = columns.begin, place = 0; q < columns.end; q += spread, ++place) {
        const Eight values = x.at_row(from + place, s.channels, c);
        const Eight weights = taps.at_row(p * s.kernel + q, s.channels, c);
#pragma unroll
        for (int k = 0; k < 8; ++k) sum[k] += values[k] * weights[k];
      }
    if (what.add)
      y.add_row(pixel, s.channels, c, sum);
    else
      y.set_row(pixel, s.channels, c, sum);
  }
};

/// The first window whose tap at `offset` of its begin lies in the image.
LACUNA_DEVICE inline std::int64_t first_window(std::int64_t offset, std::int64_t stride) {
  return offset < 0 ? (stride - 1 - offset) / stride : 0;
}

/// A thread has eight channels of a tap of a part.
template <class T>
struct Sums {
  static constexpr int threads = 64;
  DepthwiseSums what;
  Kept<T> x, dy;
  Written<float> sums;
  LACUNA_DEVICE void operator()(const Block<Sums>& block) const {
    const DepthwiseExtents& s = what.of;
    const std::int64_t units = (s.channels + 7) / 8, row = block.global_thread() / units;
    if (row >= what.parts * s.kernel * s.kernel) return;
    const std::int64_t c = block.global_thread() % units * 8, part = row / (s.kernel * s.kernel);
    const std::int64_t tap = row % (s.kernel * s.kernel), down = tap / s.kernel - s.top,
                       across = tap % s.kernel - s.left;
    Eight sum = sums.at_row(row, s.channels, c);
    for (std::int64_t n = (part + what.parts - what.first % what.parts) % what.parts; n < s.images; n += what.parts) {
      Eight own{};
      for (std::int64_t i = first_window(down, s.stride); i < s.out_height && i * s.stride + down < s.height; ++i)
        for (std::int64_t j = first_window(across, s.stride); j < s.out_width && j * s.stride + across < s.width; ++j) {
          const Eight values =
              x.at_row((n * s.height + i * s.stride + down) * s.width + j * s.stride + across, s.channels, c);
          const Eight gradients = dy.at_row((n * s.out_height + i) * s.out_width + j, s.channels, c);
#pragma unroll
          for (int k = 0; k < 8; ++k) own[k] += values[k] * gradients[k];
        }
#pragma unroll
      for (int k = 0; k < 8; ++k) sum[k] += own[k];
    }
    sums.set_row(row, s.channels, c, sum);
  }
};

struct Gradient {
  static constexpr int threads = 256;
  DepthwiseGradient what;
  LACUNA_DEVICE void operator()(const Block<Gradient>& block) const {
    const std::int64_t e = block.global_thread();
    if (e >= what.count * what.channels) return;
    float sum = 0;
    for (std::int64_t part = 0; part < what.parts; ++part) sum += what.sums[part * what.count * what.channels + e];
    what.weights[e % what.channels * what.count + e / what.channels] = sum;
  }
};

}  // namespace

void depthwise_taps(Stream stream, const DepthwiseTaps& what) {
  run(stream, divide_up(what.count * what.channels, Taps::threads), Taps{what});
}

void depthwise_forward(Stream stream, DType type, const DepthwiseForward& what) {
  const DepthwiseExtents& s = what.of;
  const std::int64_t pixels = s.images * s.out_height * s.out_width;
  with_cuda_type(type, [&]<class T>(Type<T>) {
    run(stream, divide_up(pixels * divide_up(s.channels, 8), Forward<T>::threads),
        Forward<T>{.what = what,
                   .x = {what.x, s.images * s.height * s.width * s.channels},
                   .taps = {what.taps, s.kernel * s.kernel * s.channels},
                   .bias = {what.bias, s.channels},
                   .y = {what.y, pixels * s.channels}});
  });
}

void depthwise_sums(Stream stream, DType type, const DepthwiseSums& what) {
  const DepthwiseExtents& s = what.of;
  const std::int64_t rows = what.parts * s.kernel * s.kernel;
  with_cuda_type(type, [&]<class T>(Type<T>) {
    run(stream, divide_up(rows * divide_up(s.channels, 8), Sums<T>::threads),
        Sums<T>{.what = what,
                .x = {what.x, s.images * s.height * s.width * s.channels},
                .dy = {what.dy, s.images * s.out_height * s.out_width * s.channels},
                .sums = {what.sums, rows * s.channels}});
  });
}

void depthwise_gradient(Stream stream, const DepthwiseGradient& what) {
  run(stream, divide_up(what.count * what.channels, Gradient::threads), Gradient{what});
}

}  // namespace lacuna::cuda
