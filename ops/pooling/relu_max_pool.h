// ReLU and max pooling in one op.
#pragma once

#include "core/op.h"

namespace lacuna {

/// max(maximum of each window, 0), which is the pooled ReLU: shapes and the extra output are MaxPool2d's
/// (ops/pooling/pool.h). The gradient passes where the result is positive, so that the ReLU of the whole image is
/// neither made nor kept.
struct ReluMaxPool2d {
  enum Input { x };
  std::int64_t kernel = 2, stride = 2, padding = 0;
  std::int64_t height = 0, width = 0;  // x's
  static constexpr std::string_view name = "relu_max_pool2d";
  static constexpr std::array saves{Save{.from = extra_output(0), .need = Need::exact, .for_grad_of = {x}},
                                    Save{.from = output, .need = Need::sign, .for_grad_of = {x}}};
  Tensor forward(std::span<const Tensor> inputs, std::vector<Tensor>& extra_outputs) const;
  void backward(Tensor dy, const Saved<ReluMaxPool2d>& saved, Grads& grads) const;
};

}  // namespace lacuna
