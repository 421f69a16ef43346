// Winograd's minimal filtering F(m x m, 3x3), m = 2 and 4 (Lavin and Gray, "Fast Algorithms for Convolutional Neural
// Networks", 2016, section 4.1): a 3x3 convolution of stride 1 with 16 products for 4 results, or 36 for 16, instead of
// 9 per result. Tiles of (m + 2)² pixels are transformed, multiplied as matrices over channels for each position in the
// tile, and transformed back to m² results. F(2x2) is as accurate as direct sums. F(4x4) is less: for normal operands
// the largest error relative to the largest result is 0.8e-6 at 16 channels, 4.3e-6 at 512 (1.2e-6 for F(2x2)), and
// 1e-6 in the weight gradient of two images. tests/ops/winograd.cpp bounds it by 1e-5.
#include "core/parallel.h"
#include "ops/convolution/conv_algorithms.h"
#include "ops/convolution/winograd_filter.h"
#include "ops/kernels/tile_pairs.h"
#include "ops/products/panel_kernel.h"

#include <algorithm>
#include <type_traits>

namespace lacuna::winograd {
namespace {

using panel::lanes;
using panel::load;
using panel::store;
using panel::Vector;

/// Images are f32 or bf16, transforms are f32.
template <class T>
inline Vector load_pixels(const T* from) {
  return tile::load_as(from, lanes);
}
template <class T>
inline void store_pixels(T* to, const Vector& values) {
  if constexpr (std::is_same_v<T, bf16>)
    tile::store_normal(to, values);
  else
    store(to, values);
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
std::int64_t stack_stride(std::int64_t elements) { return elements + 16; }

/// Offset of a tile's channels [c, c + lanes) in a matrix of the stack: row-major [tiles, channels]...
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

/// Transforms the F::from² pixels of each tile, with zeros outside the image, into `out`.
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
    for (std::int64_t c = 0; c < channels; c += lanes) {
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
      if (whole)
        both_axes<F>(Columns<T>{from, line, channels}, write);
      else
        both_axes<F>(
            [=](int j, auto& numbers) {
              const T* next = from + j * channels;
              const bool inside = columns(j);
#pragma GCC unroll 6
              for (int i = 0; i < F::from; ++i, next += line)
                numbers[i] = inside && rows(i) ? load_pixels(next) : Vector{};
            },
            write);
    }
    ++tile;
  });
}

/// Transforms products [positions, tiles, outputs] back and writes the results that are inside the image, with the bias
/// or added to the image.
template <int m, class T>
void write_results(const Tiles<m>& tiles, const Stack& products, std::int64_t outputs, const float* bias,
                   std::int64_t begin, std::int64_t end, bool add, T* images) {
  using F = typename Filter<m>::Output;
  const std::int64_t line = tiles.width * outputs;
  const float* next = products.data;
  tiles.each(begin, end, [&](std::int64_t image, std::int64_t row, std::int64_t column) {
    T* const corner = images + (image * tiles.height + row) * line + column * outputs;
    const int rows = static_cast<int>(std::min<std::int64_t>(m, tiles.height - row));
    const int columns = static_cast<int>(std::min<std::int64_t>(m, tiles.width - column));
    for (std::int64_t o = 0; o < outputs; o += lanes, next += lanes) {
      T* const to = corner + o;
      const Vector shift = bias == nullptr ? Vector{} : load(bias + o);
      const T* ahead = to + m * line;  // as in transform_tiles
#pragma GCC unroll 4
      for (int i = 0; i < m; ++i, ahead += line)
#pragma GCC unroll 4
        for (int j = 0; j < m; ++j) __builtin_prefetch(ahead + j * outputs, 1);
      const Columns<float> read{next, F::from * products.stride, products.stride};
      if (rows == m && columns == m && !add)
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
            store_pixels(result, numbers[j] + (add ? load_pixels(result) : shift));
        });
    }
  });
}

/// Transforms weights into panels [positions, outputs / 16, channels, 16]. `turned`: for the input gradient, with
/// outputs and channels exchanged and the taps reversed.
template <int m>
void transform_weights(const ConvShape& s, const float* weight, bool turned, float* out) {
  constexpr int tile = Filter<m>::tile;
  const std::int64_t outputs = turned ? s.channels : s.outputs, channels = turned ? s.outputs : s.channels;
  const std::int64_t output_step = turned ? 9 : s.channels * 9, channel_step = turned ? s.channels * 9 : 9;
  parallel_tasks(outputs / lanes, [&](std::int64_t group, int) {
    const std::int64_t o = group * lanes;
    for (std::int64_t c = 0; c < channels; ++c) {
      const float* const from = weight + o * output_step + c * channel_step;
      Vector taps[3][3];  // a lane per output
      for (int tap = 0; tap < 9; ++tap)
        for (int lane = 0; lane < lanes; ++lane)
          taps[tap / 3][tap % 3][lane] = from[lane * output_step + (turned ? 8 - tap : tap)];
      both_axes<typename Filter<m>::Weight>(
          [&](int j, auto& numbers) {
            for (int i = 0; i < 3; ++i) numbers[i] = taps[i][j];
          },
          [&](int i, const auto& numbers) {
            for (int j = 0; j < tile; ++j)
              store(out + (((i * tile + j) * outputs + o / panel::width * panel::width) * channels + c * panel::width +
                           o % panel::width),
                    numbers[j]);
          });
    }
  });
}

constexpr std::int64_t depth_at_once = 256;  // rows of a panel: 16 KiB, half of L1

/// Number of calls of `between` by `multiply`.
std::int64_t calls_of_multiply(std::int64_t rows, std::int64_t channels, std::int64_t outputs) {
  return (channels + depth_at_once - 1) / depth_at_once * (outputs / panel::width) *
         ((rows + panel::max_rows - 1) / panel::max_rows);
}

/// products [rows, outputs] = inputs [rows, channels] · panels [outputs / 16, channels, 16] for one position. `between`
/// is called before each tile of the product. Not inlined, so that the sums stay in registers.
template <class F>
[[gnu::noinline]] void multiply(std::int64_t rows, std::int64_t channels, std::int64_t outputs, const float* inputs,
                                const float* panels, float* products, const F& between) {
  for (std::int64_t k = 0; k < channels; k += depth_at_once) {
    const std::int64_t depth = std::min(depth_at_once, channels - k);
    for (std::int64_t o = 0; o < outputs; o += panel::width)
      for (std::int64_t row = 0; row < rows; row += panel::max_rows) {
        between();
        panel::multiply(std::min<std::int64_t>(panel::max_rows, rows - row), depth, inputs + row * channels + k,
                        channels, 1, panels + o * channels + k * panel::width, products + row * outputs + o, outputs,
                        k > 0);
      }
  }
}

constexpr std::int64_t unit = 12;  // tiles: a multiple of every kernel's rows

/// Tiles that a thread handles together: at least `min`, to reuse the weights of a position while they are in cache,
/// and as many more as keep their transforms in L2.
std::int64_t tiles_at_once(std::int64_t min, std::int64_t places, std::int64_t channels, std::int64_t outputs,
                           std::int64_t tiles) {
  constexpr std::int64_t bytes = 384 << 10;
  const std::int64_t fitting = bytes / (places * (channels + outputs) * static_cast<std::int64_t>(sizeof(float)));
  const std::int64_t share = (tiles + threads() - 1) / threads();
  return std::min(std::clamp<std::int64_t>(fitting, min, 192), share + unit - 1) / unit * unit;
}

Tensor scratch(const Tensor& like, const Shape& shape) {
  return Tensor::empty(shape, DType::f32, like.device(), Purpose::workspace);
}

/// out (+)= in * weight (+ bias). `turned`: in is dy and out is dx.
template <class T, int m>
void convolve(const ConvShape& s, const Tensor& in, const Tensor& weight, const Tensor& bias, const Tensor& out,
              bool turned, bool add) {
  constexpr int places = places_of<m>;
  const std::int64_t channels = turned ? s.outputs : s.channels, outputs = turned ? s.channels : s.outputs;
  const Tiles<m> tiles(s);
  const std::int64_t block = tiles_at_once(24, places, channels, outputs, tiles.count);
  const std::int64_t in_stride = stack_stride(block * channels), out_stride = stack_stride(block * outputs);
  const Tensor weights = scratch(out, {places, outputs, channels});
  const Tensor inputs = scratch(out, {threads(), places, in_stride});
  const Tensor products = scratch(out, {threads(), places, out_stride});
  if (out.device() == Device::meta) return;
  transform_weights<m>(s, weight.data<float>(), turned, weights.data<float>());
  const float* const shift = bias.defined() ? bias.data<float>() : nullptr;
  parallel_tasks((tiles.count + block - 1) / block, [&](std::int64_t task, int thread) {
    const Stack v{inputs.data<float>() + thread * places * in_stride, in_stride};
    const Stack p{products.data<float>() + thread * places * out_stride, out_stride};
    const std::int64_t begin = task * block, end = std::min(tiles.count, begin + block);
    transform_tiles<typename Filter<m>::Input>(tiles, in.data<T>(), channels, begin, end, v, RowMajor{channels});
    // The products are compute-bound: meanwhile prefetch the next tiles and the results.
    const std::int64_t calls = places * calls_of_multiply(end - begin, channels, outputs);
    Prefetch next(tiles, in.data<T>(), channels, end, std::min(tiles.count, end + block), calls);
    Prefetch results(tiles, out.data<T>(), outputs, begin, end, calls);
    for (int place = 0; place < places; ++place)
      multiply(end - begin, channels, outputs, v.data + place * in_stride,
               weights.data<float>() + place * outputs * channels, p.data + place * out_stride, [&] {
                 next();
                 results();
               });
    write_results(tiles, p, outputs, shift, begin, end, add, out.data<T>());
  });
}

/// dweight from sums over tiles [parts, positions, C, O], which are added in order.
template <int m>
void write_weight(const ConvShape& s, const float* sums, int parts, bool add, float* dweight) {
  constexpr int tile = Filter<m>::tile;
  const std::int64_t matrix = s.channels * s.outputs;
  parallel_tasks(s.channels, [&](std::int64_t c, int) {
    for (std::int64_t o = 0; o < s.outputs; o += lanes) {
      both_axes<typename Filter<m>::WeightBack>(
          [&](int j, auto& numbers) {
            for (int i = 0; i < tile; ++i) {
              const float* from = sums + (i * tile + j) * matrix + c * s.outputs + o;
              numbers[i] = load(from);
              for (int p = 1; p < parts; ++p) numbers[i] += load(from += tile * tile * matrix);
            }
          },
          [&](int i, const auto& numbers) {
            for (int j = 0; j < 3; ++j)
              for (int lane = 0; lane < lanes; ++lane) {
                float& to = dweight[((o + lane) * s.channels + c) * 9 + 3 * i + j];
                to = add ? to + numbers[j][lane] : numbers[j][lane];
              }
          });
    }
  });
}

/// The weight gradient as a sum over tiles for each position: sums [positions, C, O] (+)= Vᵀ · G, with V the
/// transformed inputs and G the transformed output gradients.
template <class T, int m>
struct WeightGradient {
  static constexpr int places = places_of<m>;
  const ConvShape& s;
  Tiles<m> tiles;
  std::int64_t block;  // tiles at once
  std::int64_t in_stride = stack_stride(block * s.channels), out_stride = stack_stride(block * s.outputs);

  void transform(const Tensor& x, const Tensor& dy, std::int64_t first, std::int64_t begin, std::int64_t end,
                 float* inputs, float* outputs) const {
    const Stack v{inputs + first * s.channels, in_stride}, g{outputs + first * panel::width, out_stride};
    transform_tiles<typename Filter<m>::Input>(tiles, x.data<T>(), s.channels, begin, end, v, RowMajor{s.channels});
    transform_tiles<typename Filter<m>::OutputBack>(tiles, dy.data<T>(), s.outputs, begin, end, g, Panels{block});
  }
  /// Number of strips of channels that are multiplied at a time.
  std::int64_t strips() const { return (s.channels + panel::max_rows - 1) / panel::max_rows; }

  /// Columns of panel `o` for one position. `between` is called before each strip.
  template <class F>
  void multiply(std::int64_t rows, std::int64_t place, std::int64_t o, const float* inputs, const float* outputs,
                float* sums, bool add, const F& between) const {
    float* const sum = sums + place * s.channels * s.outputs + o * panel::width;  // [C, O]
    for (std::int64_t i = 0; i < strips(); ++i) {  // strips of even height: a short one would be bound by latency
      between();
      const Range c = part(s.channels, i, strips());
      panel::multiply(c.end - c.begin, rows, inputs + place * in_stride + c.begin, 1, s.channels,
                      outputs + place * out_stride + o * block * panel::width, sum + c.begin * s.outputs, s.outputs,
                      add);
    }
  }
};

/// Each thread adds its own tiles to its own sums.
template <class T, int m>
void sum_apart(const ConvShape& s, const Tensor& x, const Tensor& dy, const Tensor& dweight, bool add) {
  const Tiles<m> tiles(s);
  const WeightGradient<T, m> work{s, tiles,
                                  tiles_at_once(48, WeightGradient<T, m>::places, s.channels, s.outputs, tiles.count)};
  const std::int64_t size = work.places * s.channels * s.outputs;
  const Tensor inputs = scratch(dweight, {threads(), work.places, work.in_stride});
  const Tensor outputs = scratch(dweight, {threads(), work.places, work.out_stride});
  const Tensor sums = scratch(dweight, {threads(), size});
  if (dweight.device() == Device::meta) return;
  const std::int64_t parts = std::min<std::int64_t>(threads(), tiles.count);
  parallel_tasks(parts, [&](std::int64_t index, int) {
    const Range own = part(tiles.count, index, parts);
    float* const v = inputs.data<float>() + index * work.places * work.in_stride;
    float* const g = outputs.data<float>() + index * work.places * work.out_stride;
    for (std::int64_t begin = own.begin; begin < own.end; begin += work.block) {
      const std::int64_t end = std::min(own.end, begin + work.block);
      work.transform(x, dy, 0, begin, end, v, g);
      const std::int64_t next = std::min(own.end, end + work.block);
      const std::int64_t panels = s.outputs / panel::width, calls = work.places * panels * work.strips();
      Prefetch x_next(tiles, x.data<T>(), s.channels, end, next, calls);
      Prefetch dy_next(tiles, dy.data<T>(), s.outputs, end, next, calls);
      for (std::int64_t place = 0; place < work.places; ++place)
        for (std::int64_t o = 0; o < panels; ++o)
          work.multiply(end - begin, place, o, v, g, sums.data<float>() + index * size, begin > own.begin, [&] {
            x_next();
            dy_next();
          });
    }
  });
  write_weight<m>(s, sums.data<float>(), static_cast<int>(parts), add, dweight.data<float>());
}

/// All threads transform a block of tiles, then divide its positions and panels: one set of sums.
template <class T, int m>
void sum_together(const ConvShape& s, const Tensor& x, const Tensor& dy, const Tensor& dweight, bool add) {
  const Tiles<m> tiles(s);
  const WeightGradient<T, m> work{s, tiles, std::min<std::int64_t>(192, (tiles.count + unit - 1) / unit * unit)};
  const Tensor inputs = scratch(dweight, {work.places, work.in_stride});
  const Tensor outputs = scratch(dweight, {work.places, work.out_stride});
  const Tensor sums = scratch(dweight, {work.places, s.channels, s.outputs});
  if (dweight.device() == Device::meta) return;
  for (std::int64_t begin = 0; begin < tiles.count; begin += work.block) {
    const std::int64_t rows = std::min(tiles.count - begin, work.block);
    parallel_for(rows, 1, [&](std::int64_t first, std::int64_t last) {
      work.transform(x, dy, first, begin + first, begin + last, inputs.data<float>(), outputs.data<float>());
    });
    const std::int64_t panels = s.outputs / panel::width;
    parallel_tasks(work.places * panels, [&](std::int64_t task, int) {
      work.multiply(rows, task / panels, task % panels, inputs.data<float>(), outputs.data<float>(), sums.data<float>(),
                    begin > 0, [] {});
    });
  }
  write_weight<m>(s, sums.data<float>(), 1, add, dweight.data<float>());
}

/// Calls `f` with the type of the images and the m that needs fewer products: 4, unless much of the large tiles would
/// be outside the image.
template <class F>
void with_form(const ConvShape& s, DType images, const F& f) {
  const auto with_results = [&]<class T>(Type<T> type) {
    if (places_of<4> * Tiles<4>(s).count <= places_of<2> * Tiles<2>(s).count)
      f(type, std::integral_constant<int, 4>{});
    else
      f(type, std::integral_constant<int, 2>{});
  };
  if (images == DType::bf16)
    with_results(Type<bf16>{});
  else
    with_results(Type<float>{});
}

}  // namespace

bool takes(const ConvShape& s) {
  return s.kernel_height == 3 && s.kernel_width == 3 && s.stride == 1 && s.padding == 1 && s.groups == 1 &&
         s.channels % panel::width == 0 && s.outputs % panel::width == 0;
}

void forward(const ConvShape& shape, const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& y) {
  with_form(shape, x.dtype(), [&]<class T, int m>(Type<T>, std::integral_constant<int, m>) {
    convolve<T, m>(shape, x, weight, bias, y, false, false);
  });
}

void gradient_of_input(const ConvShape& shape, const Tensor& dy, const Tensor& weight, const Tensor& dx, bool add) {
  with_form(shape, dy.dtype(), [&]<class T, int m>(Type<T>, std::integral_constant<int, m>) {
    convolve<T, m>(shape, dy, weight, {}, dx, true, add);
  });
}

void gradient_of_weight(const ConvShape& s, const Tensor& x, const Tensor& dy, const Tensor& dweight, bool add) {
  with_form(s, dy.dtype(), [&]<class T, int m>(Type<T>, std::integral_constant<int, m>) {
    if (s.channels * s.outputs <= 128 * 128)  // larger sums do not stay in a thread's L2
      sum_apart<T, m>(s, x, dy, dweight, add);
    else
      sum_together<T, m>(s, x, dy, dweight, add);
  });
}

}  // namespace lacuna::winograd
