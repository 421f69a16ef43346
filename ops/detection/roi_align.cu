#include "ops/detection/roi_align_cuda.h"

#include "core/block.h"
#include "ops/cuda/elements.h"
#include "ops/detection/roi_axis.h"

namespace lacuna::cuda {
namespace {

using Axis = RoiAxis<float>;

LACUNA_DEVICE inline Axis down_of(const RoiCall& what, std::int64_t r) {
  return Axis::of(what.boxes[4 * r + 1], what.boxes[4 * r + 3], what.scale, what.bins, what.samples, what.aligned,
                  what.height);
}
LACUNA_DEVICE inline Axis across_of(const RoiCall& what, std::int64_t r) {
  return Axis::of(what.boxes[4 * r], what.boxes[4 * r + 2], what.scale, what.bins, what.samples, what.aligned,
                  what.width);
}
LACUNA_DEVICE inline float samples_of(const Axis& down, const Axis& across) {
  const std::int32_t count = down.grid * across.grid;
  return static_cast<float>(count > 1 ? count : 1);
}

/// A thread has eight channels of a bin; its neighbours have the next bins, which lie one after another.
template <class T>
struct Bins {
  static constexpr int threads = 256;
  RoiCall what;
  const void* map;
  std::int64_t first_row, rows;
  T* y;
  LACUNA_DEVICE void operator()(const Block<Bins>& block) const {
    const std::int64_t cells = static_cast<std::int64_t>(what.bins) * what.bins, units = (what.channels + 7) / 8;
    const std::int64_t row = block.global_thread() / (cells * units), r = first_row + row;
    if (row >= rows || what.places[2 * r] != what.number) return;
    const std::int64_t c = block.global_thread() / cells % units * 8, cell = block.global_thread() % cells;
    const Axis down = down_of(what, r), across = across_of(what, r);
    const std::int64_t image = what.places[2 * r + 1] * what.height;
    const Kept<T> values(map, 0);  // rows take no count
    Eight sum{};
    for (std::int32_t i = 0; i < down.grid; ++i) {
      const Axis::Taps h = down.taps(static_cast<std::int32_t>(cell) / what.bins, i);
      if (!h.inside) continue;
      for (std::int32_t j = 0; j < across.grid; ++j) {
        const Axis::Taps w = across.taps(static_cast<std::int32_t>(cell) % what.bins, j);
        if (!w.inside) continue;
        const std::int64_t above = (image + h.low) * what.width, below = (image + h.high) * what.width;
        add(sum, values.at_row(above + w.low, what.channels, c), (1 - h.high_weight) * (1 - w.high_weight));
        add(sum, values.at_row(above + w.high, what.channels, c), (1 - h.high_weight) * w.high_weight);
        add(sum, values.at_row(below + w.low, what.channels, c), h.high_weight * (1 - w.high_weight));
        add(sum, values.at_row(below + w.high, what.channels, c), h.high_weight * w.high_weight);
      }
    }
    const float samples = samples_of(down, across);
#pragma unroll
    for (int k = 0; k < 8; ++k)
      if (c + k < what.channels) y[(row * what.channels + c + k) * cells + cell] = static_cast<T>(sum[k] / samples);
  }
  LACUNA_DEVICE static void add(Eight& sum, const Eight& values, float weight) {
#pragma unroll
    for (int k = 0; k < 8; ++k) sum[k] += weight * values[k];
  }
};

/// A thread has eight channels of a place, and reads the boxes in order; its neighbours have the next places.
template <class T>
struct RoiGradient {
  static constexpr int threads = 256;
  RoiCall what;
  const T* dy;
  void* dmap;
  LACUNA_DEVICE void operator()(const Block<RoiGradient>& block) const {
    const std::int64_t pixels = static_cast<std::int64_t>(what.height) * what.width, units = (what.channels + 7) / 8;
    const std::int64_t image = block.global_thread() / (pixels * units), pixel = block.global_thread() % pixels;
    if (image >= what.images) return;
    const std::int64_t c = block.global_thread() / pixels % units * 8;
    const std::int64_t cells = static_cast<std::int64_t>(what.bins) * what.bins;
    const auto h = static_cast<std::int32_t>(pixel / what.width), w = static_cast<std::int32_t>(pixel % what.width);
    Eight sum{};
    for (std::int64_t r = 0; r < what.count; ++r) {
      if (what.places[2 * r] != what.number || what.places[2 * r + 1] != image) continue;
      const Axis down = down_of(what, r), across = across_of(what, r);
      for (std::int32_t p = 0; p < what.bins; ++p) {
        if (!down.reaches(p, h)) continue;
        const float high = down.weight_of(p, h) / samples_of(down, across);
        if (high == 0) continue;
        for (std::int32_t q = 0; q < what.bins; ++q) {
          if (!across.reaches(q, w)) continue;
          const float weight = high * across.weight_of(q, w);
          const T* const from = dy + (r * what.channels + c) * cells + p * what.bins + q;
#pragma unroll
          for (int k = 0; k < 8; ++k)
            if (weight != 0 && c + k < what.channels) sum[k] += weight * to_compute(from[k * cells]);
        }
      }
    }
    Written<T>(dmap, 0).set_row(image * pixels + pixel, what.channels, c, sum);
  }
};

}  // namespace

void align_rois(Stream stream, DType type, const RoiCall& what, const void* map, std::int64_t first_row,
                std::int64_t rows, void* y) {
  const std::int64_t units = rows * divide_up(what.channels, 8) * what.bins * what.bins;
  with_cuda_type(type, [&]<class T>(Type<T>) {
    run(stream, divide_up(units, Bins<T>::threads), Bins<T>{what, map, first_row, rows, static_cast<T*>(y)});
  });
}

void roi_gradient(Stream stream, DType type, const RoiCall& what, const void* dy, void* dmap) {
  const std::int64_t units = what.images * divide_up(what.channels, 8) * what.height * what.width;
  with_cuda_type(type, [&]<class T>(Type<T>) {
    run(stream, divide_up(units, RoiGradient<T>::threads), RoiGradient<T>{what, static_cast<const T*>(dy), dmap});
  });
}

}  // namespace lacuna::cuda
