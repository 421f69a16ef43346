// Pooling: the largest or the mean of a window of an NHWC image, and the mean over all places.
#pragma once

#include "core/op.h"

namespace lacuna {

/// Largest value of each window; padding never wins. x [N, H, W, C] -> [N, OH, OW, C] with
/// OH = (H + 2·padding − kernel) / stride + 1, OW alike. Backward needs extra_outputs 0: which place of the window won
/// (the first of equals, as in PyTorch), in as few bits as the window needs: 2 for 2x2, 4 for 3x3.
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

/// Mean of each window, shapes as MaxPool2d. The divisor is kernel², or with `count_include_pad` false the number of
/// places of the window that lie inside the image.
struct AvgPool2d {
  enum Input { x };
  std::int64_t kernel = 2, stride = 2, padding = 0;
  bool count_include_pad = true;
  std::int64_t height = 0, width = 0;  // x's
  static constexpr std::string_view name = "avg_pool2d";
  static constexpr std::array<Save, 0> saves{};
  Tensor forward(std::span<const Tensor> inputs) const;
  void backward(Tensor dy, const Saved<AvgPool2d>& saved, Grads& grads) const;
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
