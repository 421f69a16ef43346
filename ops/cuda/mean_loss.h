// The mean of a loss over elements (ops/cuda/loss_terms.h), for tensors.
#pragma once

#include "core/backend.h"
#include "core/tensor.h"
#include "ops/arithmetic/reduce_cuda.h"
#include "ops/cuda/loss_terms.h"

#include <algorithm>

namespace lacuna::cuda {

inline LossTerms terms_of(const Tensor& predictions, const Tensor& targets, const Tensor& weights) {
  LossTerms terms{predictions.data<const std::byte>(), targets.data<const float>(), predictions.count()};
  if (weights.defined()) {
    terms.weights = weights.data<const float>();
    terms.classes = weights.count();
  }
  return terms;
}

/// loss: f32 []. weights: f32 [C], or undefined. The mean of no elements is 0.
template <class Terms>
void mean_loss(const Tensor& predictions, const Tensor& targets, const Tensor& weights, const Tensor& loss) {
  const Stream stream = stream_of(loss.device());
  const std::int64_t count = predictions.count(), parts = (count + terms_together - 1) / terms_together;
  const Tensor partial = Tensor::empty({parts}, DType::f64, loss.device(), Purpose::workspace);
  sum_terms<Terms>(stream, predictions.dtype(), terms_of(predictions, targets, weights), partial.data<double>());
  sum_in_order(stream, DType::f32,
               {.in_f64 = partial.data<const double>(),
                .count = parts,
                .y = loss.raw(),
                .factor = 1.0 / static_cast<double>(std::max<std::int64_t>(1, count))});
}

/// gradient, as the predictions; dy: f32 [].
template <class Terms>
void mean_loss_gradient(const Tensor& predictions, const Tensor& targets, const Tensor& weights, const Tensor& dy,
                        const Tensor& gradient) {
  const float factor = 1.0F / static_cast<float>(std::max<std::int64_t>(1, predictions.count()));
  spread_terms<Terms>(stream_of(dy.device()), predictions.dtype(), terms_of(predictions, targets, weights),
                      dy.data<const float>(), factor, gradient.raw());
}

}  // namespace lacuna::cuda
