#include "optim/loss_scale.h"

#include "ops/arithmetic/factor.h"
#include "optim/kernels.h"

namespace lacuna {
namespace {

const RegisterKernel cpu_seed{
    seed_loss_gradient, DeviceKind::cpu, [](const Factor& share, const Tensor& scale, const Tensor& gradient) {
      const double times = scale.defined() ? static_cast<double>(*scale.data<const float>()) : 1;
      const double seed = share.item() * times;
      if (gradient.dtype() == DType::f64)
        *gradient.data<double>() = seed;
      else
        *gradient.data<float>() = static_cast<float>(seed);
    }};

const RegisterKernel cpu_adapt{
    adapt_loss_scale, DeviceKind::cpu,
    [](const Tensor& finite, std::int64_t growth_interval, const Tensor& scale, const Tensor& good_steps) {
      float& value = *scale.data<float>();
      std::int32_t& good = *good_steps.data<std::int32_t>();
      const LossScaleState next = next_loss_scale({value, good}, *finite.data<std::int32_t>() != 0, growth_interval);
      value = next.scale;
      good = next.good_steps;
    }};

}  // namespace

LossScale::LossScale(const LossScaleSettings& settings, Device device)
    : growth_interval_(settings.growth_interval),
      scale_(Tensor::full({}, settings.initial, DType::f32, device, Purpose::optimizer)),
      good_steps_(Tensor::zeros({}, DType::i32, device, Purpose::optimizer)) {
  expect(settings.initial > 0 && settings.growth_interval > 0,
         "loss scale: expected an initial scale and a growth interval above 0, got {} and {}", settings.initial,
         settings.growth_interval);
}

void LossScale::adapt(const Tensor& finite) const {
  adapt_loss_scale(scale_.device(), finite, growth_interval_, scale_, good_steps_);
}

}  // namespace lacuna
