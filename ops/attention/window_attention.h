// Fused self-attention within the windows of an image (Liu et al. 2021, "Swin Transformer"): one op that copies no
// window and keeps no matrix of queries by keys.
#pragma once

#include "core/op.h"

namespace lacuna {

/// The map is rolled up and to the left by the shift, zero-padded at the bottom and on the right to whole windows and
/// cut into windows. For each window and head
///
///   y = softmax(scale · q·kᵀ + bias + mask) · v
///
/// qkv [B, H·W, 3·D] holds q | k | v of each token, each D = heads · head_dim wide; y [B, H·W, D]. Rolling, padding and
/// cutting are address arithmetic. Backward recomputes the probabilities window by window.
///
/// bias: table [(2·wh − 1)(2·ww − 1), heads] at row (query's row − key's row + wh − 1)·(2·ww − 1) + (query's column −
/// key's column + ww − 1), in their window.
///
/// mask: −100 between tokens of one window that were no neighbours before the map was rolled.
///
/// pad (optional) [3·D]: q | k | v of the tokens that padding adds; zeros if undefined. They are keys as any other
/// (timm's semantics: pass the bias of the projection that makes qkv). Their share of the gradient goes here.
///
/// logit_scale (optional) [heads]: makes the attention that of Swin V2 (Liu et al. 2022, eq. 3): cosines of q and k
/// times exp(min(logit_scale, ln 100)) instead of scaled products.
///
/// Table, pad and logit_scale and their gradients are f32; all are f64 for an f64 qkv. Sums over windows have one order
/// for a given shape and number of threads.
struct WindowAttention {
  enum Input { qkv, table, pad, logit_scale };
  std::int64_t heads = 1;
  std::int64_t height = 0, width = 0;                // of the map
  std::int64_t window_height = 7, window_width = 7;  // of a window
  std::int64_t shift_down = 0, shift_right = 0;      // below the window's extents
  bool pads_first = false;                           // the map is padded before it is rolled, not after
  double scale = 0;                                  // 0: 1 / sqrt(head_dim)
  static constexpr std::string_view name = "window_attention";
  static constexpr OpKind kind = OpKind::matmul;
  static constexpr std::array saves{
      Save{.from = input(qkv),
           .need = Need::value,
           .for_grad_of = {qkv, table, pad, logit_scale},
           .groups = Groups::head},
      Save{.from = input(table), .need = Need::exact, .for_grad_of = {qkv, table, pad, logit_scale}},
      Save{.from = input(pad), .need = Need::exact, .for_grad_of = {qkv, table, pad, logit_scale}},
      Save{.from = input(logit_scale), .need = Need::exact, .for_grad_of = {qkv, table, pad, logit_scale}}};
  static constexpr InputSet matmul_operands{qkv};
  std::int64_t macs(std::span<const Shape> inputs, const Shape& y) const;
  Tensor forward(std::span<const Tensor> inputs) const;
  void backward(const Tensor& dy, const Saved<WindowAttention>& saved, Grads& grads) const;
};

}  // namespace lacuna
