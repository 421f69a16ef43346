// Weights of a convolution packed as panels of 16 columns: the right factor of gather and winograd.
#pragma once

#include "core/parallel.h"
#include "ops/convolution/conv_algorithms.h"
#include "ops/products/panel_kernel.h"

#include <numeric>
#include <vector>

namespace lacuna::panel {

/// A convolution as matrix products over gathered pixels: each row (a pixel of the result) is the sum over taps of
/// `depth` contiguous numbers times a matrix [depth, columns]. Convolution groups narrower than a panel are merged;
/// weights between different groups are then 0.
struct Layout {
  std::int64_t groups;             // independent products
  std::int64_t depth, columns;     // of a product, per tap
  std::vector<std::int64_t> taps;  // indices into the kernel, row-major; a merged tap is a row of the kernel
  bool turned;                     // for the input gradient: columns are channels
  bool merged;                     // a tap is a whole row of the kernel

  std::int64_t panels() const { return (columns + width - 1) / width; }
  std::int64_t tap_count() const { return static_cast<std::int64_t>(taps.size()); }
  /// Elements of one group's panels [panels, taps, depth, 16], and of all groups.
  std::int64_t group_size() const { return panels() * tap_count() * depth * width; }
  std::int64_t size() const { return groups * group_size(); }
};

inline Layout layout_of(const ConvShape& s, bool turned, bool merged, std::vector<std::int64_t> taps) {
  const std::int64_t outputs = s.outputs / s.groups, channels = s.channels / s.groups;
  // The smallest number of groups that gives whole panels in both directions.
  std::int64_t together = 1;
  while (together < s.groups &&
         (together * outputs % width != 0 || together * channels % width != 0 || s.groups % together != 0))
    ++together;
  const std::int64_t in = channels * together * (merged ? s.kernel_width : 1), out = outputs * together;
  return {s.groups / together, turned ? out : in, turned ? in : out, std::move(taps), turned, merged};
}

/// Calls `f(index in the weight tensor, index in the panels)` for every weight of the layout's taps, on all threads;
/// each output channel is handled by one thread.
template <class F>
void for_weights(const ConvShape& s, const Layout& layout, const F& f) {
  const std::int64_t outputs = s.outputs / s.groups, channels = s.channels / s.groups;
  const std::int64_t area = s.kernel_height * s.kernel_width, together = s.groups / layout.groups;
  parallel_tasks(s.outputs, [&](std::int64_t o, int) {
    const std::int64_t group = o / outputs, product = group / together;
    const std::int64_t output = o - product * together * outputs;        // within the product
    const std::int64_t first = (group - product * together) * channels;  // channel within the product
    for (std::int64_t t = 0; t < layout.tap_count(); ++t)
      for (std::int64_t q = 0; q < (layout.merged ? s.kernel_width : 1); ++q) {
        const std::int64_t tap = layout.merged ? layout.taps[static_cast<std::size_t>(t)] * s.kernel_width + q
                                               : layout.taps[static_cast<std::size_t>(t)];
        const std::int64_t base = product * layout.group_size() + t * layout.depth * width;
        const std::int64_t panel_size = layout.tap_count() * layout.depth * width;
        const std::int64_t file = o * channels * area + tap;
        if (layout.turned) {
          for (std::int64_t c = 0; c < channels; ++c) {
            const std::int64_t column = first + c;
            f(file + c * area, base + column / width * panel_size + output * width + column % width);
          }
        } else {
          const std::int64_t to = base + output / width * panel_size + output % width;
          const std::int64_t row = layout.merged ? q * channels : first;
          for (std::int64_t c = 0; c < channels; ++c) f(file + c * area, to + (row + c) * width);
        }
      }
  });
}

/// Whether every element of the panels has a weight, so that none has to be zeroed.
inline bool is_full(const ConvShape& s, const Layout& layout) {
  return layout.groups == s.groups && layout.columns % width == 0;
}

inline std::vector<std::int64_t> numbers(std::int64_t count) {
  std::vector<std::int64_t> all(static_cast<std::size_t>(count));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

/// Whether a row of the kernel is one tap: with few channels it is faster to pad the images first.
inline bool is_merged(const ConvShape& s) { return s.groups == 1 && s.channels < width && s.kernel_width > 1; }

/// Padded images [N, top + H + bottom, left + W + right, C], a workspace.
inline Tensor padded(const ConvShape& s, const Tensor& x) {
  const std::int64_t height = s.padding.top + s.height + s.padding.bottom,
                     across = s.padding.left + s.width + s.padding.right;
  Tensor out = Tensor::empty({s.images, height, across, s.channels}, DType::f32, x.device(), Purpose::workspace);
  if (x.device() == Device::meta) return out;
  parallel_tasks(s.images * height, [&](std::int64_t row, int) {
    float* to = out.data<float>() + row * across * s.channels;  // [left + W + right, C]
    const std::int64_t h = row % height - s.padding.top;
    if (h < 0 || h >= s.height) {
      std::fill_n(to, across * s.channels, 0.0F);
      return;
    }
    const float* const from = x.data<float>() + (row / height * s.height + h) * s.width * s.channels;  // [W, C]
    to = std::fill_n(to, s.padding.left * s.channels, 0.0F);
    to = std::copy_n(from, s.width * s.channels, to);
    std::fill_n(to, s.padding.right * s.channels, 0.0F);
  });
  return out;
}

/// Inputs of the output pixels: for each tap a pointer to [depth] contiguous numbers, null outside the image.
struct Sources {
  ConvShape shape;
  const float* x;  // [N, H, W, C], padded where `merged`
  bool merged;

  std::int64_t rows() const { return shape.images * shape.out_height() * shape.out_width(); }

  /// Calls `f(index in taps, pointer or null)` for output pixel `row`.
  template <class F>
  void operator()(std::int64_t row, const std::vector<std::int64_t>& taps, F&& f) const {
    const std::int64_t j = row % shape.out_width(), i = row / shape.out_width() % shape.out_height();
    const std::int64_t image = row / (shape.out_width() * shape.out_height());
    const Padding& zeros = shape.padding;
    const std::int64_t height = shape.height + (merged ? zeros.top + zeros.bottom : 0);
    const std::int64_t across = shape.width + (merged ? zeros.left + zeros.right : 0);
    const float* const from = x + image * height * across * shape.channels;
    for (std::size_t t = 0; t < taps.size(); ++t) {
      const std::int64_t p = merged ? taps[t] : taps[t] / shape.kernel_width;
      const std::int64_t q = merged ? 0 : taps[t] % shape.kernel_width;
      const std::int64_t h = i * shape.stride + p - (merged ? 0 : zeros.top);
      const std::int64_t w = j * shape.stride + q - (merged ? 0 : zeros.left);
      const bool inside = h >= 0 && h < height && w >= 0 && w < across;
      f(t, inside ? from + (h * across + w) * shape.channels : nullptr);
    }
  }
};

}  // namespace lacuna::panel
