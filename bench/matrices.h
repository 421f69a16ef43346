// Parameters with gradients, for timing an optimizer's step.
#pragma once

#include "nn/module.h"

#include <fmt/format.h>

#include <memory>
#include <vector>

namespace lacuna::bench {

struct Matrices : Module {
  Matrices(std::int64_t count, const Shape& shape, Device device = Device::cpu)
      : Module(ModelContext{.device = device}) {
    for (std::int64_t i = 0; i < count; ++i) {
      weights.push_back(std::make_unique<Parameter>(*this, fmt::format("weight{}", i), shape,
                                                    [](const Tensor& tensor, RandomStream) { tensor.fill(0.02); }));
      weights.back()->set_grad(Tensor::full(shape, 0.001, DType::f32, device, Purpose::gradients));
    }
  }
  std::vector<std::unique_ptr<Parameter>> weights;  // each of `shape`
};

}  // namespace lacuna::bench
