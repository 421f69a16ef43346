// A recorded op.
#pragma once

#include "autograd/node.h"

namespace lacuna {

/// Total bytes of the defined tensors.
std::int64_t bytes_of(std::span<const Tensor> tensors);

struct OpNode final : Node {
  std::shared_ptr<const Operation> operation{};
  InputSet wanted{};  // inputs that require a gradient

  void backward(std::vector<Tensor> output_gradients, BackwardPass& pass) override;
};

}  // namespace lacuna
