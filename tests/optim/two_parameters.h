// The model of the optimizer tests: a matrix, a vector, and gradients from a formula.
#pragma once

#include "nn/module.h"

namespace lacuna {

/// Numbers in [-2, 2] that are exact in float, by the formula of make_references.py.
inline std::vector<float> drawn(std::int64_t site, std::int64_t count) {
  std::vector<float> values;
  for (std::int64_t i = 0; i < count; ++i)
    values.push_back(static_cast<float>(((i + 1) * 7919 + (site + 1) * 104729) % 2049 - 1024) / 512.0F);
  return values;
}

struct TwoParameters : Module {
  explicit TwoParameters(Device device = Device::cpu, std::int64_t rows = 2, std::int64_t columns = 3,
                         bool in_bf16 = false)
      : Module(ModelContext{
            .device = device,
            .formats = in_bf16 ? std::make_shared<const WeightFormats>(WeightFormats{{"weight", {}}}) : nullptr}),
        weight(*this, "weight", {rows, columns}, filled(100)),
        bias(*this, "bias", {rows}, filled(101)) {
    set_role(Role::block);  // its matrix is one of a hidden layer
  }

  static Init filled(int site) {
    return [=](const Tensor& tensor, RandomStream) {
      tensor.copy_from(Tensor::from(std::span<const float>(drawn(site, tensor.count())), tensor.shape()));
    };
  }
  void set_gradients(int step, DType type = DType::f32) {
    int site = 2 * step;
    for (Parameter* parameter : parameters()) {
      const Tensor gradient =
          Tensor::empty(parameter->shape(), DType::f32, parameter->tensor().device(), Purpose::gradients);
      if (gradient.device() != Device::meta) filled(site)(gradient, {});
      ++site;
      if (parameter->trainable()) parameter->set_grad(gradient.to(type));
    }
  }
  /// All values, the weight's first.
  std::vector<double> values() const {
    std::vector<double> all = weight.tensor().to_vector();
    for (const double value : bias.tensor().to_vector()) all.push_back(value);
    return all;
  }

  Parameter weight;  // [rows, columns]
  Parameter bias;    // [rows]
};

}  // namespace lacuna
