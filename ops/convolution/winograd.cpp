// Winograd's minimal filtering F(m x m, 3x3), m = 2 and 4 (Lavin and Gray, "Fast Algorithms for Convolutional Neural
// Networks", 2016, section 4.1): a 3x3 convolution of stride 1 with 16 products for 4 results, or 36 for 16, instead of
// 9 per result. Tiles of (m + 2)² pixels are transformed, multiplied as matrices over channels for each position in the
// tile, and transformed back to m² results. F(2x2) is as accurate as direct sums. F(4x4) is less: for normal operands
// the largest error relative to the largest result is 0.8e-6 at 16 channels, 4.3e-6 at 512 (1.2e-6 for F(2x2)), and
// 1e-6 in the weight gradient of two images. tests/ops/winograd.cpp bounds it by 1e-5.
#include "core/parallel.h"
#include "ops/convolution/conv_algorithms.h"
#include "ops/convolution/winograd_tiles.h"

#include <algorithm>
#include <type_traits>

namespace lacuna::winograd {
namespace {

std::int64_t panels_of(std::int64_t columns) { return in_panels(columns) / panel::width; }

/// The weights as the right factor of the products: those of the input gradient have outputs and channels exchanged,
/// and the taps reversed.
struct Weights {
  const float* data;               // [O, C, 3, 3]
  std::int64_t outputs, channels;  // of the product
  std::int64_t output_step, channel_step;
  bool turned;

  Weights(const ConvShape& s, const float* weight, bool of_input_gradient)
      : data(weight),
        outputs(of_input_gradient ? s.channels : s.outputs),
        channels(of_input_gradient ? s.outputs : s.channels),
        output_step(of_input_gradient ? 9 : s.channels * 9),
        channel_step(of_input_gradient ? s.channels * 9 : 9),
        turned(of_input_gradient) {}

  /// Transforms one panel into `out`, matrices [channels, 16], with zeros for outputs that are not there.
  template <int m>
  void transform(std::int64_t panel, const Stack& out) const {
    constexpr int tile = Filter<m>::tile;
    const std::int64_t at_once = turned ? 1 : lanes;  // channels whose taps lie side by side
    for (std::int64_t o = panel * panel::width; o < (panel + 1) * panel::width; o += lanes)
      for (std::int64_t begin = 0; begin < channels; begin += at_once) {
        const std::int64_t end = std::min(channels, begin + at_once), count = (end - begin) * 9;
        Vector taps[9 * lanes];  // [channels, 9], a lane per output
        for (std::int64_t i = 0; i < count; i += lanes) read(o, begin * channel_step + i, &taps[i]);
        for (std::int64_t c = begin; c < end; ++c)
          both_axes<typename Filter<m>::Weight>(
              [&, own = &taps[(c - begin) * 9]](int j, auto& numbers) {
                for (int i = 0; i < 3; ++i) numbers[i] = own[turned ? 8 - (i * 3 + j) : i * 3 + j];
              },
              [&, to = out.data + c * panel::width + o % panel::width](int i, const auto& numbers) {
                for (int j = 0; j < tile; ++j) store(to + (i * tile + j) * out.stride, numbers[j]);
              });
      }
  }

 private:
  /// Weights `offset` to `offset` + lanes of each output from `o` on, a lane per output.
  void read(std::int64_t o, std::int64_t offset, Vector* to) const {
    Vector square[lanes] = {};
    for (int lane = 0; lane < lanes && o + lane < outputs; ++lane) {
      const std::int64_t at = (o + lane) * output_step + offset;
      square[lane] = load_pixels(data + at, outputs * channels * 9 - at);
    }
    tile::transpose<float>(square);
    std::copy_n(square, lanes, to);
  }
};

constexpr std::int64_t depth_at_once = 256;  // rows of a panel: 16 KiB, half of L1

/// Rows are multiplied in strips of even height: a short one would be bound by latency.
std::int64_t strips_of(std::int64_t rows) { return (rows + panel::max_rows - 1) / panel::max_rows; }

/// Number of calls of `between` by `multiply`.
std::int64_t calls_of_multiply(std::int64_t rows, std::int64_t channels, std::int64_t outputs) {
  return (channels + depth_at_once - 1) / depth_at_once * (outputs / panel::width) * strips_of(rows);
}

/// products [rows, outputs] = inputs [rows, channels], `input_row` apart, · panels [outputs / 16, channels, 16] for one
/// position. `between` is called before each tile of the product. Not inlined, so that the sums stay in registers.
template <class F>
[[gnu::noinline]] void multiply(std::int64_t rows, std::int64_t channels, std::int64_t outputs, const float* inputs,
                                std::int64_t input_row, const float* panels, float* products, const F& between) {
  for (std::int64_t k = 0; k < channels; k += depth_at_once) {
    const std::int64_t depth = std::min(depth_at_once, channels - k);
    for (std::int64_t o = 0; o < outputs; o += panel::width)
      for (std::int64_t i = 0; i < strips_of(rows); ++i) {
        between();
        const Range strip = part(rows, i, strips_of(rows));
        panel::multiply(strip.end - strip.begin, depth, inputs + strip.begin * input_row + k, input_row, 1,
                        panels + o * channels + k * panel::width, products + strip.begin * outputs + o, outputs, k > 0);
      }
  }
}

constexpr std::int64_t unit = 12;          // tiles: a multiple of every kernel's rows
constexpr std::int64_t in_l2 = 384 << 10;  // bytes of operands that several tasks read
constexpr std::int64_t most_tiles = 192;   // at once, for all threads together

/// Whether each thread takes all tiles through panels of its own: the tiles are few enough to be read again for each.
bool takes_panels(std::int64_t tiles, std::int64_t panels) { return tiles <= most_tiles && panels >= threads(); }

/// Tiles that a thread handles together: at least `min`, to reuse the weights of a position while they are in cache,
/// and as many more as keep their transforms in L2.
std::int64_t tiles_at_once(std::int64_t min, std::int64_t places, std::int64_t channels, std::int64_t outputs,
                           std::int64_t tiles) {
  const std::int64_t fitting = in_l2 / (places * (channels + outputs) * static_cast<std::int64_t>(sizeof(float)));
  const std::int64_t share = (tiles + threads() - 1) / threads();
  return std::min(std::clamp<std::int64_t>(fitting, min, most_tiles), share + unit - 1) / unit * unit;
}

Tensor scratch(const Tensor& like, const Shape& shape) {
  return Tensor::empty(shape, DType::f32, like.device(), Purpose::workspace);
}

/// out (+)= in * weight (+ bias). `turned`: in is dy and out is dx.
template <class T, int m>
struct Convolution {
  static constexpr int places = places_of<m>;
  const ConvShape& s;
  const Tensor &in, &weight, &bias, &out;
  bool turned, add;
  std::int64_t channels = turned ? s.outputs : s.channels, outputs = turned ? s.channels : s.outputs;
  std::int64_t depth = in_panels(channels), panels = panels_of(outputs);  // of the matrices
  Tiles<m> tiles = Tiles<m>(s);

  void transform(std::int64_t begin, std::int64_t end, const Stack& to) const {
    transform_tiles<typename Filter<m>::Input>(tiles, in.data<T>(), channels, begin, end, to, RowMajor{depth});
  }
  void write(const Stack& products, const Range& own, std::int64_t begin, std::int64_t end) const {
    write_results(tiles, products, outputs, own, bias.defined() ? bias.data<float>() : nullptr, begin, end, add,
                  out.data<T>());
  }

  /// All weights are transformed first; a task takes a block of tiles through all of them.
  void by_tiles() const {
    const std::int64_t block = tiles_at_once(24, places, channels, outputs, tiles.count), columns = in_panels(outputs);
    const std::int64_t in_stride = stack_stride(block * depth), out_stride = stack_stride(block * columns);
    const Tensor weights = scratch(out, {places, panels, channels, panel::width});
    const Tensor inputs = scratch(out, {threads(), places, in_stride});
    const Tensor products = scratch(out, {threads(), places, out_stride});
    if (out.device() == Device::meta) return;
    const Weights from(s, weight.data<float>(), turned);
    const std::int64_t panel_size = channels * panel::width;
    parallel_tasks(panels, [&](std::int64_t o, int) {
      from.transform<m>(o, {weights.data<float>() + o * panel_size, panels * panel_size});
    });
    parallel_tasks((tiles.count + block - 1) / block, [&](std::int64_t task, int thread) {
      const Stack v{inputs.data<float>() + thread * places * in_stride, in_stride};
      const Stack p{products.data<float>() + thread * places * out_stride, out_stride};
      const std::int64_t begin = task * block, end = std::min(tiles.count, begin + block);
      transform(begin, end, v);
      // The products are compute-bound: meanwhile prefetch the next tiles and the results.
      const std::int64_t calls = places * calls_of_multiply(end - begin, channels, columns);
      Prefetch next(tiles, in.data<T>(), channels, end, std::min(tiles.count, end + block), calls);
      Prefetch results(tiles, out.data<T>(), outputs, begin, end, calls);
      for (int place = 0; place < places; ++place)
        multiply(end - begin, channels, columns, v.data + place * in_stride, depth,
                 weights.data<float>() + place * panels * panel_size, p.data + place * out_stride, [&] {
                   next();
                   results();
                 });
      write(p, {0, panels}, begin, end);
    });
  }

  /// All tiles are transformed first; a task transforms one panel of weights, which stay in L2, and takes all tiles
  /// through them. Transformed weights, four times as large as they are, never reach memory.
  void by_panels() const {
    const std::int64_t block = std::min<std::int64_t>(48, (tiles.count + unit - 1) / unit * unit);
    const std::int64_t in_stride = stack_stride(tiles.count * depth), out_stride = stack_stride(block * panel::width);
    const std::int64_t weight_stride = stack_stride(channels * panel::width);
    const Tensor inputs = scratch(out, {places, in_stride});
    const Tensor weights = scratch(out, {threads(), places, weight_stride});
    const Tensor products = scratch(out, {threads(), places, out_stride});
    if (out.device() == Device::meta) return;
    const Weights from(s, weight.data<float>(), turned);
    parallel_for(tiles.count, 1, [&](std::int64_t begin, std::int64_t end) {
      transform(begin, end, {inputs.data<float>() + begin * depth, in_stride});
    });
    parallel_tasks(panels, [&](std::int64_t o, int thread) {
      const Stack w{weights.data<float>() + thread * places * weight_stride, weight_stride};
      const Stack p{products.data<float>() + thread * places * out_stride, out_stride};
      from.transform<m>(o, w);
      for (std::int64_t begin = 0; begin < tiles.count; begin += block) {
        const std::int64_t end = std::min(tiles.count, begin + block);
        for (int place = 0; place < places; ++place)
          multiply(end - begin, channels, panel::width, inputs.data<float>() + place * in_stride + begin * depth, depth,
                   w.data + place * weight_stride, p.data + place * out_stride, [] {});
        write(p, {o, o + 1}, begin, end);
      }
    });
  }

  void run() const { takes_panels(tiles.count, panels) ? by_panels() : by_tiles(); }
};

/// Panel `panel` of dweight, channels `range`, from their sums over tiles: stacks of [channels, columns] that are added
/// in order.
template <int m>
void write_panel(const ConvShape& s, std::int64_t panel, const Range& range, const Stack& sums, std::int64_t columns,
                 int parts, bool add, float* dweight) {
  constexpr int tile = Filter<m>::tile;
  for (int first = 0; first < panel::width; first += lanes)
    for (std::int64_t begin = range.begin; begin < range.end; begin += lanes) {
      const std::int64_t end = std::min<std::int64_t>(range.end, begin + lanes), count = (end - begin) * 9;
      Vector taps[9 * lanes] = {};  // [channels, 9], a lane per output
      for (std::int64_t c = begin; c < end; ++c)
        both_axes<typename Filter<m>::WeightBack>(
            [&](int j, auto& numbers) {
              for (int i = 0; i < tile; ++i) {
                const float* from = sums.data + (i * tile + j) * sums.stride + (c - range.begin) * columns + first;
                numbers[i] = load(from);
                for (int p = 1; p < parts; ++p) numbers[i] += load(from += tile * tile * sums.stride);
              }
            },
            [&](int i, const auto& numbers) { std::copy_n(numbers, 3, &taps[(c - begin) * 9 + i * 3]); });
      for (std::int64_t i = 0; i < count; i += lanes) {
        Vector square[lanes];
        std::copy_n(&taps[i], lanes, square);
        tile::transpose<float>(square);
        for (int lane = 0; lane < lanes && panel * panel::width + first + lane < s.outputs; ++lane) {
          const std::int64_t output = panel * panel::width + first + lane;
          float* const to = dweight + (output * s.channels + begin) * 9 + i;
          store_pixels(to, add ? load_pixels(to, count - i) + square[lane] : square[lane], count - i);
        }
      }
    }
}

/// The weight gradient as a sum over tiles for each position: sums [positions, C, columns] (+)= Vᵀ · G, with V the
/// transformed inputs and G the transformed output gradients.
template <class T, int m>
struct WeightGradient {
  static constexpr int places = places_of<m>;
  const ConvShape& s;
  const Tensor &x, &dy, &dweight;
  bool add;
  Tiles<m> tiles = Tiles<m>(s);
  std::int64_t depth = in_panels(s.channels), columns = in_panels(s.outputs), panels = panels_of(s.outputs);
  Range all{0, s.channels};

  /// `v`: rows of the tiles from `first` on; `g`: panels of `block` tiles.
  void transform(std::int64_t block, std::int64_t first, std::int64_t begin, std::int64_t end, const Stack& v,
                 const Stack& g) const {
    transform_tiles<typename Filter<m>::Input>(tiles, x.data<T>(), s.channels, begin, end,
                                               {v.data + first * depth, v.stride}, RowMajor{depth});
    transform_tiles<typename Filter<m>::OutputBack>(tiles, dy.data<T>(), s.outputs, begin, end,
                                                    {g.data + first * panel::width, g.stride}, Panels{block});
  }
  /// sums [channels `range`, 16], rows `sum_row` apart, of one position: inputs [rows, C] and a panel [rows, 16].
  /// `between` is called before each strip.
  template <class F>
  void multiply(std::int64_t rows, const Range& range, const float* inputs, const float* panel, float* sums,
                std::int64_t sum_row, bool on, const F& between) const {
    const std::int64_t strips = strips_of(range.end - range.begin);
    for (std::int64_t i = 0; i < strips; ++i) {
      between();
      const Range c = part(range.end - range.begin, i, strips);
      panel::multiply(c.end - c.begin, rows, inputs + range.begin + c.begin, 1, depth, panel, sums + c.begin * sum_row,
                      sum_row, on);
    }
  }

  /// Each thread adds its own tiles to its own sums.
  void apart() const {
    const std::int64_t block = tiles_at_once(48, places, s.channels, s.outputs, tiles.count);
    const std::int64_t in_stride = stack_stride(block * depth), out_stride = stack_stride(block * columns);
    const std::int64_t matrix = s.channels * columns, size = places * matrix;
    const Tensor inputs = scratch(dweight, {threads(), places, in_stride});
    const Tensor outputs = scratch(dweight, {threads(), places, out_stride});
    const Tensor sums = scratch(dweight, {threads(), size});
    if (dweight.device() == Device::meta) return;
    const std::int64_t parts = std::min<std::int64_t>(threads(), tiles.count);
    parallel_tasks(parts, [&](std::int64_t index, int) {
      const Range own = part(tiles.count, index, parts);
      const Stack v{inputs.data<float>() + index * places * in_stride, in_stride};
      const Stack g{outputs.data<float>() + index * places * out_stride, out_stride};
      for (std::int64_t begin = own.begin; begin < own.end; begin += block) {
        const std::int64_t end = std::min(own.end, begin + block);
        transform(block, 0, begin, end, v, g);
        const std::int64_t next = std::min(own.end, end + block), calls = places * panels * strips_of(s.channels);
        Prefetch x_next(tiles, x.data<T>(), s.channels, end, next, calls);
        Prefetch dy_next(tiles, dy.data<T>(), s.outputs, end, next, calls);
        for (std::int64_t place = 0; place < places; ++place)
          for (std::int64_t o = 0; o < panels; ++o)
            multiply(
                end - begin, all, v.data + place * in_stride, g.data + place * out_stride + o * block * panel::width,
                sums.data<float>() + index * size + place * matrix + o * panel::width, columns, begin > own.begin, [&] {
                  x_next();
                  dy_next();
                });
      }
    });
    write(sums, static_cast<int>(parts));
  }

  /// All threads transform a block of tiles, then divide its positions and panels: one set of sums.
  void together() const {
    const std::int64_t block = std::min<std::int64_t>(most_tiles, (tiles.count + unit - 1) / unit * unit);
    const std::int64_t in_stride = stack_stride(block * depth), out_stride = stack_stride(block * columns);
    const std::int64_t matrix = s.channels * columns;
    const Tensor inputs = scratch(dweight, {places, in_stride});
    const Tensor outputs = scratch(dweight, {places, out_stride});
    const Tensor sums = scratch(dweight, {places, matrix});
    if (dweight.device() == Device::meta) return;
    const Stack v{inputs.data<float>(), in_stride}, g{outputs.data<float>(), out_stride};
    for (std::int64_t begin = 0; begin < tiles.count; begin += block) {
      const std::int64_t rows = std::min(tiles.count - begin, block);
      parallel_for(rows, 1, [&](std::int64_t first, std::int64_t last) {
        transform(block, first, begin + first, begin + last, v, g);
      });
      parallel_tasks(places * panels, [&](std::int64_t task, int) {
        const std::int64_t place = task / panels, o = task % panels;
        multiply(rows, all, v.data + place * in_stride, g.data + place * out_stride + o * block * panel::width,
                 sums.data<float>() + place * matrix + o * panel::width, columns, begin > 0, [] {});
      });
    }
    write(sums, 1);
  }

  /// All tiles are transformed first; a task takes some channels and one panel through all of them. Its sums, four
  /// times as large as its part of dweight, stay in L2, as the transformed inputs of its channels do from task to task.
  void by_panels() const {
    const std::int64_t in_stride = stack_stride(tiles.count * depth), out_stride = stack_stride(tiles.count * columns);
    constexpr std::int64_t whole = 48;  // channels: strips and vectors
    const std::int64_t fitting = in_l2 / (places * tiles.count * static_cast<std::int64_t>(sizeof(float)));
    const std::int64_t at_once = std::max(fitting / whole, std::int64_t{1}) * whole;
    const std::int64_t parts = (s.channels + at_once - 1) / at_once;
    const std::int64_t matrix = stack_stride(std::min(at_once, depth) * panel::width);
    const Tensor inputs = scratch(dweight, {places, in_stride});
    const Tensor outputs = scratch(dweight, {places, out_stride});
    const Tensor sums = scratch(dweight, {threads(), places, matrix});
    if (dweight.device() == Device::meta) return;
    const Stack v{inputs.data<float>(), in_stride}, g{outputs.data<float>(), out_stride};
    parallel_for(tiles.count, 1,
                 [&](std::int64_t first, std::int64_t last) { transform(tiles.count, first, first, last, v, g); });
    parallel_tasks(parts * panels, [&](std::int64_t task, int thread) {
      const Range range = part(s.channels, task / panels, parts, lanes);
      const std::int64_t o = task % panels;
      const Stack own{sums.data<float>() + thread * places * matrix, matrix};
      for (std::int64_t place = 0; place < places; ++place)
        multiply(tiles.count, range, v.data + place * in_stride,
                 g.data + place * out_stride + o * tiles.count * panel::width, own.data + place * matrix, panel::width,
                 false, [] {});
      write_panel<m>(s, o, range, own, panel::width, 1, add, dweight.data<float>());
    });
  }

  void write(const Tensor& sums, int parts) const {
    const std::int64_t matrix = s.channels * columns;
    const std::int64_t strips_of_lanes = (s.channels + lanes - 1) / lanes;
    parallel_tasks(strips_of_lanes, [&](std::int64_t i, int) {
      const Range range{i * lanes, std::min<std::int64_t>(s.channels, (i + 1) * lanes)};
      for (std::int64_t o = 0; o < panels; ++o)
        write_panel<m>(s, o, range, {sums.data<float>() + range.begin * columns + o * panel::width, matrix}, columns,
                       parts, add, dweight.data<float>());
    });
  }

  void run() const {
    if (takes_panels(tiles.count, panels))
      by_panels();
    else if (s.channels * s.outputs <= 128 * 128)  // larger sums do not stay in a thread's L2
      apart();
    else
      together();
  }
};

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

/// Whether channels fill panels, or are many and at least three quarters of theirs.
bool fills_panels(std::int64_t channels) {
  return channels % panel::width == 0 || (channels > 2 * panel::width && 3 * in_panels(channels) <= 4 * channels);
}

}  // namespace

bool takes(const ConvShape& s) {
  return s.kernel_height == 3 && s.kernel_width == 3 && s.stride == 1 && s.padding == 1 && s.groups == 1 &&
         fills_panels(s.channels) && fills_panels(s.outputs);
}

void forward(const ConvShape& shape, const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& y) {
  with_form(shape, x.dtype(), [&]<class T, int m>(Type<T>, std::integral_constant<int, m>) {
    Convolution<T, m>{shape, x, weight, bias, y, false, false}.run();
  });
}

void gradient_of_input(const ConvShape& shape, const Tensor& dy, const Tensor& weight, const Tensor& dx, bool add) {
  with_form(shape, dy.dtype(), [&]<class T, int m>(Type<T>, std::integral_constant<int, m>) {
    Convolution<T, m>{shape, dy, weight, {}, dx, true, add}.run();
  });
}

void gradient_of_weight(const ConvShape& shape, const Tensor& x, const Tensor& dy, const Tensor& dweight, bool add) {
  with_form(shape, dy.dtype(), [&]<class T, int m>(Type<T>, std::integral_constant<int, m>) {
    WeightGradient<T, m>{shape, x, dy, dweight, add}.run();
  });
}

}  // namespace lacuna::winograd
