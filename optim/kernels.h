// Kernels of the optimizers, of gradient clipping and of the average of
// weights. Scalars are tensors, so that nothing waits for the host within a
// step.
#pragma once

#include "core/kernel.h"
#include "optim/rules.h"

#include <cstdint>

namespace lacuna {

class Tensor;
struct Update;  // optim/optimizer.h

// One update of one parameter. Update::step goes up by one first; nothing
// happens if Update::clip.finite is 0.
inline constinit Kernel<void(const SgdSettings&, const Update&)> sgd_update{"sgd"};
inline constinit Kernel<void(const AdamSettings&, const Update&)> adam_update{"adam"};
inline constinit Kernel<void(const AdanSettings&, const Update&)> adan_update{"adan"};
inline constinit Kernel<void(const LionSettings&, const Update&)> lion_update{"lion"};
/// Overwrites Update::gradient.
inline constinit Kernel<void(const LambSettings&, const Update&)> lamb_update{"lamb"};

/// squares[index] = Σ gradient², in f64. finite becomes 0 if that is not
/// finite. gradient: f32 or bf16; squares: f64 [parameters]; finite: i32 [].
inline constinit Kernel<void(const Tensor& gradient, std::int64_t index, const Tensor& squares, const Tensor& finite)>
    measure_gradient{"gradient norm"};

/// factor = min(1, max_norm / (norm + 1e-6)) of the gradients [begin, end)
/// together, as torch.nn.utils.clip_grad_norm_. squares: f64 [parameters];
/// factor: f32 [].
inline constinit Kernel<void(const Tensor& squares, std::int64_t begin, std::int64_t end, double max_norm,
                             const Tensor& factor)>
    clip_gradients{"gradient clipping"};

/// total += weight · loss. finite becomes 0 if the total is not finite. loss:
/// f32 or f64 []; total: f64 []; finite: i32 [].
inline constinit Kernel<void(const Tensor& loss, double weight, const Tensor& total, const Tensor& finite)> add_loss{
    "loss of the step"};

/// average = decay · average + (1 - decay) · value. f32 [n].
inline constinit Kernel<void(double decay, const Tensor& value, const Tensor& average)> average_weights{
    "average of weights"};

/// Exchanges the contents of a and b, of one shape and type.
inline constinit Kernel<void(const Tensor& a, const Tensor& b)> swap_contents{"exchange of weights"};

}  // namespace lacuna
