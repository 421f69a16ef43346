#include "ops/losses/binary_cross_entropy.h"

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

/// Gives the weight of a positive target of the last axis' entry that element `i` stands at.
auto by_class(std::span<const double> weights) {
  return [weights](std::int64_t i) {
    return weights.empty() ? 1.0 : weights[static_cast<std::size_t>(i) % weights.size()];
  };
}

const RegisterKernel forward_on_cpu{
    binary_cross_entropy_forward, DeviceKind::cpu,
    [](std::span<const double> positive_weights, const Tensor& logits, const Tensor& targets, const Tensor& loss) {
      double sum = 0;  // in order: the same bits for any number of threads
      with_types(logits, targets, [&](const auto* z, const auto* target) {
        const auto weight = by_class(positive_weights);
        for (std::int64_t i = 0; i < logits.count(); ++i) {
          const auto value = static_cast<double>(to_compute(z[i])), positive = static_cast<double>(target[i]);
          // −log sigmoid(z) and −log sigmoid(−z) share log(1 + e^−|z|); one of them has |z| besides.
          sum += (value > 0 ? value - value * positive : -weight(i) * value * positive) +
                 (1 + (weight(i) - 1) * positive) * std::log1p(std::exp(-std::abs(value)));
        }
      });
      loss.fill(sum / static_cast<double>(std::max<std::int64_t>(1, logits.count())));
    }};
const RegisterKernel backward_on_cpu{
    binary_cross_entropy_backward, DeviceKind::cpu,
    [](std::span<const double> positive_weights, const Tensor& logits, const Tensor& targets, const Tensor& dy,
       const Tensor& dz) {
      const double scale = dy.item() / static_cast<double>(std::max<std::int64_t>(1, logits.count()));
      with_types(logits, targets, [&]<class T>(const T* z, const auto* target) {
        const auto weight = by_class(positive_weights);
        for (std::int64_t i = 0; i < logits.count(); ++i) {
          const double p = 1 / (1 + std::exp(-static_cast<double>(to_compute(z[i]))));
          const auto positive = static_cast<double>(target[i]);
          const double slope = (1 + (weight(i) - 1) * positive) * p - weight(i) * positive;
          dz.data<T>()[i] = static_cast<T>(static_cast<Compute<T>>(scale * slope));
        }
      });
    }};

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
  binary_cross_entropy_forward(z.device(), positive_weights, z, target, loss);
  return loss;
}

void BinaryCrossEntropy::backward(Tensor dy, const Saved<BinaryCrossEntropy>& saved, Grads& grads) const {
  const Tensor z = saved.get<input(logits)>().whole(), target = saved.get<input(targets)>().whole();
  grads[logits] = empty_like(z);
  binary_cross_entropy_backward(z.device(), positive_weights, z, target, dy, grads[logits]);
}

}  // namespace lacuna
