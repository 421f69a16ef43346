// Convolutions of any shape as matrix products whose left rows are read from the image in place, without im2col.
#include "ops/convolution/conv_panels.h"

#include <algorithm>
#include <cstring>

namespace lacuna::gather {
namespace {

using panel::Layout;

constexpr std::int64_t depth_at_once = 256;  // rows of a panel: 16 KiB, half of L1
constexpr std::int64_t block_rows = 96;      // a multiple of every kernel's rows

Tensor scratch(const Shape& shape, Device device, DType dtype = DType::f32) {
  return Tensor::empty(shape, dtype, device, Purpose::workspace);
}

/// Rows of a block: a multiple of `unit`, about `max` at most, such that all threads get equally many blocks.
std::int64_t block_of(std::int64_t rows, std::int64_t max, std::int64_t unit) {
  const std::int64_t blocks = (rows + max - 1) / max, rounds = (blocks + threads() - 1) / threads();
  const std::int64_t block = (rows + rounds * threads() - 1) / (rounds * threads());
  return (block + unit - 1) / unit * unit;
}

Tensor pack(const ConvShape& s, const Layout& layout, const Tensor& weight, const Tensor& packed) {
  if (packed.device() == Device::meta) return packed;
  float* const to = packed.data<float>();
  const float* const from = weight.data<float>();
  if (!panel::is_full(s, layout)) std::memset(to, 0, static_cast<std::size_t>(layout.size()) * sizeof(float));
  panel::for_weights(s, layout, [=](std::int64_t file, std::int64_t place) { to[place] = from[file]; });
  return packed;
}

/// Pointers of one block of rows, in one thread's scratch.
struct Pointers {
  const float** sources;  // [tiles, taps, max_rows]
  float** results;        // [tiles, max_rows]
};

struct PointerScratch {
  std::int64_t sources, results;  // of a thread
  Tensor memory;

  PointerScratch(std::int64_t block, std::int64_t taps, Device device)
      : sources((block / panel::max_rows + 1) * taps * panel::max_rows),
        results((block / panel::max_rows + 1) * panel::max_rows),
        memory(scratch({threads(), sources + results}, device, DType::i64)) {
    static_assert(sizeof(float*) == sizeof(std::int64_t));
  }
  Pointers of(int thread) const {
    auto* const own = reinterpret_cast<float**>(memory.data<std::int64_t>() + thread * (sources + results));
    return {const_cast<const float**>(own), own + sources};
  }
};

/// A product of some rows with one panel, of which the first `valid` columns are used.
void multiply_runs(std::int64_t rows, std::int64_t runs, std::int64_t depth, const float* const* in,
                   std::int64_t offset, const float* weights, float* const* out, std::int64_t column,
                   std::int64_t valid, const float* start, bool add) {
  if (valid >= panel::width) {
    panel::multiply_runs(rows, runs, depth, in, offset, weights, out, column, start, add);
    return;
  }
  float tile[panel::max_rows][panel::width] = {}, first[panel::width] = {};
  float* to[panel::max_rows];
  const auto bytes = static_cast<std::size_t>(valid) * sizeof(float);
  for (std::int64_t r = 0; r < rows; ++r) {
    to[r] = tile[r];
    if (add) std::memcpy(tile[r], out[r] + column, bytes);
  }
  if (start != nullptr) std::memcpy(first, start, bytes);
  panel::multiply_runs(rows, runs, depth, in, offset, weights, to, 0, start == nullptr ? nullptr : first, add);
  for (std::int64_t r = 0; r < rows; ++r) std::memcpy(out[r] + column, tile[r], bytes);
}

/// For each of `rows` rows: result (+)= bias + Σ over taps of source · panel. `sources(row, taps, f)` as in Sources;
/// `result(row)` points to the row's output [groups · columns].
template <class S, class R>
void product(std::int64_t rows, const Layout& layout, const float* weights, const float* bias, bool add,
             const PointerScratch& scratch_memory, std::int64_t block, const float* zeros, const S& sources,
             const R& result) {
  const std::int64_t taps = layout.tap_count(), tap_stride = panel::max_rows;
  const std::int64_t depth = std::min(layout.depth, depth_at_once);
  const std::int64_t runs_at_once = std::max<std::int64_t>(1, depth_at_once / layout.depth);
  parallel_tasks((rows + block - 1) / block, [&](std::int64_t task, int thread) {
    const Pointers pointers = scratch_memory.of(thread);
    const std::int64_t begin = task * block, count = std::min(block, rows - begin);
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t tile = i / panel::max_rows, r = i % panel::max_rows;
      pointers.results[i] = result(begin + i);
      sources(begin + i, layout.taps, [&](std::size_t t, const float* run) {
        pointers.sources[(tile * taps + static_cast<std::int64_t>(t)) * tap_stride + r] = run == nullptr ? zeros : run;
      });
    }
    for (std::int64_t group = 0; group < layout.groups; ++group)
      for (std::int64_t t = 0; t < taps; t += runs_at_once)
        for (std::int64_t k = 0; k < layout.depth; k += depth) {
          const bool first = t == 0 && k == 0;
          for (std::int64_t p = 0; p < layout.panels(); ++p) {
            const std::int64_t column = group * layout.columns + p * panel::width;
            const float* const panels =
                weights + group * layout.group_size() + ((p * taps + t) * layout.depth + k) * panel::width;
            for (std::int64_t i = 0; i < count; i += panel::max_rows)
              multiply_runs(std::min<std::int64_t>(panel::max_rows, count - i), std::min(runs_at_once, taps - t),
                            std::min(depth, layout.depth - k),
                            pointers.sources + (i / panel::max_rows * taps + t) * tap_stride, group * layout.depth + k,
                            panels, pointers.results + i, column, layout.columns - p * panel::width,
                            first && bias != nullptr ? bias + column : nullptr, add || !first);
          }
        }
  });
}

/// The taps of the kernel that reach pixels whose row and column leave the given rests.
std::vector<std::int64_t> taps_reaching(const ConvShape& s, std::int64_t row_rest, std::int64_t column_rest) {
  std::vector<std::int64_t> taps;
  for (std::int64_t p = 0; p < s.kernel_height; ++p)
    for (std::int64_t q = 0; q < s.kernel_width; ++q)
      if ((row_rest + s.padding.top - p) % s.stride == 0 && (column_rest + s.padding.left - q) % s.stride == 0)
        taps.push_back(p * s.kernel_width + q);
  return taps;
}

}  // namespace

void forward(const ConvShape& s, const Tensor& x, const Tensor& weight, const Tensor& bias, const Tensor& y) {
  const bool merged = panel::is_merged(s);
  const Layout layout =
      panel::layout_of(s, false, merged, panel::numbers(merged ? s.kernel_height : s.kernel_height * s.kernel_width));
  const Tensor packed = pack(s, layout, weight, scratch({layout.size()}, y.device()));
  const Tensor images = merged ? panel::padded(s, x) : x;
  const Tensor zeros = Tensor::zeros({s.channels}, DType::f32, y.device(), Purpose::workspace);
  const panel::Sources sources{s, images.data<float>(), merged};
  const std::int64_t block = block_of(sources.rows(), block_rows, panel::max_rows);
  const PointerScratch pointers(block, layout.tap_count(), y.device());
  if (y.device() == Device::meta) return;
  product(sources.rows(), layout, packed.data<float>(), bias.defined() ? bias.data<float>() : nullptr, false, pointers,
          block, zeros.data<float>(), sources, [&](std::int64_t row) { return y.data<float>() + row * s.outputs; });
}

void gradient_of_input(const ConvShape& s, const Tensor& dy, const Tensor& weight, const Tensor& dx, bool add) {
  const Tensor zeros = Tensor::zeros({s.outputs}, DType::f32, dx.device(), Purpose::workspace);
  // Pixels whose place leaves the same rest are reached by the same taps.
  for (std::int64_t row_rest = 0; row_rest < std::min(s.stride, s.height); ++row_rest)
    for (std::int64_t column_rest = 0; column_rest < std::min(s.stride, s.width); ++column_rest) {
      const Layout layout = panel::layout_of(s, true, false, taps_reaching(s, row_rest, column_rest));
      const std::int64_t down = (s.height - row_rest + s.stride - 1) / s.stride;
      const std::int64_t across = (s.width - column_rest + s.stride - 1) / s.stride, rows = s.images * down * across;
      const auto place = [&](std::int64_t row) {
        struct Place {
          std::int64_t image, h, w;
        };
        return Place{row / (down * across), row / across % down * s.stride + row_rest,
                     row % across * s.stride + column_rest};
      };
      const auto result = [&](std::int64_t row) {
        const auto [image, h, w] = place(row);
        return dx.data<float>() + ((image * s.height + h) * s.width + w) * s.channels;
      };
      if (layout.taps.empty()) {
        if (add || dx.device() == Device::meta) continue;
        parallel_for(rows, 64, [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t row = begin; row < end; ++row) std::fill_n(result(row), s.channels, 0.0F);
        });
        continue;
      }
      const auto sources = [&](std::int64_t row, const std::vector<std::int64_t>& taps, auto&& f) {
        const auto [image, h, w] = place(row);
        const float* const from = dy.data<float>() + image * s.out_height() * s.out_width() * s.outputs;
        for (std::size_t t = 0; t < taps.size(); ++t) {
          // Both differences are multiples of the stride, so that a negative one stays negative.
          const std::int64_t i = (h + s.padding.top - taps[t] / s.kernel_width) / s.stride;
          const std::int64_t j = (w + s.padding.left - taps[t] % s.kernel_width) / s.stride;
          const bool inside = i >= 0 && i < s.out_height() && j >= 0 && j < s.out_width();
          f(t, inside ? from + (i * s.out_width() + j) * s.outputs : nullptr);
        }
      };
      const Tensor packed = pack(s, layout, weight, scratch({layout.size()}, dx.device()));
      const std::int64_t block = block_of(rows, block_rows, panel::max_rows);
      const PointerScratch pointers(block, layout.tap_count(), dx.device());
      if (dx.device() == Device::meta) continue;
      product(rows, layout, packed.data<float>(), nullptr, add, pointers, block, zeros.data<float>(), sources, result);
    }
}

void gradient_of_weight(const ConvShape& s, const Tensor& x, const Tensor& dy, const Tensor& dweight, bool add) {
  const bool merged = panel::is_merged(s);
  const Layout layout =
      panel::layout_of(s, false, merged, panel::numbers(merged ? s.kernel_height : s.kernel_height * s.kernel_width));
  const Device device = dweight.device();
  const Tensor images = merged ? panel::padded(s, x) : x;
  const Tensor zeros = Tensor::zeros({s.channels}, DType::f32, device, Purpose::workspace);
  const panel::Sources sources{s, images.data<float>(), merged};
  // Each thread sums its own part of the weights over all pixels: some panels, or part of their depth if there are
  // fewer panels than threads.
  const std::int64_t taps = layout.tap_count(), panels = layout.groups * layout.panels();
  std::int64_t by_panels = std::min<std::int64_t>(threads(), panels);
  while (threads() % by_panels != 0) --by_panels;
  const std::int64_t by_depth = threads() / by_panels;
  constexpr std::int64_t pixels = depth_at_once, channels_at_once = 48;
  const std::int64_t own_panels = (panels + by_panels - 1) / by_panels;
  const Tensor sums = scratch({layout.size()}, device);  // [groups, panels, taps, depth, 16]
  const Tensor columns = scratch({threads(), own_panels, pixels, panel::width}, device);
  const Tensor inputs = scratch({threads(), pixels, channels_at_once}, device);
  const Tensor pointers = scratch({threads(), taps, pixels}, device, DType::i64);
  if (device == Device::meta) return;
  const float *const from = dy.data<float>(), *const nothing = zeros.data<float>();
  parallel_tasks(by_panels * by_depth, [&](std::int64_t task, int thread) {
    const Range own = part(panels, task / by_depth, by_panels);
    const Range own_depth = part(layout.depth, task % by_depth, by_depth, panel::max_rows);
    float* const packed = columns.data<float>() + thread * own_panels * pixels * panel::width;
    float* const gathered = inputs.data<float>() + thread * pixels * channels_at_once;
    auto* const runs = reinterpret_cast<const float**>(pointers.data<std::int64_t>() + thread * taps * pixels);
    for (std::int64_t begin = 0; begin < sources.rows(); begin += pixels) {
      const std::int64_t count = std::min(pixels, sources.rows() - begin);
      for (std::int64_t k = 0; k < count; ++k)
        sources(begin + k, layout.taps, [&](std::size_t t, const float* run) {
          runs[static_cast<std::int64_t>(t) * pixels + k] = run == nullptr ? nothing : run;
        });
      for (std::int64_t p = own.begin; p < own.end; ++p) {
        const std::int64_t group = p / layout.panels(), in_group = p % layout.panels() * panel::width;
        const std::int64_t valid = std::min<std::int64_t>(panel::width, layout.columns - in_group);
        float* to = packed + (p - own.begin) * pixels * panel::width;  // [pixels, 16]
        const float* row = from + begin * s.outputs + group * layout.columns + in_group;
        for (std::int64_t k = 0; k < count; ++k, to += panel::width, row += s.outputs) {
          if (valid == panel::width) {
            for (int v = 0; v < panel::width; v += panel::lanes) panel::store(to + v, panel::load(row + v));
          } else {
            std::fill_n(std::copy_n(row, valid, to), panel::width - valid, 0.0F);
          }
        }
      }
      for (std::int64_t group = own.begin / layout.panels(); group * layout.panels() < own.end; ++group) {
        const std::int64_t first = std::max(own.begin, group * layout.panels());
        const std::int64_t last = std::min(own.end, (group + 1) * layout.panels());
        for (std::int64_t t = 0; t < taps; ++t)
          for (std::int64_t c = own_depth.begin; c < own_depth.end; c += channels_at_once) {
            const std::int64_t channels = std::min(channels_at_once, own_depth.end - c);
            for (std::int64_t k = 0; k < count; ++k)
              std::copy_n(runs[t * pixels + k] + group * layout.depth + c, channels, gathered + k * channels_at_once);
            for (std::int64_t p = first; p < last; ++p) {
              float* const sum = sums.data<float>() + ((p * taps + t) * layout.depth + c) * panel::width;
              for (std::int64_t r = 0; r < channels; r += panel::max_rows)
                panel::multiply(std::min<std::int64_t>(panel::max_rows, channels - r), count, gathered + r, 1,
                                channels_at_once, packed + (p - own.begin) * pixels * panel::width,
                                sum + r * panel::width, panel::width, begin > 0);
            }
          }
      }
    }
  });
  float* const to = dweight.data<float>();
  const float* const result = sums.data<float>();
  panel::for_weights(s, layout, [=](std::int64_t file, std::int64_t place) {
    to[file] = add ? to[file] + result[place] : result[place];
  });
}

}  // namespace lacuna::gather
