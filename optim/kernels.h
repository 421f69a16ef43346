// Kernels of the optimizers, of gradient clipping and of the average of
// weights. Scalars are tensors, so that nothing waits for the host within a
// step.
#pragma once

#include "core/kernel.h"

#include <cstdint>
#include <span>

namespace lacuna {

class Tensor;
struct Factor;  // ops/arithmetic/factor.h
struct Update;  // optim/optimizer.h

/// One pass of an update by a rule (optim/rules.h) over each of some parameters, which share Update::clip and the seed.
/// The first pass of an update raises Update::step by one. Nothing happens if Update::clip.finite is 0.
template <class Rule>
inline constinit Kernel<void(const Rule&, std::span<const Update>)> rule_pass{"update of the optimizer"};
template <class Rule>
using RegisterRule = RegisterKernel<void(const Rule&, std::span<const Update>)>;

struct MeasuredGradient {
  const Tensor& gradient;  // f32 or bf16
  std::int64_t index;      // of its parameter
};
/// squares[index] = Σ gradient² of each, in f64. finite becomes 0 if one is not finite. squares: f64 [parameters];
/// finite: i32 [].
inline constinit Kernel<void(std::span<const MeasuredGradient>, const Tensor& squares, const Tensor& finite)>
    measure_gradients{"gradient norms"};

/// factor = min(1, max_norm / (norm + 1e-6)) / scale of the gradients [begin, end) together, whose squares are of
/// `scale` times the norm: as torch.nn.utils.clip_grad_norm_. max_norm: infinity where they are not clipped. squares:
/// f64 [parameters]; scale: f32 [], undefined: 1; factor: f32 [].
inline constinit Kernel<void(const Tensor& squares, std::int64_t begin, std::int64_t end, double max_norm,
                             const Tensor& scale, const Tensor& factor)>
    clip_gradients{"gradient clipping"};

/// gradient = share · scale. scale: f32 [], undefined: 1; gradient: f32 or f64, one element.
inline constinit Kernel<void(const Factor& share, const Tensor& scale, const Tensor& gradient)> seed_loss_gradient{
    "gradient of the loss"};

/// The scale after a step. finite: i32 []; scale: f32 []; good_steps: i32 [].
inline constinit Kernel<void(const Tensor& finite, std::int64_t growth_interval, const Tensor& scale,
                             const Tensor& good_steps)>
    adapt_loss_scale{"loss scale"};

/// total += weight · loss. finite becomes 0 if the total is not finite. loss:
/// f32 or f64 []; total: f64 []; finite: i32 [].
inline constinit Kernel<void(const Tensor& loss, const Factor& weight, const Tensor& total, const Tensor& finite)>
    add_loss{"loss of the step"};

/// finite becomes 0 if one of `values`, f64 [n], is not finite. finite: i32 [].
inline constinit Kernel<void(const Tensor& values, const Tensor& finite)> look_for_nonfinite{"gradient norms"};

struct AveragedTensor {
  const Tensor &value, &average;  // f32 [n]
};
/// average = decay · average + (1 - decay) · value, of each.
inline constinit Kernel<void(double decay, std::span<const AveragedTensor>)> average_weights{"average of weights"};

/// Exchanges the contents of a and b, of one shape and type.
inline constinit Kernel<void(const Tensor& a, const Tensor& b)> swap_contents{"exchange of weights"};

}  // namespace lacuna
