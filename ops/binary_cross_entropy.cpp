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

const RegisterKernel forward_on_cpu{
    binary_cross_entropy_forward, DeviceKind::cpu, [](const Tensor& logits, const Tensor& targets, const Tensor& loss) {
      double sum = 0;  // in order: the same bits for any number of threads
      with_types(logits, targets, [&](const auto* z, const auto* target) {
        for (std::int64_t i = 0; i < logits.count(); ++i) {
          const auto value = static_cast<double>(to_compute(z[i]));
          sum += std::max(value, 0.0) - value * static_cast<double>(target[i]) + std::log1p(std::exp(-std::abs(value)));
        }
      });
      loss.fill(sum / static_cast<double>(std::max<std::int64_t>(1, logits.count())));
    }};
const RegisterKernel backward_on_cpu{
    binary_cross_entropy_backward, DeviceKind::cpu,
    [](const Tensor& logits, const Tensor& targets, const Tensor& dy, const Tensor& dz) {
      const double scale = dy.item() / static_cast<double>(std::max<std::int64_t>(1, logits.count()));
      with_types(logits, targets, [&]<class T>(const T* z, const auto* target) {
        for (std::int64_t i = 0; i < logits.count(); ++i) {
          const double p = 1 / (1 + std::exp(-static_cast<double>(to_compute(z[i]))));
          dz.data<T>()[i] = static_cast<T>(static_cast<Compute<T>>(scale * (p - static_cast<double>(target[i]))));
        }
      });
    }};

}  // namespace

Tensor BinaryCrossEntropy::forward(std::span<const Tensor> inputs) const {
  const Tensor &z = inputs[logits], &target = inputs[targets];
  expect(z.shape() == target.shape() && (target.dtype() == DType::f32 || target.dtype() == DType::f64),
         "binary_cross_entropy: expected targets {} of f32 or f64, got {} {}", z.shape(), name_of(target.dtype()),
         target.shape());
  Tensor loss = Tensor::empty({}, compute_type(z.dtype()), z.device());
  binary_cross_entropy_forward(z.device(), z, target, loss);
  return loss;
}

void BinaryCrossEntropy::backward(Tensor dy, const Saved<BinaryCrossEntropy>& saved, Grads& grads) const {
  const Tensor z = saved.get<input(logits)>().whole(), target = saved.get<input(targets)>().whole();
  grads[logits] = empty_like(z);
  binary_cross_entropy_backward(z.device(), z, target, dy, grads[logits]);
}

}  // namespace lacuna
