// The loss of regression.
#pragma once

#include "core/kernel.h"
#include "core/op.h"

namespace lacuna {

/// Mean over all elements of (x − targets)², as torch.nn.MSELoss: a scalar [], f32 (f64 for f64 x). x: any shape;
/// targets: the same shape, f32 or f64.
struct MeanSquaredError {
  enum Input { x, targets };
  static constexpr std::string_view name = "mean_squared_error";
  static constexpr std::array saves{Save{.from = input(x), .need = Need::exact, .for_grad_of = {x}},
                                    Save{.from = input(targets), .need = Need::exact, .for_grad_of = {x}}};
  Tensor forward(std::span<const Tensor> inputs) const;
  void backward(Tensor dy, const Saved<MeanSquaredError>& saved, Grads& grads) const;
};

/// loss [] = mean of (x − targets)². x, targets: [n].
inline constinit Kernel<void(const Tensor& x, const Tensor& targets, const Tensor& loss)> mean_squared_error_forward{
    "mean_squared_error"};
/// dx = 2 (x − targets) dy / n. dy: []; dx in the type of x.
inline constinit Kernel<void(const Tensor& x, const Tensor& targets, const Tensor& dy, const Tensor& dx)>
    mean_squared_error_backward{"mean_squared_error backward"};

}  // namespace lacuna
