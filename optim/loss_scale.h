// The scale of the loss in f16, whose gradients are too small for its range otherwise.
#pragma once

#include "core/tensor.h"
#include "optim/loss_scale_rule.h"

namespace lacuna {

/// Dynamic loss scale (Micikevicius et al. 2018, section 3.2), as torch.amp.GradScaler with growth_factor 2 and
/// backoff_factor 0.5. It lives on the device: no step waits for it.
class LossScale {
 public:
  LossScale(const LossScaleSettings& settings, Device device);

  /// The factor of the next step's loss: f32 [].
  const Tensor& scale() const { return scale_; }
  /// Steps with finite gradients since it last changed: i32 [].
  const Tensor& good_steps() const { return good_steps_; }

  /// After a step. finite: i32 [], 0 if a gradient was not finite.
  void adapt(const Tensor& finite) const;

 private:
  std::int64_t growth_interval_;
  Tensor scale_, good_steps_;
};

}  // namespace lacuna
