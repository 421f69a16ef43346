// Concatenation of 2x2 neighbours of an image's channels, as Swin's patch merging begins.
#pragma once

#include "core/op.h"

namespace lacuna {

/// x [B, H, W, C] to y [B, ⌈H/2⌉, ⌈W/2⌉, 4·C]: the channels of places (0, 0), (1, 0), (0, 1), (1, 1) (row, column) of
/// each 2x2 window, zeros beyond the bottom and the right edge. Copies, and saves nothing.
struct PatchMerging {
  enum Input { x };
  std::int64_t height = 0, width = 0;  // x's
  static constexpr std::string_view name = "patch_merging";
  static constexpr std::array<Save, 0> saves{};
  Tensor forward(std::span<const Tensor> inputs) const;
  void backward(const Tensor& dy, const Saved<PatchMerging>& saved, Grads& grads) const;
};

}  // namespace lacuna
