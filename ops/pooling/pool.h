// Pooling of NHWC images: maximum and mean of windows, and mean over all places.
#pragma once

#include "core/op.h"

namespace lacuna {

/// Maximum of each window; padding does not count. x [N, H, W, C] -> [N, OH, OW, C] with
/// OH = (H + 2·padding − kernel) / stride + 1, and OW alike. Extra output 0, for backward, is the place of the maximum
/// in the window (the first of equals, as in PyTorch), in as few bits as the window needs: 2 for 2x2, 4 for 3x3.
struct MaxPool2d {
  enum Input { x };
  std::int64_t kernel = 2, stride = 2, padding = 0;
  std::int64_t height = 0, width = 0;  // x's
  static constexpr std::string_view name = "max_pool2d";
  // extra_output(0): the places, packed row by row of the output, u8 [N, OH, bytes of a row].
  static constexpr std::array saves{Save{.from = extra_output(0), .need = Need::exact, .for_grad_of = {x}}};
  Tensor forward(std::span<const Tensor> inputs, std::vector<Tensor>& extra_outputs) const;
  void backward(Tensor dy, const Saved<MaxPool2d>& saved, Grads& grads) const;
};

/// Mean of each window; shapes as MaxPool2d. The divisor is kernel², or without `count_include_pad` the number of
/// places of the window inside the image. With `ceil_mode`, which takes no `count_include_pad`, a last window that the
/// image does not fill counts: OH = ⌈(H + 2·padding − kernel) / stride⌉ + 1.
struct AvgPool2d {
  enum Input { x };
  std::int64_t kernel = 2, stride = 2, padding = 0;
  bool count_include_pad = true, ceil_mode = false;
  std::int64_t height = 0, width = 0;  // x's
  static constexpr std::string_view name = "avg_pool2d";
  static constexpr std::array<Save, 0> saves{};
  Tensor forward(std::span<const Tensor> inputs) const;
  void backward(Tensor dy, const Saved<AvgPool2d>& saved, Grads& grads) const;
};

/// Mean of parts of an image, x [N, H, W, C] -> [N, OH, OW, C]: row i of OH is the mean of rows ⌊i·H/OH⌋ to
/// ⌈(i + 1)·H/OH⌉, and columns alike (PyTorch's adaptive_avg_pool2d). Parts overlap where OH does not divide H.
struct AdaptiveAvgPool2d {
  enum Input { x };
  std::int64_t out_height = 1, out_width = 1;
  std::int64_t height = 0, width = 0;  // x's
  static constexpr std::string_view name = "adaptive_avg_pool2d";
  static constexpr std::array<Save, 0> saves{};
  Tensor forward(std::span<const Tensor> inputs) const;
  void backward(Tensor dy, const Saved<AdaptiveAvgPool2d>& saved, Grads& grads) const;
};

/// Mean over all axes between the first and the last: [N, H, W, C] -> [N, C], [B, L, C] -> [B, C].
struct GlobalAvgPool {
  enum Input { x };
  Shape shape;  // x's
  static constexpr std::string_view name = "global_avg_pool";
  static constexpr std::array<Save, 0> saves{};
  Tensor forward(std::span<const Tensor> inputs) const;
  void backward(Tensor dy, const Saved<GlobalAvgPool>& saved, Grads& grads) const;
};

}  // namespace lacuna
