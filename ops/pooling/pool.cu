#include "ops/pooling/pool_cuda.h"

#include "core/block.h"
#include "ops/cuda/elements.h"

namespace lacuna::cuda {
namespace {

constexpr int codes_together = 128;  // codes whose planes lie together

// Blocks have parts of one row of one image, so that the places of their threads take 32-bit arithmetic.
struct RowPart {
  std::uint32_t image, row, element;  // of this thread: its place in the row
  template <class K>
  LACUNA_DEVICE RowPart(const Block<K>& block, std::int64_t elements_of_row, std::int32_t rows) {
    const auto parts = static_cast<std::uint32_t>((elements_of_row + K::threads - 1) / K::threads);
    const auto index = static_cast<std::uint32_t>(block.index()), line = index / parts;
    image = line / static_cast<std::uint32_t>(rows);
    row = line % static_cast<std::uint32_t>(rows);
    element = index % parts * K::threads + static_cast<std::uint32_t>(block.thread());
  }
};
std::int64_t blocks_of(std::int64_t images, std::int64_t rows, std::int64_t elements_of_row, int threads) {
  return images * rows * divide_up(elements_of_row, threads);
}

/// A thread has an element, a block the codes that are packed together.
template <class T>
struct MaxForward {
  static constexpr int threads = codes_together;
  struct Shared {
    std::uint8_t codes[threads];
  };
  MaxPool pool;
  const T* x;
  T* y;
  std::uint8_t* places;

  LACUNA_DEVICE void operator()(const Block<MaxForward>& block) const {
    const PoolAxis &down = pool.windows.down, &across = pool.windows.across;
    const std::int64_t channels = pool.windows.channels, of_row = across.windows * channels;
    const RowPart at(block, of_row, down.windows);
    std::uint8_t code = 0;
    const std::int64_t line = static_cast<std::int64_t>(at.image) * down.windows + at.row;
    if (at.element < of_row) {
      const auto width = static_cast<std::uint32_t>(channels);
      const auto i = static_cast<std::int32_t>(at.row), j = static_cast<std::int32_t>(at.element / width);
      const PoolAxis::Range rows = down.covered(i), columns = across.covered(j);
      const T* const image =
          x + static_cast<std::int64_t>(at.image) * down.extent * across.extent * channels + at.element % width;
      T best{};
      bool first = true;
      for (std::int32_t h = rows.begin; h < rows.end; ++h)
        for (std::int32_t w = columns.begin; w < columns.end; ++w) {
          const T found = image[(static_cast<std::int64_t>(h) * across.extent + w) * channels];
          const float value = to_compute(found);
          if (!first && !(value > to_compute(best)) && value == value) continue;  // NaN wins, so that it propagates
          best = found;
          code = static_cast<std::uint8_t>((h - i * down.stride + down.padding) * across.kernel +
                                           (w - j * across.stride + across.padding));
          first = false;
        }
      y[line * of_row + at.element] = best;
    }
    block.shared().codes[block.thread()] = code;
    block.sync();
    const std::int64_t begin = at.element - static_cast<std::uint32_t>(block.thread()), left = of_row - begin;
    const int count = left < codes_together ? static_cast<int>(left) : codes_together;
    std::uint8_t* plane = places + line * pool.row_bytes + begin / codes_together * (codes_together / 8 * pool.bits);
    int shift = 0;
    for (int width = 8; width > 0; width /= 2) {
      if ((pool.bits & width) == 0) continue;
      const int bytes = (count * width + 7) / 8;
      if (block.thread() < bytes) {
        std::uint32_t packed = 0;
        for (int part = 0, code_at = block.thread(); part < 8 && code_at < count; part += width, code_at += bytes)
          packed |= (static_cast<std::uint32_t>(block.shared().codes[code_at]) >> shift & ((1U << width) - 1)) << part;
        plane[block.thread()] = static_cast<std::uint8_t>(packed);
      }
      plane += bytes;
      shift += width;
    }
  }
};

template <class T>
struct MaxBackward {
  static constexpr int threads = 256;
  MaxPool pool;
  const T* dy;
  const std::uint8_t* places;
  T* dx;

  LACUNA_DEVICE void operator()(const Block<MaxBackward>& block) const {
    const PoolAxis &down = pool.windows.down, &across = pool.windows.across;
    const std::int64_t channels = pool.windows.channels, of_row = across.extent * channels;
    const RowPart at(block, of_row, down.extent);
    if (at.element >= of_row) return;
    const auto width = static_cast<std::uint32_t>(channels);
    const auto h = static_cast<std::int32_t>(at.row), w = static_cast<std::int32_t>(at.element / width);
    const PoolAxis::Range rows = down.covering(h), columns = across.covering(w);
    float sum = 0;
    for (std::int32_t i = rows.begin; i < rows.end; ++i) {
      const std::int64_t line = static_cast<std::int64_t>(at.image) * down.windows + i;
      for (std::int32_t j = columns.begin; j < columns.end; ++j) {
        const std::int64_t element = j * channels + at.element % width;
        const int place =
            (h - i * down.stride + down.padding) * across.kernel + (w - j * across.stride + across.padding);
        if (code_at(places + line * pool.row_bytes, element) == place)
          sum += to_compute(dy[line * across.windows * channels + element]);
      }
    }
    dx[(static_cast<std::int64_t>(at.image) * down.extent + h) * of_row + at.element] = static_cast<T>(sum);
  }

 private:
  LACUNA_DEVICE int code_at(const std::uint8_t* row, std::int64_t element) const {
    const std::int64_t begin = element / codes_together * codes_together;
    const std::int64_t left = pool.windows.across.windows * pool.windows.channels - begin;
    const int count = left < codes_together ? static_cast<int>(left) : codes_together;
    const int place = static_cast<int>(element - begin);
    const std::uint8_t* plane = row + begin / 8 * pool.bits;
    int code = 0, shift = 0;
    for (int width = 8; width > 0; width /= 2) {
      if ((pool.bits & width) == 0) continue;
      const int bytes = (count * width + 7) / 8;
      code |= (plane[place % bytes] >> (place / bytes * width) & ((1 << width) - 1)) << shift;
      plane += bytes;
      shift += width;
    }
    return code;
  }
};

/// A thread has eight channels of a window, or in `backward` of a place.
template <class T, bool backward>
struct MeanPool {
  static constexpr int threads = 128;
  PoolWindows windows;
  bool counts_padding;
  Kept<T> from;
  Written<T> to;

  LACUNA_DEVICE void operator()(const Block<MeanPool>& block) const {
    const PoolAxis &down = windows.down, &across = windows.across;
    const std::int64_t channels = windows.channels, units = (channels + 7) / 8;
    const std::int32_t height = backward ? down.extent : down.windows,
                       width = backward ? across.extent : across.windows;
    const std::int32_t from_height = backward ? down.windows : down.extent;
    const std::int32_t from_width = backward ? across.windows : across.extent;
    const RowPart at(block, width * units, height);
    if (at.element >= width * units) return;
    const auto row = static_cast<std::int32_t>(at.row);
    const auto column = static_cast<std::int32_t>(at.element / static_cast<std::uint32_t>(units));
    const std::int64_t c = at.element % static_cast<std::uint32_t>(units) * 8;
    const PoolAxis::Range rows = backward ? down.covering(row) : down.covered(row);
    const PoolAxis::Range columns = backward ? across.covering(column) : across.covered(column);
    Eight sum{};
    for (std::int32_t h = rows.begin; h < rows.end; ++h)
      for (std::int32_t w = columns.begin; w < columns.end; ++w) {
        const std::int64_t pixel = (static_cast<std::int64_t>(at.image) * from_height + h) * from_width + w;
        const Eight values = from.at_row(pixel, channels, c);
        const float factor = backward ? share(h, w) : 1.0F;
#pragma unroll
        for (int i = 0; i < 8; ++i) sum[i] += values[i] * factor;
      }
    if constexpr (!backward) {
      const float factor = share(row, column);
#pragma unroll
      for (int i = 0; i < 8; ++i) sum[i] *= factor;
    }
    to.set_row((static_cast<std::int64_t>(at.image) * height + row) * width + column, channels, c, sum);
  }

 private:
  /// One over the divisor of a window.
  LACUNA_DEVICE float share(std::int32_t i, std::int32_t j) const {
    const std::int32_t count = counts_padding ? windows.down.kernel * windows.across.kernel
                                              : windows.down.covered(i).size() * windows.across.covered(j).size();
    return 1.0F / static_cast<float>(count);
  }
};

template <class T, bool backward>
void mean_pool(Stream stream, const PoolWindows& windows, bool counts_padding, const void* from, void* to) {
  const PoolAxis &down = windows.down, &across = windows.across;
  const std::int64_t height = backward ? down.extent : down.windows, width = backward ? across.extent : across.windows;
  run(stream, blocks_of(windows.images, height, width * divide_up(windows.channels, 8), MeanPool<T, backward>::threads),
      MeanPool<T, backward>{.windows = windows,
                            .counts_padding = counts_padding,
                            .from = {from, 0},  // at_row and set_row take no count
                            .to = {to, 0}});
}

/// A block has 64 channels of an image: eight threads beside each other, and 32 that take places in turn.
template <class T>
struct GlobalForward {
  static constexpr int threads = 256, stripe = 64, beside = stripe / 8, groups = threads / beside;
  struct Shared {
    float sums[groups][stripe];
  };
  GlobalPool pool;
  Kept<T> x;
  T* y;

  LACUNA_DEVICE void operator()(const Block<GlobalForward>& block) const {
    const std::int64_t stripes = (pool.channels + stripe - 1) / stripe;
    const std::int64_t image = block.index() / stripes, begin = block.index() % stripes * stripe;
    const int unit = block.thread() % beside, group = block.thread() / beside;
    Eight sum{};
    if (begin + unit * 8 < pool.channels)
      for (std::int64_t place = group; place < pool.places; place += groups) {
        const Eight values = x.at_row(image * pool.places + place, pool.channels, begin + unit * 8);
#pragma unroll
        for (int i = 0; i < 8; ++i) sum[i] += values[i];
      }
#pragma unroll
    for (int i = 0; i < 8; ++i) block.shared().sums[group][unit * 8 + i] = sum[i];
    block.sync();
    const std::int64_t c = begin + block.thread();
    if (block.thread() >= stripe || c >= pool.channels) return;
    float total = 0;
    for (int g = 0; g < groups; ++g) total += block.shared().sums[g][block.thread()];
    y[image * pool.channels + c] = static_cast<T>(total / static_cast<float>(pool.places));
  }
};

template <class T>
struct GlobalBackward {
  static constexpr int threads = 256;
  GlobalPool pool;
  Kept<T> dy;
  Written<T> dx;
  LACUNA_DEVICE void operator()(const Block<GlobalBackward>& block) const {
    const std::int64_t units = (pool.channels + 7) / 8, pixel = block.global_thread() / units;
    if (pixel >= pool.images * pool.places) return;
    const std::int64_t c = block.global_thread() % units * 8;
    Eight values = dy.at_row(pixel / pool.places, pool.channels, c);
#pragma unroll
    for (int i = 0; i < 8; ++i) values[i] /= static_cast<float>(pool.places);
    dx.set_row(pixel, pool.channels, c, values);
  }
};

}  // namespace

void max_pool_forward(Stream stream, DType type, const MaxPool& pool, const void* x, void* y, std::uint8_t* places) {
  const PoolWindows& w = pool.windows;
  with_cuda_type(type, [&]<class T>(Type<T>) {
    run(stream, blocks_of(w.images, w.down.windows, w.across.windows * w.channels, MaxForward<T>::threads),
        MaxForward<T>{.pool = pool, .x = static_cast<const T*>(x), .y = static_cast<T*>(y), .places = places});
  });
}

void max_pool_backward(Stream stream, DType type, const MaxPool& pool, const void* dy, const std::uint8_t* places,
                       void* dx) {
  const PoolWindows& w = pool.windows;
  with_cuda_type(type, [&]<class T>(Type<T>) {
    run(stream, blocks_of(w.images, w.down.extent, w.across.extent * w.channels, MaxBackward<T>::threads),
        MaxBackward<T>{.pool = pool, .dy = static_cast<const T*>(dy), .places = places, .dx = static_cast<T*>(dx)});
  });
}

void mean_pool_forward(Stream stream, DType type, const PoolWindows& windows, bool counts_padding, const void* x,
                       void* y) {
  with_cuda_type(type, [&]<class T>(Type<T>) { mean_pool<T, false>(stream, windows, counts_padding, x, y); });
}

void mean_pool_backward(Stream stream, DType type, const PoolWindows& windows, bool counts_padding, const void* dy,
                        void* dx) {
  with_cuda_type(type, [&]<class T>(Type<T>) { mean_pool<T, true>(stream, windows, counts_padding, dy, dx); });
}

void global_pool_forward(Stream stream, DType type, const GlobalPool& pool, const void* x, void* y) {
  with_cuda_type(type, [&]<class T>(Type<T>) {
    run(stream, pool.images * divide_up(pool.channels, GlobalForward<T>::stripe),
        GlobalForward<T>{.pool = pool, .x = {x, 0}, .y = static_cast<T*>(y)});
  });
}

void global_pool_backward(Stream stream, DType type, const GlobalPool& pool, const void* dy, void* dx) {
  with_cuda_type(type, [&]<class T>(Type<T>) {
    run(stream, divide_up(pool.images * pool.places * divide_up(pool.channels, 8), GlobalBackward<T>::threads),
        GlobalBackward<T>{.pool = pool, .dy = {dy, 0}, .dx = {dx, 0}});
  });
}

}  // namespace lacuna::cuda
