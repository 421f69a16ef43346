// Counts of correct predictions.
#pragma once

#include "core/kernel.h"
#include "core/tensor.h"

#include <span>

namespace lacuna {

/// Adds to counts[i] (f64 [k.size()]) the rows of `logits` [N, C] whose target is among the k[i] largest logits; of
/// equal logits the first counts as larger. targets: i64 [N], or probabilities [N, C] in f32 or f64, of which the
/// largest is the target. A label outside [0, C) is never correct.
inline constinit Kernel<void(const Tensor& logits, const Tensor& targets, std::span<const std::int64_t> k,
                             const Tensor& counts)>
    count_top_k{"count_top_k"};

/// places i64 [N]: where the largest of each row of `values` [N, C] is; the first of equals.
inline constinit Kernel<void(const Tensor& values, const Tensor& places)> find_largest{"find_largest"};

}  // namespace lacuna
