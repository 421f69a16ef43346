// The loss of semantic segmentation: of every pixel, from logits at a lower resolution.
#pragma once

#include "core/op.h"

namespace lacuna {

/// cross_entropy · (cross entropy of the pixels) + dice · (Dice loss), a scalar [], f32 (f64 for f64 logits).
///
/// logits [N, h, w, C] are resized to the labels' size, bilinearly without aligned corners, pixel by pixel in forward
/// and again in backward: no resized logits exist. labels [N, H, W] in u8 or i64 are classes in [0, C), or `ignored`: a
/// pixel that counts nothing. weights (optional) [C] in f32 or f64.
///
/// Cross entropy is Σ w · l / Σ w over the pixels that count, w the weight of a pixel's label, as
/// torch.nn.CrossEntropyLoss(weight, ignore_index, label_smoothing) of resized logits. Dice is the mean over all
/// classes of 1 - 2 Σ p t / Σ (p + t), the sums over the pixels that count, p the softmax and t the one-hot labels; a
/// class that no label has contributes 0 (segmentation_models.pytorch's DiceLoss). Where no pixel counts, loss and
/// gradient are 0. A label outside [0, C) is an Error that names its pixel; on cuda the loss is NaN.
struct PixelLoss {
  enum Input { logits, labels, weights };
  enum ExtraOutput {
    sums,        // [1 + 3 C]: Σ w; Σ p t, Σ (p + t) and Σ t of each class, which are 0 without Dice
    predictions  // u8 or, above 256 classes, i32 [N, H, W]: the class of the largest resized logit
  };
  std::int64_t ignored = 255;
  double cross_entropy = 1, dice = 0, label_smoothing = 0;
  static constexpr std::string_view name = "pixel_loss";
  static constexpr std::array saves{Save{.from = input(logits), .need = Need::exact, .for_grad_of = {logits}},
                                    Save{.from = input(labels), .need = Need::exact, .for_grad_of = {logits}},
                                    Save{.from = input(weights), .need = Need::exact, .for_grad_of = {logits}},
                                    Save{.from = extra_output(sums), .need = Need::exact, .for_grad_of = {logits}}};
  Tensor forward(std::span<const Tensor> inputs, std::vector<Tensor>& extra_outputs) const;
  void backward(const Tensor& dy, const Saved<PixelLoss>& saved, Grads& grads) const;
};

}  // namespace lacuna
