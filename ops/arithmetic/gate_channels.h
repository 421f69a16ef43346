// Images times one factor a channel.
#pragma once

#include "core/op.h"

namespace lacuna {

/// y[n, ..., c] = x[n, ..., c] · gate[n, c]: the product of squeeze-and-excitation (Hu et al. 2018). x [N, ..., C],
/// gate [N, C], of one type.
struct GateChannels {
  enum Input { x, gate };
  Shape shape;  // of x: backward may have the gate alone
  static constexpr std::string_view name = "gate_channels";
  static constexpr std::array saves{Save{.from = input(x), .need = Need::value, .for_grad_of = {gate}},
                                    Save{.from = input(gate), .need = Need::exact, .for_grad_of = {x}}};
  static constexpr std::array rematerializes{rows_of(input(x)), all_of(input(gate))};
  Tensor forward(std::span<const Tensor> inputs) const;
  void backward(Tensor dy, const Saved<GateChannels>& saved, Grads& grads) const;
  void rematerialize(const RematInputs<GateChannels>& from, const Tensor& out) const;

 private:
  std::int64_t pixels() const { return shape.count() / (shape.front() * shape.back()); }
};

}  // namespace lacuna
