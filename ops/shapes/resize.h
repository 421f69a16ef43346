// Images resized by interpolation.
#pragma once

#include "core/op.h"
#include "ops/shapes/resize_axis.h"

namespace lacuna {

/// x [N, H, W, C] -> [N, out_height, out_width, C] as torch.nn.functional.interpolate(x, size=(out_height, out_width))
/// does. Backward sums in a fixed order what each place of x gave.
struct Resize {
  enum Input { x };
  Resampling resampling = Resampling::bilinear;
  std::int64_t height = 0, width = 0;  // x's
  std::int64_t out_height = 0, out_width = 0;
  static constexpr std::string_view name = "resize";
  static constexpr std::array<Save, 0> saves{};
  static constexpr std::array rematerializes{all_of(input(x))};
  Tensor forward(std::span<const Tensor> inputs) const;
  void backward(const Tensor& dy, const Saved<Resize>& saved, Grads& grads) const;
  void rematerialize(const RematInputs<Resize>& from, const Tensor& out) const;
};

}  // namespace lacuna
