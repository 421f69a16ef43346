// Winograd's minimal filtering F(2x2, 3x3) (Lavin and Gray 2016, section 4.1): a 3x3 convolution of stride 1 with 16
// products where the definition has 36. Tiles of 4x4 pixels are transformed, multiplied for each of the 16 places of a
// tile as matrices over channels, and transformed back to 2x2 results. Its rounding errors are those of the plain sum.
#include "core/parallel.h"
#include "ops/conv_kernels.h"
#include "ops/panel_kernel.h"

#include <algorithm>

namespace lacuna::winograd {
namespace {

using panel::lanes;
using panel::load;
using panel::store;
using panel::Vector;

constexpr int places = 16;  // of a transformed tile

/// Four numbers to four: the rows of Bᵀ.
template <class V>
void transform_input(const V (&d)[4], V (&out)[4]) {
  out[0] = d[0] - d[2];
  out[1] = d[1] + d[2];
  out[2] = d[2] - d[1];
  out[3] = d[1] - d[3];
}
/// Three to four: G.
template <class V>
void transform_weight(const V (&g)[3], V (&out)[4]) {
  const V outer = (g[0] + g[2]) * 0.5F, inner = g[1] * 0.5F;
  out[0] = g[0];
  out[1] = outer + inner;
  out[2] = outer - inner;
  out[3] = g[2];
}
/// Four to three: Gᵀ.
template <class V>
void transform_weight_back(const V (&u)[4], V (&out)[3]) {
  const V outer = (u[1] + u[2]) * 0.5F;
  out[0] = u[0] + outer;
  out[1] = (u[1] - u[2]) * 0.5F;
  out[2] = outer + u[3];
}
/// Four to two: Aᵀ.
template <class V>
void transform_output(const V (&m)[4], V (&out)[2]) {
  out[0] = m[0] + m[1] + m[2];
  out[1] = m[1] - m[2] - m[3];
}
/// Two to four: A.
template <class V>
void transform_output_back(const V (&y)[2], V (&out)[4]) {
  out[0] = y[0];
  out[1] = y[0] + y[1];
  out[2] = y[0] - y[1];
  out[3] = -y[1];
}

/// Applies a transform of `from` numbers to `to` along both axes of a square.
template <int from, int to, class V, class F>
void both_axes(const V (&in)[from][from], V (&out)[to][to], F&& transform) {
  V half[from][to];  // transformed along columns, transposed
  for (int j = 0; j < from; ++j) {
    V column[from];
    for (int i = 0; i < from; ++i) column[i] = in[i][j];
    transform(column, half[j]);
  }
  for (int i = 0; i < to; ++i) {
    V row[from];
    for (int j = 0; j < from; ++j) row[j] = half[j][i];
    transform(row, out[i]);
  }
}

/// Images cut into tiles of 2x2 results, numbered through all images.
struct Tiles {
  std::int64_t height, width;  // of an image
  std::int64_t down, across;   // tiles of an image

  explicit Tiles(const ConvShape& s)
      : height(s.height), width(s.width), down((s.height + 1) / 2), across((s.width + 1) / 2) {}

  struct Place {
    std::int64_t image, row, column;  // row and column of the first result
  };
  Place operator[](std::int64_t tile) const {
    const std::int64_t in_image = tile % (down * across);
    return {tile / (down * across), in_image / across * 2, in_image % across * 2};
  }
};

/// One matrix a place, `stride` elements apart: off the powers of two, which would all fall into one set of the cache.
struct Stack {
  float* data;
  std::int64_t stride;
};
std::int64_t stack_stride(std::int64_t elements) { return elements + 16; }

/// Where the transform of a tile's channels [c, c + lanes) goes: its place among `rows` x channels in a stack.
struct RowMajor {
  std::int64_t channels;
  std::int64_t operator()(std::int64_t tile, std::int64_t c) const { return tile * channels + c; }
};
struct Panels {
  std::int64_t tiles;
  std::int64_t operator()(std::int64_t tile, std::int64_t c) const {
    return (c / panel::width * tiles + tile) * panel::width + c % panel::width;
  }
};

/// Reads `extent`² pixels from (row, column) on, zero outside the image, transforms and stores them.
template <int extent, class Layout, class F>
void transform_tiles(const Tiles& tiles, const float* images, std::int64_t channels, std::int64_t begin,
                     std::int64_t end, const Stack& out, const Layout& layout, F&& transform) {
  constexpr std::int64_t before = extent == 4 ? 1 : 0;  // pixels that an input tile reaches back
  for (std::int64_t tile = begin; tile < end; ++tile) {
    const auto [image, first_row, first_column] = tiles[tile];
    const float* const from = images + image * tiles.height * tiles.width * channels;  // [H, W, C]
    const float* pixels[extent][extent];                                               // null: outside
    for (std::int64_t i = 0; i < extent; ++i)
      for (std::int64_t j = 0; j < extent; ++j) {
        const std::int64_t row = first_row + i - before, column = first_column + j - before;
        const bool inside = row >= 0 && row < tiles.height && column >= 0 && column < tiles.width;
        pixels[i][j] = inside ? from + (row * tiles.width + column) * channels : nullptr;
      }
    for (std::int64_t c = 0; c < channels; c += lanes) {
      Vector in[extent][extent], transformed[4][4];
      for (int i = 0; i < extent; ++i)
        for (int j = 0; j < extent; ++j) in[i][j] = pixels[i][j] == nullptr ? Vector{} : load(pixels[i][j] + c);
      both_axes(in, transformed, transform);
      float* const to = out.data + layout(tile - begin, c);
      for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 4; ++j) store(to + (4 * i + j) * out.stride, transformed[i][j]);
    }
  }
}

/// Transforms products [16, tiles, outputs] back and writes the results that lie inside the image: with the bias, or
/// added to what is there.
void write_results(const Tiles& tiles, const Stack& products, std::int64_t outputs, const float* bias,
                   std::int64_t begin, std::int64_t end, bool add, float* images) {
  for (std::int64_t tile = begin; tile < end; ++tile) {
    const auto [image, row, column] = tiles[tile];
    float* const to = images + ((image * tiles.height + row) * tiles.width + column) * outputs;
    const bool below = row + 1 < tiles.height, beside = column + 1 < tiles.width;
    for (std::int64_t o = 0; o < outputs; o += lanes) {
      Vector in[4][4], out[2][2];
      const float* const from = products.data + (tile - begin) * outputs + o;
      for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 4; ++j) in[i][j] = load(from + (4 * i + j) * products.stride);
      both_axes(in, out, [](const auto& m, auto& r) { transform_output(m, r); });
      const Vector shift = bias == nullptr ? Vector{} : load(bias + o);
      const auto write = [&](float* result, const Vector& value) {
        store(result, value + (add ? load(result) : shift));
      };
      write(to + o, out[0][0]);
      if (beside) write(to + outputs + o, out[0][1]);
      if (below) write(to + tiles.width * outputs + o, out[1][0]);
      if (below && beside) write(to + (tiles.width + 1) * outputs + o, out[1][1]);
    }
  }
}

/// Weights as panels: [16 places][outputs / 16][channels][16].
/// `turned`: those of the gradient of the input, whose outputs are the channels, with the taps in reverse.
void transform_weights(const ConvShape& s, const float* weight, bool turned, float* out) {
  const std::int64_t outputs = turned ? s.channels : s.outputs, channels = turned ? s.outputs : s.channels;
  const std::int64_t output_step = turned ? 9 : s.channels * 9, channel_step = turned ? s.channels * 9 : 9;
  parallel_tasks(outputs / lanes, [&](std::int64_t group, int) {
    const std::int64_t o = group * lanes;
    for (std::int64_t c = 0; c < channels; ++c) {
      const float* const from = weight + o * output_step + c * channel_step;
      Vector taps[3][3], transformed[4][4];
      for (int tap = 0; tap < 9; ++tap) {
        Vector value{};
        for (int lane = 0; lane < lanes; ++lane) value[lane] = from[lane * output_step + (turned ? 8 - tap : tap)];
        taps[tap / 3][tap % 3] = value;
      }
      both_axes(taps, transformed, [](const auto& g, auto& r) { transform_weight(g, r); });
      for (int place = 0; place < places; ++place)
        store(out + ((place * outputs + o / panel::width * panel::width) * channels + c * panel::width +
                     o % panel::width),
              transformed[place / 4][place % 4]);
    }
  });
}

constexpr std::int64_t depth_at_once = 256;  // of a panel: 16 KiB, half the first-level cache

/// products [rows, outputs] = inputs [rows, channels] · panels [outputs / 16, channels, 16] for one place.
void multiply(std::int64_t rows, std::int64_t channels, std::int64_t outputs, const float* inputs, const float* panels,
              float* products) {
  for (std::int64_t k = 0; k < channels; k += depth_at_once) {
    const std::int64_t depth = std::min(depth_at_once, channels - k);
    for (std::int64_t o = 0; o < outputs; o += panel::width)
      for (std::int64_t row = 0; row < rows; row += panel::max_rows)
        panel::multiply(std::min<std::int64_t>(panel::max_rows, rows - row), depth, inputs + row * channels + k,
                        channels, 1, panels + o * channels + k * panel::width, products + row * outputs + o, outputs,
                        k > 0);
  }
}

/// Tiles a thread takes at once: enough to make use of the weights while they are in cache, few enough for their
/// transforms to stay near.
std::int64_t tiles_at_once(std::int64_t channels, std::int64_t outputs, std::int64_t tiles) {
  constexpr std::int64_t bytes = 512 << 10;
  const std::int64_t fitting = bytes / (places * (channels + outputs) * static_cast<std::int64_t>(sizeof(float)));
  const std::int64_t share = (tiles + threads() - 1) / threads();
  const std::int64_t unit = 12;  // a multiple of every kernel's rows
  return std::min(std::clamp<std::int64_t>(fitting, 48, 192), share + unit - 1) / unit * unit;
}

/// y = in * weights, both given as a convolution of stride 1 and padding 1 sees them.
void convolve(const ConvShape& s, const Tensor& in, const Tensor& weight, const Tensor& bias, const Tensor& out,
              bool turned, bool add) {
  const std::int64_t channels = turned ? s.outputs : s.channels, outputs = turned ? s.channels : s.outputs;
  const Tiles tiles(s);
  const std::int64_t count = s.images * tiles.down * tiles.across, block = tiles_at_once(channels, outputs, count);
  const std::int64_t in_stride = stack_stride(block * channels), out_stride = stack_stride(block * outputs);
  const auto scratch = [&](const Shape& shape) {
    return Tensor::empty(shape, DType::f32, out.device(), Purpose::workspace);
  };
  const Tensor weights = scratch({places, outputs, channels});
  const Tensor inputs = scratch({threads(), places, in_stride}), products = scratch({threads(), places, out_stride});
  launch(out.device(), [&] {
    transform_weights(s, weight.data<float>(), turned, weights.data<float>());
    const float* const shift = bias.defined() ? bias.data<float>() : nullptr;
    parallel_tasks((count + block - 1) / block, [&](std::int64_t task, int thread) {
      const Stack v{inputs.data<float>() + thread * places * in_stride, in_stride};
      const Stack m{products.data<float>() + thread * places * out_stride, out_stride};
      const std::int64_t begin = task * block, end = std::min(count, begin + block);
      transform_tiles<4>(tiles, in.data<float>(), channels, begin, end, v, RowMajor{channels},
                         [](const auto& d, auto& r) { transform_input(d, r); });
      for (int place = 0; place < places; ++place)
        multiply(end - begin, channels, outputs, v.data + place * in_stride,
                 weights.data<float>() + place * outputs * channels, m.data + place * out_stride);
      write_results(tiles, m, outputs, shift, begin, end, add, out.data<float>());
    });
  });
}

}  // namespace

bool takes(const ConvShape& s) {
  return s.kernel_height == 3 && s.kernel_width == 3 && s.stride == 1 && s.padding == 1 && s.groups == 1 &&
         s.channels % panel::width == 0 && s.outputs % panel::width == 0;
}

void forward(const ConvShape& shape, const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& y) {
  convolve(shape, x, weight, bias, y, false, false);
}

void gradient_of_input(const ConvShape& shape, const Tensor& dy, const Tensor& weight, const Tensor& dx, bool add) {
  convolve(shape, dy, weight, {}, dx, true, add);
}

void gradient_of_weight(const ConvShape& s, const Tensor& x, const Tensor& dy, const Tensor& dweight, bool add) {
  const Tiles tiles(s);
  const std::int64_t count = s.images * tiles.down * tiles.across;
  const std::int64_t block = std::min<std::int64_t>(192, (count + 11) / 12 * 12);
  const std::int64_t in_stride = stack_stride(block * s.channels), out_stride = stack_stride(block * s.outputs);
  const auto scratch = [&](const Shape& shape) {
    return Tensor::empty(shape, DType::f32, dweight.device(), Purpose::workspace);
  };
  const Tensor inputs = scratch({places, in_stride}), outputs = scratch({places, out_stride});
  const Tensor sums = scratch({places, s.channels, s.outputs});
  launch(dweight.device(), [&] {
    const Stack v{inputs.data<float>(), in_stride}, g{outputs.data<float>(), out_stride};
    for (std::int64_t begin = 0; begin < count; begin += block) {
      const std::int64_t end = std::min(count, begin + block), rows = end - begin;
      parallel_for(rows, 1, [&](std::int64_t first, std::int64_t last) {
        const Stack own_v{v.data + first * s.channels, in_stride};
        transform_tiles<4>(tiles, x.data<float>(), s.channels, begin + first, begin + last, own_v, RowMajor{s.channels},
                           [](const auto& d, auto& r) { transform_input(d, r); });
        const Stack own_g{g.data + first * panel::width, out_stride};
        transform_tiles<2>(tiles, dy.data<float>(), s.outputs, begin + first, begin + last, own_g, Panels{block},
                           [](const auto& d, auto& r) { transform_output_back(d, r); });
      });
      const std::int64_t panels = s.outputs / panel::width;
      parallel_tasks(places * panels, [&](std::int64_t task, int) {
        const std::int64_t place = task / panels, o = task % panels;
        float* const sum = sums.data<float>() + place * s.channels * s.outputs + o * panel::width;  // [C, O]
        for (std::int64_t c = 0; c < s.channels; c += panel::max_rows)
          panel::multiply(std::min<std::int64_t>(panel::max_rows, s.channels - c), rows, v.data + place * in_stride + c,
                          1, s.channels, g.data + place * out_stride + o * block * panel::width, sum + c * s.outputs,
                          s.outputs, begin > 0);
      });
    }
    parallel_tasks(s.channels, [&](std::int64_t c, int) {
      for (std::int64_t o = 0; o < s.outputs; o += lanes) {
        Vector transformed[4][4], taps[3][3];
        for (int place = 0; place < places; ++place)
          transformed[place / 4][place % 4] = load(sums.data<float>() + (place * s.channels + c) * s.outputs + o);
        both_axes(transformed, taps, [](const auto& u, auto& r) { transform_weight_back(u, r); });
        for (int tap = 0; tap < 9; ++tap)
          for (int lane = 0; lane < lanes; ++lane) {
            float& to = dweight.data<float>()[((o + lane) * s.channels + c) * 9 + tap];
            const float value = taps[tap / 3][tap % 3][lane];
            to = add ? to + value : value;
          }
      }
    });
  });
}

}  // namespace lacuna::winograd
