#include "ops/detection/roi_align.h"

#include "core/parallel.h"
#include "ops/detection/roi_axis.h"
#include "ops/operand.h"

#include <array>
#include <cmath>
#include <utility>
#include <vector>

namespace lacuna {
namespace {

const RegisterOp<RoiAlign> roi_align_op;

constexpr std::int64_t channels_together = 64;
std::int64_t blocks_of(std::int64_t channels, std::int64_t together) { return (channels + together - 1) / together; }

/// The sides of a box on a map of h · w places.
template <class C>
struct RoiAxes {
  using Axis = RoiAxis<C>;
  Axis down, across;
  RoiAxes(const RoiAlign& op, std::int64_t number, const C* box, const Shape& map)
      : down(axis(op, number, box[1], box[3], map[1])), across(axis(op, number, box[0], box[2], map[2])) {}
  C samples() const { return static_cast<C>(std::max(down.grid * across.grid, 1)); }

 private:
  static Axis axis(const RoiAlign& op, std::int64_t number, C low, C high, std::int64_t extent) {
    return Axis::of(low, high, static_cast<C>(op.scales[static_cast<std::size_t>(number)]),
                    static_cast<std::int32_t>(op.bins), static_cast<std::int32_t>(op.samples), op.aligned,
                    static_cast<std::int32_t>(extent));
  }
};

/// Calls f(bin row, bin column, place, weight) for each place of the map that a bin of the box reads, in a fixed order.
template <class C, class F>
void for_each_tap(const RoiAxes<C>& axes, std::int32_t bins, std::int64_t width, const F& f) {
  for (std::int32_t p = 0; p < bins; ++p)
    for (std::int32_t q = 0; q < bins; ++q)
      for (std::int32_t i = 0; i < axes.down.grid; ++i)
        for (std::int32_t j = 0; j < axes.across.grid; ++j) {
          const auto h = axes.down.taps(p, i), w = axes.across.taps(q, j);
          if (!h.inside || !w.inside) continue;
          const C above = (1 - h.high_weight) / axes.samples(), below = h.high_weight / axes.samples();
          f(p * bins + q, h.low * width + w.low, above * (1 - w.high_weight));
          f(p * bins + q, h.low * width + w.high, above * w.high_weight);
          f(p * bins + q, h.high * width + w.low, below * (1 - w.high_weight));
          f(p * bins + q, h.high * width + w.high, below * w.high_weight);
        }
}

const RegisterKernel forward_on_cpu{
    roi_align_forward, DeviceKind::cpu,
    [](const RoiAlign& op, std::int64_t number, const Tensor& boxes, const Tensor& places, const Tensor& map,
       std::int64_t first_row, const Tensor& y) {
      const std::int64_t channels = map.shape()[3], cells = op.bins * op.bins, width = map.shape()[2];
      const auto* const place = places.data<const std::int64_t>();
      const std::int64_t image = map.shape()[1] * width * channels, blocks = blocks_of(channels, channels_together);
      with_float_type(y.dtype(), [&]<class T>(Type<T>) {
        using C = Compute<T>;
        parallel_for(
            y.shape()[0] * blocks, 1 + 4096 / cells / channels_together, [&](std::int64_t begin, std::int64_t end) {
              std::vector<C> sums(static_cast<std::size_t>(cells * channels_together));  // [cells, channels_together]
              for (std::int64_t task = begin; task < end; ++task) {
                const std::int64_t row = task / blocks, r = first_row + row, first = task % blocks * channels_together;
                if (place[2 * r] != number) continue;
                const std::int64_t here = std::min(channels_together, channels - first);
                const T* const from = map.data<const T>() + place[2 * r + 1] * image + first;
                std::fill(sums.begin(), sums.end(), C{});
                for_each_tap(RoiAxes<C>(op, number, boxes.data<const C>() + 4 * r, map.shape()),
                             static_cast<std::int32_t>(op.bins), width,
                             [&](std::int64_t cell, std::int64_t at, C weight) {
                               C* const sum = sums.data() + cell * channels_together;
                               const T* const values = from + at * channels;
#pragma GCC ivdep
                               for (std::int64_t c = 0; c < here; ++c) sum[c] += weight * to_compute(values[c]);
                             });
                T* const out = y.data<T>() + (row * channels + first) * cells;
                for (std::int64_t c = 0; c < here; ++c)
                  for (std::int64_t cell = 0; cell < cells; ++cell)
                    out[c * cells + cell] =
                        static_cast<T>(sums[static_cast<std::size_t>(cell * channels_together + c)]);
              }
            });
      });
    }};

/// A task has some channels of an image's map, so that sums need no other thread.
const RegisterKernel backward_on_cpu{
    roi_align_backward, DeviceKind::cpu,
    [](const RoiAlign& op, std::int64_t number, const Tensor& boxes, const Tensor& places, const Tensor& dy,
       const Tensor& dmap) {
      constexpr std::int64_t together = 16;
      const std::int64_t channels = dmap.shape()[3], cells = op.bins * op.bins, width = dmap.shape()[2];
      const std::int64_t pixels = dmap.shape()[1] * width, blocks = blocks_of(channels, together);
      const auto* const place = places.data<const std::int64_t>();
      with_float_type(dmap.dtype(), [&]<class T>(Type<T>) {
        using C = Compute<T>;
        parallel_tasks(dmap.shape()[0] * blocks, [&](std::int64_t task, int) {
          const std::int64_t image = task / blocks, first = task % blocks * together;
          const std::int64_t here = std::min(together, channels - first);
          std::vector<C> sums(static_cast<std::size_t>(pixels * together)),  // [pixels, together]
              slopes(static_cast<std::size_t>(cells * together));            // [cells, together]
          for (std::int64_t r = 0; r < places.shape()[0]; ++r) {
            if (place[2 * r] != number || place[2 * r + 1] != image) continue;
            const T* const from = dy.data<const T>() + (r * channels + first) * cells;
            for (std::int64_t c = 0; c < here; ++c)
              for (std::int64_t cell = 0; cell < cells; ++cell)
                slopes[static_cast<std::size_t>(cell * together + c)] = to_compute(from[c * cells + cell]);
            for_each_tap(RoiAxes<C>(op, number, boxes.data<const C>() + 4 * r, dmap.shape()),
                         static_cast<std::int32_t>(op.bins), width, [&](std::int64_t cell, std::int64_t at, C weight) {
                           C* const sum = sums.data() + at * together;
                           const C* const slope = slopes.data() + cell * together;
#pragma GCC ivdep
                           for (std::int64_t c = 0; c < together; ++c) sum[c] += weight * slope[c];
                         });
          }
          T* const out = dmap.data<T>() + image * pixels * channels + first;
          for (std::int64_t at = 0; at < pixels; ++at)
            for (std::int64_t c = 0; c < here; ++c)
              out[at * channels + c] = static_cast<T>(sums[static_cast<std::size_t>(at * together + c)]);
        });
      });
    }};

/// Rejects boxes on the host that are no boxes, or of no image or map.
void check(const RoiAlign& op, const Tensor& boxes, const Tensor& places) {
  constexpr double farthest = 1 << 20;  // pixels: sides of this size are sampled in no time
  const std::vector<double> corners = boxes.to_vector();
  const auto* const place = places.data<const std::int64_t>();
  for (std::int64_t r = 0; r < boxes.shape()[0]; ++r) {
    for (std::int64_t k = 0; k < 4; ++k)
      if (const double side = corners[static_cast<std::size_t>(4 * r + k)]; !(std::abs(side) <= farthest))
        reject("roi_align: box {} has a side at {}: expected pixels of an image", r, side);
    if (place[2 * r] < 0 || place[2 * r] >= std::ssize(op.shapes) || place[2 * r + 1] < 0 ||
        place[2 * r + 1] >= op.shapes.front()[0])
      reject("roi_align: box {} is of map {} and image {}: expected maps below {} and images below {}", r, place[2 * r],
             place[2 * r + 1], op.shapes.size(), op.shapes.front()[0]);
  }
}

}  // namespace

Tensor RoiAlign::forward(std::span<const Tensor> inputs) const {
  expect(!shapes.empty() && std::ssize(shapes) <= most_maps && scales.size() == shapes.size() &&
             inputs.size() == first_map + shapes.size() && bins > 0 && bins <= 64 && samples >= 0 && samples <= 64,
         "{}: expected 1 to {} maps with their scales, 1 to 64 bins and 0 to 64 samples, got {} maps, {} scales, {} "
         "bins and {} samples",
         name, most_maps, std::ssize(inputs) - first_map, scales.size(), bins, samples);
  const Tensor& first = inputs[first_map];
  const std::int64_t count = inputs[places].rows();
  expect(inputs[boxes].shape() == Shape{count, 4} && inputs[boxes].dtype() == compute_type(first.dtype()) &&
             inputs[places].shape() == Shape{count, 2} && inputs[places].dtype() == DType::i64,
         "{}: expected boxes {} [R, 4] and places i64 [R, 2], got {} {} and {} {}", name,
         name_of(compute_type(first.dtype())), name_of(inputs[boxes].dtype()), inputs[boxes].shape(),
         name_of(inputs[places].dtype()), inputs[places].shape());
  for (std::size_t m = 0; m < shapes.size(); ++m) {
    const Tensor& map = inputs[first_map + m];
    expect(map.shape() == shapes[m] && map.shape().rank() == 4 && map.dtype() == first.dtype() &&
               map.shape()[0] == first.shape()[0] && map.shape()[3] == first.shape()[3],
           "{}: expected map {} of {} in {}, got {} in {}", name, m, shapes[m], name_of(first.dtype()), map.shape(),
           name_of(map.dtype()));
  }
  if (first.device() == Device::cpu) check(*this, inputs[boxes], inputs[places]);
  Tensor y = Tensor::empty({count, first.shape()[3] * bins * bins}, first.dtype(), first.device());
  for (std::size_t m = 0; m < shapes.size(); ++m)
    roi_align_forward(y.device(), *this, static_cast<std::int64_t>(m), inputs[boxes], inputs[places],
                      inputs[first_map + m], 0, y);
  return y;
}

void RoiAlign::backward(const Tensor& dy, const Saved<RoiAlign>& saved, Grads& grads) const {
  const Tensor corners = saved.get<input(boxes)>().whole(), of = saved.get<input(places)>().whole();
  for (std::size_t m = 0; m < shapes.size(); ++m) {
    const int map = first_map + static_cast<int>(m);
    if (!grads.wanted(map)) continue;
    grads[map] = Tensor::empty(shapes[m], dy.dtype(), dy.device());
    roi_align_backward(dy.device(), *this, static_cast<std::int64_t>(m), corners, of, dy, grads[map]);
  }
}

void RoiAlign::rematerialize(const RematInputs<RoiAlign>& from, const Tensor& out) const {
  const auto map = [&]<int m>() {
    if (m >= std::ssize(shapes)) return;
    roi_align_forward(out.device(), *this, m, from.get<input(boxes)>(), from.get<input(places)>(),
                      from.get<input(first_map + m)>(), from.first_row(), out);
  };
  [&]<int... m>(std::integer_sequence<int, m...>) { (map.template operator()<m>(), ...); }
  (std::make_integer_sequence<int, most_maps>{});
}

}  // namespace lacuna
