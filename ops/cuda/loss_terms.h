// Losses that are a mean over elements, each of a prediction and a target: launchers. A formula `Terms` has
//   float loss(float prediction, float target, float weight) const;
//   float slope(float prediction, float target, float weight) const;   // of the loss, by the prediction
// and is instantiated by its op's .cu file (ops/cuda/loss_terms_kernels.h).
#pragma once

#include "core/number.h"
#include "core/stream.h"

#include <cstdint>

namespace lacuna::cuda {

inline constexpr std::int64_t terms_together = 4096;  // of a block

struct LossTerms {
  const void* predictions;  // [count] of `type`
  const float* targets;     // [count]
  std::int64_t count;
  const float* weights = nullptr;  // [classes], of the last axis; null: all 1
  std::int64_t classes = 1;
};

/// partial[k] = Σ loss over elements [k, k + 1) · terms_together.
template <class Terms>
void sum_terms(Stream stream, DType type, const LossTerms& of, double* partial);

/// gradient = *dy · factor · slope. gradient: [count] of `type`.
template <class Terms>
void spread_terms(Stream stream, DType type, const LossTerms& of, const float* dy, float factor, void* gradient);

}  // namespace lacuna::cuda
