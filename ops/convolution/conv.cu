#include "ops/convolution/conv_cuda.h"

#include "core/block.h"
#include "ops/cuda/copy_units.h"
#include "ops/cuda/elements.h"

namespace lacuna::cuda {
namespace {

// Rows of one call have less than 2^31 units, so that their places take 32-bit arithmetic.

struct Axis {
  std::int32_t extent, windows, taps, first, step, direction;
  explicit Axis(const WindowAxis& axis)
      : extent(static_cast<std::int32_t>(axis.extent)),
        windows(static_cast<std::int32_t>(axis.windows)),
        taps(static_cast<std::int32_t>(axis.taps)),
        first(static_cast<std::int32_t>(axis.first)),
        step(static_cast<std::int32_t>(axis.step)),
        direction(static_cast<std::int32_t>(axis.direction)) {}
  LACUNA_DEVICE std::int32_t place(std::uint32_t window, std::uint32_t tap) const {
    return first + static_cast<std::int32_t>(window) * step + static_cast<std::int32_t>(tap) * direction;
  }
};

/// Moves units of 1 to 16 bytes.
template <class Unit>
struct Gather {
  static constexpr int threads = 256;
  const Unit* images;
  Unit* to;
  Axis down, across;
  std::uint32_t channels, groups;  // in units
  std::uint32_t first_window;      // within first_image
  std::int64_t first_image;
  std::uint32_t count;  // units
  LACUNA_DEVICE void operator()(const Block<Gather>& block) const {
    const auto e = static_cast<std::uint32_t>(block.global_thread());
    if (e >= count) return;
    const std::uint32_t of_group = channels / groups, c = e % of_group;
    std::uint32_t rest = e / of_group;
    const std::uint32_t across_tap = rest % static_cast<std::uint32_t>(across.taps);
    rest /= static_cast<std::uint32_t>(across.taps);
    const std::uint32_t down_tap = rest % static_cast<std::uint32_t>(down.taps);
    rest /= static_cast<std::uint32_t>(down.taps);
    const std::uint32_t group = rest % groups;
    const std::uint32_t window = first_window + rest / groups;
    const auto columns = static_cast<std::uint32_t>(across.windows), rows = static_cast<std::uint32_t>(down.windows);
    const std::uint32_t line = window / columns;
    const std::int32_t h = down.place(line % rows, down_tap), w = across.place(window % columns, across_tap);
    Unit unit{};
    if (h >= 0 && h < down.extent && w >= 0 && w < across.extent) {
      const std::int64_t pixel = ((first_image + line / rows) * down.extent + h) * across.extent + w;
      unit = images[pixel * channels + group * of_group + c];
    }
    to[e] = unit;
  }
};

template <class T>
struct Place {
  static constexpr int threads = 256;
  PlaceRows what;
  Kept<T> from;  // of which at_row reads rows alone
  T* images;
  LACUNA_DEVICE void operator()(const Block<Place>& block) const {
    const std::int64_t units = (what.channels + 7) / 8, row = block.global_thread() / units;
    if (row >= what.rows) return;
    const std::int64_t c = block.global_thread() % units * 8;
    const std::int64_t at = what.first_row + row, line = at / what.across.pixels;
    const std::int64_t image = line / what.down.pixels;
    const std::int64_t h = what.down.first + line % what.down.pixels * what.down.step;
    const std::int64_t w = what.across.first + at % what.across.pixels * what.across.step;
    const std::int64_t pixel = (image * what.down.extent + h) * what.across.extent + w;
    const Eight values = what.from == nullptr ? Eight{} : from.at_row(row, what.channels, c);
    const Written<T> to(images, 0);  // rows take no count
    if (what.add)
      to.add_row(pixel, what.channels, c, values);
    else
      to.set_row(pixel, what.channels, c, values);
  }
};

template <class T>
struct Arrange {
  static constexpr int threads = 256;
  ArrangeWeights what;
  std::int64_t count;
  LACUNA_DEVICE void operator()(const Block<Arrange>& block) const {
    const std::int64_t e = block.global_thread();
    if (e >= count) return;
    const std::int64_t channels = what.channels / what.groups, outputs = what.outputs / what.groups;
    const std::int64_t c = e % channels;
    std::int64_t rest = e / channels, o = 0;
    if (what.by_inputs) {
      o = rest % outputs;
      rest /= outputs;
    }
    const std::int64_t q = what.across.first + rest % what.across.taps * what.across.step;
    rest /= what.across.taps;
    const std::int64_t p = what.down.first + rest % what.down.taps * what.down.step;
    rest /= what.down.taps;
    o += what.by_inputs ? rest * outputs : rest;
    const std::int64_t from = ((o * channels + c) * what.down.extent + p) * what.across.extent + q;
    static_cast<T*>(what.to)[e] = static_cast<T>(what.weights[from]);
  }
};

template <class T>
struct Collect {
  static constexpr int threads = 256;
  CollectWeights what;
  LACUNA_DEVICE void operator()(const Block<Collect>& block) const {
    const std::int64_t e = block.global_thread();
    if (e >= what.outputs * what.channels * what.taps) return;
    const std::int64_t tap = e % what.taps, c = e / what.taps % what.channels, o = e / what.taps / what.channels;
    const float value = to_compute(static_cast<const T*>(what.matrix)[(o * what.taps + tap) * what.channels + c]);
    what.weights[e] = what.add ? what.weights[e] + value : value;
  }
};

}  // namespace

void gather_rows(Stream stream, std::int64_t size, const GatherRows& what) {
  const std::int64_t windows = what.down.windows * what.across.windows;
  const std::int64_t run_bytes = what.channels / what.groups * size;
  const std::uint64_t multiples = address(what.images) | address(what.to) | static_cast<std::uint64_t>(run_bytes);
  with_copy_unit(multiples, [&]<class Unit>(Type<Unit>) {
    constexpr auto unit = static_cast<std::int64_t>(sizeof(Unit));
    const std::int64_t count = what.rows * what.row_elements() * size / unit;
    if (count > 0x7fffffff || windows + what.rows > 0x7fffffff)
      throw_launch_failed("rows of a convolution have more than 2^31 units");
    run(stream, divide_up(count, Gather<Unit>::threads),
        Gather<Unit>{.images = static_cast<const Unit*>(what.images),
                     .to = static_cast<Unit*>(what.to),
                     .down = Axis(what.down),
                     .across = Axis(what.across),
                     .channels = static_cast<std::uint32_t>(what.channels * size / unit),
                     .groups = static_cast<std::uint32_t>(what.groups),
                     .first_window = static_cast<std::uint32_t>(what.first_row % windows),
                     .first_image = what.first_row / windows,
                     .count = static_cast<std::uint32_t>(count)});
  });
}

void place_rows(Stream stream, DType type, const PlaceRows& what) {
  with_cuda_type(type, [&]<class T>(Type<T>) {
    run(stream, divide_up(what.rows * divide_up(what.channels, 8), Place<T>::threads),
        Place<T>{.what = what, .from = {what.from, what.rows * what.channels}, .images = static_cast<T*>(what.images)});
  });
}

void arrange_weights(Stream stream, DType type, const ArrangeWeights& what) {
  const std::int64_t count = what.outputs * what.down.taps * what.across.taps * (what.channels / what.groups);
  with_cuda_type(type, [&]<class T>(Type<T>) {
    run(stream, divide_up(count, Arrange<T>::threads), Arrange<T>{.what = what, .count = count});
  });
}

void collect_weights(Stream stream, DType type, const CollectWeights& what) {
  with_cuda_type(type, [&]<class T>(Type<T>) {
    run(stream, divide_up(what.outputs * what.channels * what.taps, Collect<T>::threads), Collect<T>{what});
  });
}

}  // namespace lacuna::cuda
