// Tiles of images for Winograd's minimal filtering: their transforms into matrices over channels, and back.
#pragma once

#include "core/parallel.h"
#include "ops/convolution/conv_kernels.h"
#include "ops/convolution/winograd_filter.h"
#include "ops/kernels/tile_pairs.h"
#include "ops/products/panel_kernel.h"

#include <algorithm>
#include <cstdint>
#include <type_traits>

namespace lacuna::winograd {

using panel::lanes;
using panel::load;
using panel::store;
using panel::Vector;

/// Images are f32 or bf16, transforms are f32.
template <class T>
[[gnu::always_inline]] inline Vector load_pixels(const T* from) {
  return tile::load_as(from, lanes);
}
template <class T>
[[gnu::always_inline]] inline void store_pixels(T* to, const Vector& values) {
  if constexpr (std::is_same_v<T, bf16>)
    tile::store_normal(to, values);
  else
    store(to, values);
}
/// The first `count` channels, and zeros behind them.
template <class T>
inline Vector load_pixels(const T* from, std::int64_t count) {
  if (count >= lanes) return load_pixels(from);
  T values[lanes] = {};
  std::copy_n(from, std::max<std::int64_t>(count, 0), values);
  return load_pixels(values);
}
template <class T>
inline void store_pixels(T* to, const Vector& values, std::int64_t count) {
  if (count >= lanes) return store_pixels(to, values);
  T all[lanes];
  store_pixels(all, values);
  std::copy_n(all, std::max<std::int64_t>(count, 0), to);
}

/// Rows of a transform's result that are computed together: few enough for their inputs to stay in the registers of
/// AVX-512, and rows that share sums in F(4x4) (winograd_filter.h). Spilled inputs may have the same page offset as
/// results, and loads would then wait for unrelated stores (4K aliasing).
template <class F>
struct RowGroups {
  static constexpr int count = F::to >= 4 ? 2 : 1, rows = F::to / count;
  static constexpr int row(int group, int i) { return F::to == 6 ? group * rows + i : i * count + group; }
};

/// Applies a transform along both axes of a square: `column(j, numbers)` reads column j, `row(i, numbers)` receives row
/// i of the result. Columns are read in order, by a copy of `column` for each group of rows.
template <class F, class Column, class Row>
[[gnu::always_inline]] inline void both_axes(const Column& column, const Row& row) {
  constexpr F transform;
  using Groups = RowGroups<F>;
#pragma GCC unroll 2
  for (int group = 0; group < Groups::count; ++group) {
    Vector half[Groups::rows][F::from];  // transformed along columns
    Column read = column;
#pragma GCC unroll 6
    for (int j = 0; j < F::from; ++j) {
      Vector in[F::from], out[F::to];
      read(j, in);
      transform(in, out);
#pragma GCC unroll 6
      for (int i = 0; i < Groups::rows; ++i) half[i][j] = out[Groups::row(group, i)];
    }
#pragma GCC unroll 6
    for (int i = 0; i < Groups::rows; ++i) {
      Vector out[F::to];
      transform(half[i], out);
      row(Groups::row(group, i), out);
    }
  }
}

/// Reads the columns of a square in memory, one after the other.
template <class T>
struct Columns {
  const T* next;
  std::int64_t row_step, column_step;

  template <int count>
  [[gnu::always_inline]] void operator()(int, Vector (&numbers)[count]) {
    const T* from = next;
#pragma GCC unroll 6
    for (int i = 0; i < count; ++i, from += row_step) numbers[i] = load_pixels(from);
    next += column_step;
#ifdef __x86_64__
    __asm__("" : "+r"(next));  // keeps the compiler from precomputing all addresses and spilling them
#endif
  }
};

template <int m>
constexpr int places_of = Filter<m>::tile* Filter<m>::tile;  // positions of a transformed tile

/// Tiles of m x m results, numbered over all images.
template <int m>
struct Tiles {
  std::int64_t height, width;  // of an image
  std::int64_t down, across;   // tiles of an image
  std::int64_t count;

  explicit Tiles(const ConvShape& s)
      : height(s.height),
        width(s.width),
        down((s.height + m - 1) / m),
        across((s.width + m - 1) / m),
        count(s.images * down * across) {}

  /// Calls `f(image, row, column)` with the first result of each tile in [begin, end).
  template <class F>
  void each(std::int64_t begin, std::int64_t end, const F& f) const {
    std::int64_t image = begin / (down * across), row = begin / across % down * m, column = begin % across * m;
    for (std::int64_t tile = begin; tile < end; ++tile) {
      f(image, row, column);
      if ((column += m) < width) continue;
      column = 0;
      if ((row += m) < height) continue;
      row = 0;
      ++image;
    }
  }
  /// First pixel of the first row of tiles that starts at or behind `tile`.
  std::int64_t first_row(std::int64_t tile) const {
    const std::int64_t row = (tile + across - 1) / across;
    return (row / down * height + row % down * m) * width;
  }
};

/// Prefetches the pixels of tiles [begin, end) into L2, a few cache lines in each of `calls` calls between other work:
/// the rows of tiles that start in the range, up to 512 KiB.
template <class T>
class Prefetch {
 public:
  template <int m>
  Prefetch(const Tiles<m>& tiles, const T* images, std::int64_t channels, std::int64_t begin, std::int64_t end,
           std::int64_t calls)
      : next_(images + tiles.first_row(begin) * channels) {
    const std::int64_t count = std::min<std::int64_t>((tiles.first_row(end) - tiles.first_row(begin)) * channels, max);
    end_ = next_ + count;
    at_once_ = ((count + line - 1) / line + calls - 1) / calls * line;
  }
  void operator()() {
    const T* const stop = next_ + std::min(at_once_, end_ - next_);
    for (; next_ < stop; next_ += line) __builtin_prefetch(next_, 0, second_level);
    next_ = stop;
  }

 private:
  static constexpr std::int64_t line = 64 / sizeof(T), max = (512 << 10) / sizeof(T);  // pixels' channels
  static constexpr int second_level = 2;                                               // of locality: L2
  const T *next_, *end_;
  std::int64_t at_once_;
};

/// One matrix per tile position, `stride` elements apart: not a power of two, which would map all to one cache set.
struct Stack {
  float* data;
  std::int64_t stride;
};
constexpr std::int64_t stack_stride(std::int64_t elements) { return elements + 16; }

/// Channels in whole panels: matrices have zeros, or what nobody reads, behind the image's.
constexpr std::int64_t in_panels(std::int64_t channels) {
  return (channels + panel::width - 1) / panel::width * panel::width;
}

/// Offset of a tile's channels [c, c + lanes) in a matrix of the stack: row-major [tiles, channels in panels]...
struct RowMajor {
  std::int64_t channels;
  std::int64_t operator()(std::int64_t tile, std::int64_t c) const { return tile * channels + c; }
};
/// ... or panels [channels / 16, tiles, 16].
struct Panels {
  std::int64_t tiles;
  std::int64_t operator()(std::int64_t tile, std::int64_t c) const {
    return (c / panel::width * tiles + tile) * panel::width + c % panel::width;
  }
};

/// Rows or columns [begin, end) of a tile that are inside the image.
struct Inside {
  int begin, end;
  static Inside of(std::int64_t first, std::int64_t extent, std::int64_t image) {
    return {static_cast<int>(std::max<std::int64_t>(0, -first)),
            static_cast<int>(std::min<std::int64_t>(extent, image - first))};
  }
  bool operator()(int i) const { return i >= begin && i < end; }
};

/// Transforms the F::from² pixels of each tile, with zeros outside the image and behind its channels, into `out`.
template <class F, int m, class T, class Layout>
void transform_tiles(const Tiles<m>& tiles, const T* images, std::int64_t channels, std::int64_t begin,
                     std::int64_t end, const Stack& out, const Layout& layout) {
  constexpr std::int64_t before = F::from == m ? 0 : 1;  // pixels that an input tile starts before its results
  const std::int64_t line = tiles.width * channels;
  std::int64_t tile = 0;
  tiles.each(begin, end, [&](std::int64_t image, std::int64_t first_row, std::int64_t first_column) {
    const std::int64_t row = first_row - before, column = first_column - before;
    const T* const corner = images + (image * tiles.height + row) * line + column * channels;  // may be outside
    const Inside rows = Inside::of(row, F::from, tiles.height), columns = Inside::of(column, F::from, tiles.width);
    const bool whole = rows.end - rows.begin == F::from && columns.end - columns.begin == F::from;
    for (std::int64_t c = 0; c < in_panels(channels); c += lanes) {
      const T* const from = corner + c;
      float* const to = out.data + layout(tile, c);
      // Prefetches the first rows of the tile below, which hardware does not predict.
      const T* ahead = from + F::from * line + before * channels;
#pragma GCC unroll 4
      for (int i = 0; i < m; ++i, ahead += line)
#pragma GCC unroll 4
        for (int j = 0; j < m; ++j) __builtin_prefetch(ahead + j * channels);
      const auto write = [=, stride = out.stride](int i, const auto& numbers) {
        float* next = to + i * F::to * stride;
#pragma GCC unroll 6
        for (int j = 0; j < F::to; ++j, next += stride) store(next, numbers[j]);
      };
      if (whole && c + lanes <= channels)
        both_axes<F>(Columns<T>{from, line, channels}, write);
      else
        both_axes<F>(
            [=](int j, auto& numbers) {
              const T* next = from + j * channels;
              const bool inside = columns(j);
#pragma GCC unroll 6
              for (int i = 0; i < F::from; ++i, next += line)
                numbers[i] = inside && rows(i) ? load_pixels(next, channels - c) : Vector{};
            },
            write);
    }
    ++tile;
  });
}

/// Transforms products [positions, tiles, outputs of panels `own`] back and writes the results that are inside the
/// image, with the bias or added to the image.
template <int m, class T>
void write_results(const Tiles<m>& tiles, const Stack& products, std::int64_t outputs, const Range& own,
                   const float* bias, std::int64_t begin, std::int64_t end, bool add, T* images) {
  using F = typename Filter<m>::Output;
  const std::int64_t line = tiles.width * outputs;
  const float* next = products.data;
  tiles.each(begin, end, [&](std::int64_t image, std::int64_t row, std::int64_t column) {
    T* const corner = images + (image * tiles.height + row) * line + column * outputs;
    const int rows = static_cast<int>(std::min<std::int64_t>(m, tiles.height - row));
    const int columns = static_cast<int>(std::min<std::int64_t>(m, tiles.width - column));
    for (std::int64_t o = own.begin * panel::width; o < own.end * panel::width; o += lanes, next += lanes) {
      T* const to = corner + o;
      const std::int64_t count = outputs - o;
      const Vector shift = bias == nullptr ? Vector{} : load_pixels(bias + o, count);
      const T* ahead = to + m * line;  // as in transform_tiles
#pragma GCC unroll 4
      for (int i = 0; i < m; ++i, ahead += line)
#pragma GCC unroll 4
        for (int j = 0; j < m; ++j) __builtin_prefetch(ahead + j * outputs, 1);
      const Columns<float> read{next, F::from * products.stride, products.stride};
      if (rows == m && columns == m && count >= lanes && !add)
        both_axes<F>(read, [=](int i, const auto& numbers) {
          T* result = to + i * line;
#pragma GCC unroll 4
          for (int j = 0; j < m; ++j, result += outputs) store_pixels(result, numbers[j] + shift);
        });
      else
        both_axes<F>(read, [=](int i, const auto& numbers) {
          if (i >= rows) return;
          T* result = to + i * line;
          for (int j = 0; j < columns; ++j, result += outputs)
            store_pixels(result, numbers[j] + (add ? load_pixels(result, count) : shift), count);
        });
    }
  });
}

}  // namespace lacuna::winograd
