// Kernels of ops/losses/loss.h. Targets are labels, i64 [N], or probabilities [N, C] in the compute type of the logits.
#pragma once

#include "core/kernel.h"

namespace lacuna {

class Tensor;

/// Throws Error (the input's fault) if a label lies outside [0, classes). labels: i64 [N].
inline constinit Kernel<void(const Tensor& labels, std::int64_t classes)> check_labels{
    "cross_entropy: check of labels"};

/// log_sums: [N, 1] and losses: [N] (workspace) of each row, loss: [] their mean; all in the compute type.
inline constinit Kernel<void(double label_smoothing, const Tensor& logits, const Tensor& targets,
                             const Tensor& log_sums, const Tensor& losses, const Tensor& loss)>
    cross_entropy_forward{"cross_entropy"};

/// dz: [N, C], as the logits. dy: [] in the compute type.
inline constinit Kernel<void(double label_smoothing, const Tensor& logits, const Tensor& targets,
                             const Tensor& log_sums, const Tensor& dy, const Tensor& dz)>
    cross_entropy_backward{"cross_entropy backward"};

}  // namespace lacuna
