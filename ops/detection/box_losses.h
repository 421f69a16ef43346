// The losses of detection: of the classes of anchors, and of the boxes of those with an object.
#pragma once

#include "core/kernel.h"
#include "core/op.h"

namespace lacuna {

/// Focal loss of sigmoids (Lin et al. 2017): the scalar Σ weights[m] · loss(logits[m]) over the rows, f32 (f64 for f64
/// logits). logits [..., K] of M rows; labels i64 [M]: the class, `background` (none of the K), or `left_out`; weights
/// [M], f32, or f64 for f64 logits.
struct FocalLoss {
  enum Input { logits, labels, weights };
  static constexpr std::int64_t background = -1, left_out = -2;
  double alpha = 0.25, gamma = 2;
  static constexpr std::string_view name = "focal_loss";
  static constexpr std::array saves{Save{.from = input(logits), .need = Need::value, .for_grad_of = {logits}},
                                    Save{.from = input(labels), .need = Need::exact, .for_grad_of = {logits}},
                                    Save{.from = input(weights), .need = Need::exact, .for_grad_of = {logits}}};
  Tensor forward(std::span<const Tensor> inputs) const;
  void backward(Tensor dy, const Saved<FocalLoss>& saved, Grads& grads) const;
};

/// Smooth L1 of some rows (Girshick 2015): the scalar Σ weights[r] · loss(x[rows[r]] - targets[r]), f32 (f64 for an f64
/// x); with beta = 0 L1. x [..., C]; rows i64 [R], none twice; targets [R, C] and weights [R], f32, or f64
/// for an f64 x. Keeps those rows of x alone.
struct RowSmoothL1 {
  enum Input { x, rows, targets, weights };
  enum Extra { differences };  // [R, C]
  Shape shape;                 // of x
  double beta = 1;
  static constexpr std::string_view name = "row_smooth_l1";
  static constexpr std::array saves{Save{.from = input(rows), .need = Need::exact, .for_grad_of = {x}},
                                    Save{.from = input(weights), .need = Need::exact, .for_grad_of = {x}},
                                    Save{.from = extra_output(differences), .need = Need::exact, .for_grad_of = {x}}};
  Tensor forward(std::span<const Tensor> inputs, std::vector<Tensor>& extra_outputs) const;
  void backward(Tensor dy, const Saved<RowSmoothL1>& saved, Grads& grads) const;
};

inline constinit Kernel<void(const FocalLoss& op, const Tensor& logits, const Tensor& labels, const Tensor& weights,
                             const Tensor& loss)>
    focal_loss_forward{"focal_loss"};
inline constinit Kernel<void(const FocalLoss& op, const Tensor& logits, const Tensor& labels, const Tensor& weights,
                             const Tensor& dy, const Tensor& dlogits)>
    focal_loss_backward{"focal_loss backward"};
/// Sets the differences and the loss.
inline constinit Kernel<void(double beta, const Tensor& x, const Tensor& rows, const Tensor& targets,
                             const Tensor& weights, const Tensor& differences, const Tensor& loss)>
    row_smooth_l1_forward{"row_smooth_l1"};
/// Sets the rows of dx, which is 0 elsewhere.
inline constinit Kernel<void(double beta, const Tensor& rows, const Tensor& weights, const Tensor& differences,
                             const Tensor& dy, const Tensor& dx)>
    row_smooth_l1_backward{"row_smooth_l1 backward"};

}  // namespace lacuna
