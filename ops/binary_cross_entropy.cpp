#include "ops/binary_cross_entropy.h"

#include "core/parallel.h"
#include "ops/operand.h"

#include <algorithm>
#include <cmath>

namespace lacuna {
namespace {

const RegisterOp<BinaryCrossEntropy> binary_cross_entropy;

/// Calls f(logits, targets) with pointers of their types.
template <class F>
void with_types(const Tensor& logits, const Tensor& targets, const F& f) {
  with_float_type(logits.dtype(), [&]<class T>(Type<T>) {
    if (targets.dtype() == DType::f64)
      f(logits.data<T>(), targets.data<double>());
    else
      f(logits.data<T>(), targets.data<float>());
  });
}

/// The weight of a positive target at element `i`.
double weight_of(std::span<const double> weights, std::int64_t i) {
  return weights.empty() ? 1 : weights[static_cast<std::size_t>(i) % weights.size()];
}

void forward_on_cpu(std::span<const double> weights, const Tensor& logits, const Tensor& targets, const Tensor& loss) {
  double sum = 0;  // in order: the same bits for any number of threads
  with_types(logits, targets, [&](const auto* z, const auto* target) {
    for (std::int64_t i = 0; i < logits.count(); ++i) {
      const auto value = static_cast<double>(to_compute(z[i])), positive = static_cast<double>(target[i]);
      const double weight = weight_of(weights, i);
      // −log sigmoid(z) and −log sigmoid(−z) share log(1 + e^−|z|); one of them has |z| besides.
      sum += (value > 0 ? value - value * positive : -weight * value * positive) +
             (1 + (weight - 1) * positive) * std::log1p(std::exp(-std::abs(value)));
    }
  });
  loss.fill(sum / static_cast<double>(std::max<std::int64_t>(1, logits.count())));
}

void backward_on_cpu(std::span<const double> weights, const Tensor& logits, const Tensor& targets, const Tensor& dy,
                     const Tensor& dz) {
  const double scale = dy.item() / static_cast<double>(std::max<std::int64_t>(1, logits.count()));
  with_types(logits, targets, [&]<class T>(const T* z, const auto* target) {
    for (std::int64_t i = 0; i < logits.count(); ++i) {
      const double p = 1 / (1 + std::exp(-static_cast<double>(to_compute(z[i]))));
      const auto positive = static_cast<double>(target[i]);
      const double weight = weight_of(weights, i);
      const double slope = (1 + (weight - 1) * positive) * p - weight * positive;
      dz.data<T>()[i] = static_cast<T>(static_cast<Compute<T>>(scale * slope));
    }
  });
}

const RegisterKernel plain_forward{binary_cross_entropy_forward, DeviceKind::cpu,
                                   [](const Tensor& logits, const Tensor& targets, const Tensor& loss) {
                                     forward_on_cpu({}, logits, targets, loss);
                                   }};
const RegisterKernel plain_backward{
    binary_cross_entropy_backward, DeviceKind::cpu,
    [](const Tensor& logits, const Tensor& targets, const Tensor& dy, const Tensor& dz) {
      backward_on_cpu({}, logits, targets, dy, dz);
    }};
const RegisterKernel weighted_forward{weighted_binary_cross_entropy_forward, DeviceKind::cpu, forward_on_cpu};
const RegisterKernel weighted_backward{weighted_binary_cross_entropy_backward, DeviceKind::cpu, backward_on_cpu};

}  // namespace

Tensor BinaryCrossEntropy::forward(std::span<const Tensor> inputs) const {
  const Tensor &z = inputs[logits], &target = inputs[targets];
  expect(z.shape() == target.shape() && (target.dtype() == DType::f32 || target.dtype() == DType::f64),
         "binary_cross_entropy: expected targets {} of f32 or f64, got {} {}", z.shape(), name_of(target.dtype()),
         target.shape());
  expect(positive_weights.empty() || std::ssize(positive_weights) == z.shape().back(),
         "binary_cross_entropy: expected a weight for each entry of the last axis of {}, got {}", z.shape(),
         positive_weights.size());
  Tensor loss = Tensor::empty({}, compute_type(z.dtype()), z.device());
  if (positive_weights.empty())
    binary_cross_entropy_forward(z.device(), z, target, loss);
  else
    weighted_binary_cross_entropy_forward(z.device(), positive_weights, z, target, loss);
  return loss;
}

void BinaryCrossEntropy::backward(Tensor dy, const Saved<BinaryCrossEntropy>& saved, Grads& grads) const {
  const Tensor z = saved.get<input(logits)>().whole(), target = saved.get<input(targets)>().whole();
  grads[logits] = empty_like(z);
  if (positive_weights.empty())
    binary_cross_entropy_backward(z.device(), z, target, dy, grads[logits]);
  else
    weighted_binary_cross_entropy_backward(z.device(), positive_weights, z, target, dy, grads[logits]);
}

}  // namespace lacuna
