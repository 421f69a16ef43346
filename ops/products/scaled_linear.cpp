#include "ops/products/scaled_linear.h"

#include "core/coded/codec.h"
#include "core/parallel.h"
#include "ops/operand.h"
#include "ops/products/linear.h"
#include "ops/products/scaled_linear_kernels.h"

namespace lacuna {
namespace {

const RegisterOp<ScaledLinear> scaled_linear;

constexpr std::int64_t serial_below = 16;  // rows of a weight

const RegisterKernel cpu_scale_rows{
    scale_rows, DeviceKind::cpu, [](const Tensor& values, const Tensor& scale, const Tensor& scaled) {
      with_compute_type(scaled.dtype(), [&]<class C>(Type<C>) {
        const C *const from = values.data<C>(), *const factors = scale.data<C>();
        C* const to = scaled.data<C>();
        const std::int64_t rows = scale.count(), width = values.count() / std::max<std::int64_t>(rows, 1);
        parallel_for(rows, serial_below, [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t i = begin; i < end; ++i)
#pragma GCC ivdep
            for (std::int64_t j = 0; j < width; ++j) to[i * width + j] = factors[i] * from[i * width + j];
        });
      });
    }};
const RegisterKernel cpu_scale_gradient{
    scaled_linear_scale_gradient, DeviceKind::cpu,
    [](const Tensor& weight, const Tensor& weight_sums, const Tensor& bias, const Tensor& bias_sums,
       const Tensor& scale_gradient) {
      with_compute_type(weight.dtype(), [&]<class C>(Type<C>) {
        const C *const w = weight.data<C>(), *const sums = weight_sums.data<C>();
        C* const to = scale_gradient.data<C>();
        const std::int64_t rows = weight.shape()[0], width = weight.shape()[1];
        parallel_for(rows, serial_below, [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t i = begin; i < end; ++i) {
            C sum = 0;
#pragma omp simd reduction(+ : sum)
            for (std::int64_t j = 0; j < width; ++j) sum += w[i * width + j] * sums[i * width + j];
            to[i] = bias.defined() ? sum + bias.data<C>()[i] * bias_sums.data<C>()[i] : sum;
          }
        });
      });
    }};

Tensor scaled_copy(const Tensor& values, const Tensor& scale) {
  const Tensor scaled = Tensor::empty(values.shape(), scale.dtype(), values.device(), Purpose::workspace);
  if (values.is_coded()) decode(values, scaled);
  scale_rows(scaled.device(), values.is_coded() ? scaled : values, scale, scaled);
  return scaled;
}

/// The saved tensors of Linear's backward: x, and the scaled weight.
class LinearSaved final : public SavedTensors {
 public:
  LinearSaved(const Saved<ScaledLinear>& saved, Tensor weight) : saved_(saved), weight_(std::move(weight)) {}
  Operand operand(std::size_t row) const override {
    return row == 0 ? saved_.get<input(ScaledLinear::x)>() : Operand(weight_);
  }
  Shape shape(std::size_t row) const override {
    return row == 0 ? saved_.shape<input(ScaledLinear::x)>() : weight_.shape();
  }

 private:
  const Saved<ScaledLinear>& saved_;
  Tensor weight_;
};

}  // namespace

std::int64_t ScaledLinear::macs(std::span<const Shape> inputs, const Shape& y) const {
  return y.count() * inputs[weight].back();
}

Tensor ScaledLinear::forward(std::span<const Tensor> inputs) const {
  const Tensor &w = inputs[weight], &factors = inputs[scale];
  expect(
      w.shape().rank() == 2 && factors.shape() == Shape{w.shape()[0]} && (factors.dtype() == w.dtype() || w.is_coded()),
      "scaled_linear: expected a scale [{}] in {} for a weight {}, got {} in {}", w.shape()[0], name_of(w.dtype()),
      w.shape(), factors.shape(), name_of(factors.dtype()));
  const std::array scaled{inputs[x], scaled_copy(w, factors),
                          inputs[bias].defined() ? scaled_copy(inputs[bias], factors) : Tensor(),
                          inputs.size() > residual ? inputs[residual] : Tensor()};
  return Linear{}.forward(scaled);
}

void ScaledLinear::backward(Tensor dy, const Saved<ScaledLinear>& saved, Grads& grads) const {
  const Device device = dy.device();
  const DType factors_type = compute_type(dy.dtype());
  const Tensor factors =
      grads.wanted(x) || grads.wanted(weight) || grads.wanted(bias) ? saved.get<input(scale)>().whole() : Tensor();
  const Tensor w = grads.wanted(x) || grads.wanted(scale) ? saved.get<input(weight)>().whole() : Tensor();
  const Tensor b = grads.wanted(scale) && saved.has<input(bias)>() ? saved.get<input(bias)>().whole() : Tensor();
  InputSet wanted;  // of Linear
  if (grads.wanted(x)) wanted.insert(Linear::x);
  if (grads.wanted(weight) || grads.wanted(scale)) wanted.insert(Linear::weight);
  if (grads.wanted(bias) || b.defined()) wanted.insert(Linear::bias);
  if (grads.wanted(residual)) wanted.insert(Linear::residual);
  Grads unscaled(4, wanted);  // of x; dyᵀ·x; Σ dy; dy
  unscaled[Linear::x] = grads[x];
  if (grads.wanted(residual)) unscaled[Linear::residual] = grads[residual];
  const LinearSaved linear_saved(saved, grads.wanted(x) ? scaled_copy(w, factors) : Tensor());
  Linear{}.backward(std::move(dy), Saved<Linear>(linear_saved), unscaled);
  if (grads.wanted(x)) grads[x] = unscaled[Linear::x];
  if (grads.wanted(residual)) grads[residual] = unscaled[Linear::residual];
  if (grads.wanted(scale)) {
    grads[scale] = Tensor::empty({w.shape()[0]}, factors_type, device);
    scaled_linear_scale_gradient(device, w.is_coded() ? w.to(factors_type) : w, unscaled[Linear::weight], b,
                                 unscaled[Linear::bias], grads[scale]);
  }
  for (const auto& [own, theirs] : {std::pair{weight, Linear::weight}, {bias, Linear::bias}}) {
    if (!grads.wanted(own)) continue;
    scale_rows(device, unscaled[theirs], factors, unscaled[theirs]);
    grads[own] = unscaled[theirs];
  }
}

}  // namespace lacuna
