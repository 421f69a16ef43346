#include "ops/shapes/resize_cuda.h"

#include "core/block.h"
#include "ops/cuda/elements.h"

namespace lacuna::cuda {
namespace {

/// A thread has eight channels of a pixel.
template <class T>
struct Pixels {
  static constexpr int threads = 256;
  ResizePixels what;
  LACUNA_DEVICE void operator()(const Block<Pixels>& block) const {
    const std::int64_t units = (what.channels + 7) / 8, row = block.global_thread() / units;
    if (row >= what.rows) return;
    const std::int64_t c = block.global_thread() % units * 8, pixel = what.first_row + row;
    const std::int64_t line = pixel / what.across.out, image = line / what.down.out;
    const ResampledAxis::Taps h = what.down.taps(static_cast<std::int32_t>(line % what.down.out));
    const ResampledAxis::Taps w = what.across.taps(static_cast<std::int32_t>(pixel % what.across.out));
    const Kept<T> x(what.x, 0);  // rows take no count
    const std::int64_t above = (image * what.down.extent + h.low) * what.across.extent,
                       below = (image * what.down.extent + h.high) * what.across.extent;
    Eight out = x.at_row(above + w.low, what.channels, c);
    if (what.down.resampling != Resampling::nearest) {
      const Eight right = x.at_row(above + w.high, what.channels, c), left = x.at_row(below + w.low, what.channels, c);
      const Eight last = x.at_row(below + w.high, what.channels, c);
      const float down = h.share<float>(), across = w.share<float>();
#pragma unroll
      for (int k = 0; k < 8; ++k)
        out[k] = (1 - down) * ((1 - across) * out[k] + across * right[k]) +
                 down * ((1 - across) * left[k] + across * last[k]);
    }
    Written<T>(what.y, 0).set_row(row, what.channels, c, out);
  }
};

/// A thread has eight channels of a place.
template <class T>
struct Gradient {
  static constexpr int threads = 256;
  ResizeGradient what;
  LACUNA_DEVICE void operator()(const Block<Gradient>& block) const {
    const std::int64_t units = (what.channels + 7) / 8, place = block.global_thread() / units;
    if (place >= what.images * what.down.extent * what.across.extent) return;
    const std::int64_t c = block.global_thread() % units * 8, line = place / what.across.extent;
    const auto h = static_cast<std::int32_t>(line % what.down.extent),
               w = static_cast<std::int32_t>(place % what.across.extent);
    const ResampledAxis::Range rows = what.down.readers(h), columns = what.across.readers(w);
    const Kept<T> dy(what.dy, 0);  // rows take no count
    Eight sum{};
    for (std::int32_t i = rows.begin; i < rows.end; ++i) {
      const float down = ResampledAxis::weight_of<float>(what.down.taps(i), h);
      for (std::int32_t j = columns.begin; j < columns.end; ++j) {
        const float share = down * ResampledAxis::weight_of<float>(what.across.taps(j), w);
        const std::int64_t pixel = (line / what.down.extent * what.down.out + i) * what.across.out + j;
        const Eight values = dy.at_row(pixel, what.channels, c);
#pragma unroll
        for (int k = 0; k < 8; ++k) sum[k] += share * values[k];
      }
    }
    Written<T>(what.dx, 0).set_row(place, what.channels, c, sum);
  }
};

}  // namespace

void resize_pixels(Stream stream, DType type, const ResizePixels& what) {
  const std::int64_t units = what.rows * divide_up(what.channels, 8);
  with_cuda_type(type, [&]<class T>(Type<T>) { run(stream, divide_up(units, Pixels<T>::threads), Pixels<T>{what}); });
}

void resize_gradient(Stream stream, DType type, const ResizeGradient& what) {
  const std::int64_t units = what.images * what.down.extent * what.across.extent * divide_up(what.channels, 8);
  with_cuda_type(type,
                 [&]<class T>(Type<T>) { run(stream, divide_up(units, Gradient<T>::threads), Gradient<T>{what}); });
}

}  // namespace lacuna::cuda
