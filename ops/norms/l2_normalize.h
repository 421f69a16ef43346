// Rows of length one.
#pragma once

#include "core/kernel.h"
#include "core/op.h"

namespace lacuna {

/// y = x / max(‖x‖, 1e-12) for each row of x [..., C], as torch.nn.functional.normalize.
struct L2Normalize {
  enum Input { x };
  static constexpr std::string_view name = "l2_normalize";
  static constexpr std::array saves{Save{.from = input(x), .need = Need::exact, .for_grad_of = {x}}};
  Tensor forward(std::span<const Tensor> inputs) const;
  void backward(const Tensor& dy, const Saved<L2Normalize>& saved, Grads& grads) const;
};

inline constinit Kernel<void(const Tensor& x, const Tensor& y)> l2_normalize_forward{"l2_normalize"};
inline constinit Kernel<void(const Tensor& x, const Tensor& dy, const Tensor& dx)> l2_normalize_backward{
    "l2_normalize backward"};

}  // namespace lacuna
