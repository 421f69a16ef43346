// Arguments of the kernels in ops/attention/window_attention.cu. Pointers lead into the device's memory.
#pragma once

#include "core/host_device.h"
#include "core/number.h"
#include "core/stream.h"

#include <cstdint>

namespace lacuna::cuda {

/// Tokens of the largest window, and of the largest one whose backward needs no statistics.
inline constexpr std::int64_t most_window_tokens = 1024, most_tile_tokens = 64;
/// Pairs of a head and a part that keep a GPU busy.
inline constexpr std::int64_t window_pairs = 1024;

/// As WindowArguments (ops/attention/window_attention_kernels.h), on the device.
struct WindowProblem {
  std::int64_t images, height, width, heads, head_dim;
  std::int64_t window_height, window_width, shift_down, shift_right;
  bool pads_first;
  float scale;
  const void* qkv;           // rows [images · height · width, 3 · heads · head_dim]
  const float* table;        // [table_rows, heads]
  const float* pad;          // [3 · heads · head_dim] or null
  const float* logit_scale;  // [heads] or null
  std::int64_t first, parts;

  LACUNA_HOST_DEVICE std::int64_t window() const { return window_height * window_width; }
  LACUNA_HOST_DEVICE std::int64_t table_rows() const { return (2 * window_height - 1) * (2 * window_width - 1); }
  LACUNA_HOST_DEVICE std::int64_t down() const { return (height + window_height - 1) / window_height; }
  LACUNA_HOST_DEVICE std::int64_t across() const { return (width + window_width - 1) / window_width; }
  LACUNA_HOST_DEVICE std::int64_t windows() const { return down() * across(); }
};

/// As WindowGradients. Null: not wanted.
struct WindowGradientPointers {
  const void* dy;     // rows [images · height · width, heads · head_dim]
  void* qkv;          // rows [images · height · width, 3 · heads · head_dim]
  float* table_sums;  // [parts, heads, table_rows], added to
  float* pad_sums;    // [parts, 3 · heads · head_dim], added to
  float* scale_sums;  // [parts, heads], added to
  float* statistics;  // [2, images · windows · heads, window], of larger windows than most_tile_tokens
};

/// y: rows [images · height · width, heads · head_dim]. `type`: of qkv and y.
void window_attention_forward(Stream stream, DType type, const WindowProblem& a, void* y);
void window_attention_backward(Stream stream, DType type, const WindowProblem& a, const WindowGradientPointers& to);
/// table_gradient [table_rows, heads] = the sums of table_sums [parts, heads, table_rows] over parts, in order.
void window_attention_sum_table(Stream stream, const float* table_sums, std::int64_t parts, std::int64_t heads,
                                std::int64_t table_rows, float* table_gradient);

}  // namespace lacuna::cuda
