// Kernels of ops/attention/window_attention.h. One call computes a run of consecutive images.
#pragma once

#include "core/kernel.h"
#include "core/tensor.h"

#include <cstdint>

namespace lacuna {

struct WindowArguments {
  std::int64_t images, height, width, heads, head_dim;
  std::int64_t window_height, window_width, shift_down, shift_right;
  bool pads_first;
  double scale;
  Tensor qkv{};            // rows [images · height · width, 3 · heads · head_dim]
  Tensor table{};          // [(2·wh − 1)(2·ww − 1), heads]
  Tensor pad{};            // [3 · heads · head_dim] or undefined
  Tensor logit_scale{};    // [heads] or undefined
  std::int64_t first = 0;  // of these images in the batch
  /// Windows whose number in the batch leaves the same remainder by `parts` are added up by one thread.
  std::int64_t parts = 1;

  std::int64_t window() const { return window_height * window_width; }  // tokens
  std::int64_t table_rows() const { return (2 * window_height - 1) * (2 * window_width - 1); }
  std::int64_t down() const { return (height + window_height - 1) / window_height; }
  std::int64_t across() const { return (width + window_width - 1) / window_width; }
  std::int64_t windows() const { return down() * across(); }  // of an image
  bool has_pads() const { return height % window_height != 0 || width % window_width != 0; }
};

/// Undefined: a gradient that nobody wants.
struct WindowGradients {
  Tensor qkv{};  // rows [images · height · width, 3 · heads · head_dim], written
  // In the compute type, added to:
  Tensor table_sums{};  // [parts, heads, table_rows]
  Tensor pad_sums{};    // [parts, 3 · heads · head_dim]
  Tensor scale_sums{};  // [parts, heads], of logit_scale
};

/// Workspaces in the compute type. On the CPU [threads, C]; on cuda none in forward and in backward the rows' sums, [2,
/// images · windows · heads, window], where a window is more than one tile.
Shape window_attention_forward_workspace(const WindowArguments& a, DType dtype, Device device);
Shape window_attention_backward_workspace(const WindowArguments& a, DType dtype, Device device);

/// y: rows [images · height · width, heads · head_dim].
inline constinit Kernel<void(const WindowArguments& a, const Tensor& y, const Tensor& workspace)>
    window_attention_forward{"window_attention forward"};
inline constinit Kernel<void(const WindowArguments& a, const Tensor& dy, const WindowGradients& to,
                             const Tensor& workspace)>
    window_attention_backward{"window_attention backward"};
/// table_gradient [table_rows, heads] = the sums of `table_sums` over parts, in order.
inline constinit Kernel<void(const Tensor& table_sums, const Tensor& table_gradient)> window_attention_sum_table{
    "window_attention table gradient"};

}  // namespace lacuna
