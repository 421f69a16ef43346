#include "ops/pooling/pool_cuda.h"

#include "core/block.h"
#include "ops/cuda/elements.h"
#include "ops/quantize/pack_tile.h"

namespace lacuna::cuda {
namespace {

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

/// A thread has eight elements of a row of windows: eight channels of a window, or any where these are no eights.
template <class T>
struct MaxForward {
  static constexpr int threads = 128;
  struct Shared {
    alignas(16) std::uint8_t codes[8 * threads];
  };
  MaxPool pool;
  Kept<T> x;
  T* y;
  std::uint8_t* places;

  LACUNA_DEVICE void operator()(const Block<MaxForward>& block) const {
    const PoolAxis &down = pool.windows.down, &across = pool.windows.across;
    const std::int64_t channels = pool.windows.channels, of_row = across.windows * channels;
    const RowPart at(block, (of_row + 7) / 8, down.windows);
    const std::int64_t line = static_cast<std::int64_t>(at.image) * down.windows + at.row;
    const std::int64_t first = static_cast<std::int64_t>(at.element) * 8, begin = first - block.thread() * 8;
    EightCodes codes{};
    if (first < of_row) {
      const Written<T> row(y + line * of_row, of_row);
      const auto width = static_cast<std::uint32_t>(channels), element = static_cast<std::uint32_t>(first);
      if (channels % 8 == 0) {
        Eight best;
        maximum(at, element / width, element % width, best, codes);
        row.set(first, best);
      } else {
#pragma unroll 1
        for (std::uint32_t i = 0; i < 8 && element + i < of_row; ++i) {
          Eight best;
          EightCodes own{};
          maximum(at, (element + i) / width, (element + i) % width, best, own);
          row.set_one(first + i, best[0]);
          (i < 4 ? codes[0] : codes[1]) |= (own[0] & 0xffU) << (i % 4 * 8);
        }
      }
    }
    const std::int64_t left = of_row - begin;
    write_codes(block, block.shared().codes, codes, left < 8 * threads ? static_cast<int>(left) : 8 * threads,
                pool.bits, places + line * pool.row_bytes + begin / 8 * pool.bits);
  }

 private:
  /// The maxima of window j of the row in channels from c on, of which those that are there count.
  LACUNA_DEVICE void maximum(const RowPart& at, std::uint32_t j, std::uint32_t c, Eight& best,
                             EightCodes& codes) const {
    const PoolAxis &down = pool.windows.down, &across = pool.windows.across;
    const auto i = static_cast<std::int32_t>(at.row), column = static_cast<std::int32_t>(j);
    const PoolAxis::Range rows = down.covered(i), columns = across.covered(column);
    std::uint32_t code[8]{};
    bool first = true;
    for (std::int32_t h = rows.begin; h < rows.end; ++h)
      for (std::int32_t w = columns.begin; w < columns.end; ++w) {
        const std::int64_t pixel = (static_cast<std::int64_t>(at.image) * down.extent + h) * across.extent + w;
        const Eight values = x.at_row(pixel, pool.windows.channels, c);
        const auto place = static_cast<std::uint32_t>((h - i * down.stride + down.padding) * across.kernel +
                                                      (w - column * across.stride + across.padding));
#pragma unroll
        for (int k = 0; k < 8; ++k) {
          if (!first && !(values[k] > best[k]) && values[k] == values[k]) continue;  // NaN wins, so that it propagates
          best[k] = values[k];
          code[k] = place;
        }
        first = false;
      }
#pragma unroll
    for (int k = 0; k < 8; ++k) codes[k / 4] |= code[k] << (k % 4 * 8);
  }
};

/// A thread has eight channels of a place.
template <class T>
struct MaxBackward {
  static constexpr int threads = 128;
  MaxPool pool;
  Kept<T> dy;
  const std::uint8_t* places;
  Written<T> dx;

  LACUNA_DEVICE void operator()(const Block<MaxBackward>& block) const {
    const PoolAxis &down = pool.windows.down, &across = pool.windows.across;
    const std::int64_t channels = pool.windows.channels, units = (channels + 7) / 8;
    const RowPart at(block, across.extent * units, down.extent);
    if (at.element >= across.extent * units) return;
    const auto h = static_cast<std::int32_t>(at.row);
    const auto w = static_cast<std::int32_t>(at.element / static_cast<std::uint32_t>(units));
    const std::int64_t c = at.element % static_cast<std::uint32_t>(units) * 8;
    const PoolAxis::Range rows = down.covering(h), columns = across.covering(w);
    Eight sum{};
    for (std::int32_t i = rows.begin; i < rows.end; ++i) {
      const std::int64_t line = static_cast<std::int64_t>(at.image) * down.windows + i;
      const PackedCodes codes(places + line * pool.row_bytes, across.windows * channels, pool.bits);
      for (std::int32_t j = columns.begin; j < columns.end; ++j) {
        const auto place = static_cast<std::uint32_t>((h - i * down.stride + down.padding) * across.kernel +
                                                      (w - j * across.stride + across.padding));
        std::uint32_t code[8];
        if (channels % 8 == 0) {
          codes.read(j * channels + c, code);
        } else {
          for (int k = 0; k < 8; ++k) code[k] = c + k < channels ? codes.one(j * channels + c + k) : 0;
        }
        const Eight d = dy.at_row(line * across.windows + j, channels, c);
#pragma unroll
        for (int k = 0; k < 8; ++k) sum[k] += code[k] == place ? d[k] : 0.0F;
      }
    }
    dx.set_row((static_cast<std::int64_t>(at.image) * down.extent + h) * across.extent + w, channels, c, sum);
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
    run(stream,
        blocks_of(w.images, w.down.windows, divide_up(w.across.windows * w.channels, 8), MaxForward<T>::threads),
        MaxForward<T>{.pool = pool, .x = {x, 0}, .y = static_cast<T*>(y), .places = places});
  });
}

void max_pool_backward(Stream stream, DType type, const MaxPool& pool, const void* dy, const std::uint8_t* places,
                       void* dx) {
  const PoolWindows& w = pool.windows;
  with_cuda_type(type, [&]<class T>(Type<T>) {
    run(stream, blocks_of(w.images, w.down.extent, w.across.extent * divide_up(w.channels, 8), MaxBackward<T>::threads),
        MaxBackward<T>{.pool = pool, .dy = {dy, 0}, .places = places, .dx = {dx, 0}});
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
