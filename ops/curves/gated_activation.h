// The gated linear unit of transformers.
#pragma once

#include "core/kernel.h"
#include "core/op.h"

#include <cstdint>

namespace lacuna {

/// y = f(gate) · up (Shazeer 2020, section 2), f one of `Curve`. gate, up, y: [..., C] of one type. Without `up`, gate
/// holds both along the last axis, the gate first: [..., 2 C]. f(gate) is not kept.
struct GatedActivation {
  enum Input { gate, up };
  enum class Curve : std::uint8_t { silu, gelu, gelu_tanh } curve = Curve::silu;
  static constexpr std::string_view name = "gated_activation";
  static constexpr OpKind kind = OpKind::activation;
  static constexpr std::array saves{Save{.from = input(gate), .need = Need::value, .for_grad_of = {gate, up}},
                                    Save{.from = input(up), .need = Need::value, .for_grad_of = {gate}}};
  static constexpr std::array rematerializes{rows_or_codes_of(input(gate)), rows_or_codes_of(input(up))};
  Tensor forward(std::span<const Tensor> inputs) const;
  void backward(Tensor dy, const Saved<GatedActivation>& saved, Grads& grads) const;
  void rematerialize(const RematInputs<GatedActivation>& from, const Tensor& out) const;
};

/// `up` is undefined if gate holds both. gate: [..., C] or [..., 2 C]; up, y: [..., C].
inline constinit Kernel<void(GatedActivation::Curve curve, const Tensor& gate, const Tensor& up, const Tensor& y)>
    gated_activation_forward{"gated_activation"};
/// The same on cuda, where gate or up is codes (RematInputs::codes), of which rows from `begin` on are read.
inline constinit Kernel<void(GatedActivation::Curve curve, const Operand& gate, const Operand& up, std::int64_t begin,
                             const Tensor& y)>
    gated_activation_of_codes{"gated_activation of codes"};
/// dgate, dup: as gate and up, undefined if not wanted; one of them may be dy. `up` may be undefined if dgate is.
inline constinit Kernel<void(GatedActivation::Curve curve, const Operand& gate, const Operand& up, const Tensor& dy,
                             const Tensor& dgate, const Tensor& dup)>
    gated_activation_backward{"gated_activation backward"};

}  // namespace lacuna
