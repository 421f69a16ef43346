#include "ops/curves/activation.h"
#include "ops/curves/gated_activation.h"
#include "tests/ops/op_sample.h"

#include <cmath>

namespace lacuna {
namespace {

template <class Op>
OpSample unary(const std::string& name, Op op) {
  return {.name = name,
          .op = bound(op),
          .inputs =
              [](DType dtype) {
                return std::vector{sample_values_off_zero({3, 5, 37}, dtype, 1)};
              },
          .differentiable = {0}};
}

const RegisterSample gelu_erf(unary("gelu erf", Gelu{}));
const RegisterSample gelu_tanh(unary("gelu tanh", Gelu(Gelu::Form::tanh)));
const RegisterSample relu(unary("relu", Relu{}));
const RegisterSample silu(unary("silu", Silu{}));
const RegisterSample quick_gelu(unary("quick_gelu", QuickGelu{}));

/// Values on all pieces of the curve, off their ends -3, 0, 3 and 6.
template <class Op>
OpSample in_pieces(const std::string& name, Op op) {
  OpSample sample = unary(name, op);
  sample.inputs = [](DType dtype) {
    std::vector<double> values = sample_values_off_zero({3, 5, 37}, DType::f64, 1).to_vector();
    for (double& value : values) value = std::floor(4 * value) + 0.375;
    return std::vector{Tensor::from(std::span<const double>(values), {3, 5, 37}, dtype)};
  };
  return sample;
}
const RegisterSample hard_swish(in_pieces("hard_swish", HardSwish{}));
const RegisterSample hard_sigmoid(in_pieces("hard_sigmoid", HardSigmoid{}));
const RegisterSample relu6(in_pieces("relu6", Relu6{}));

OpSample gated(std::string name, GatedActivation op, bool joined) {
  return {.name = std::move(name),
          .op = bound(op),
          .inputs =
              [=](DType dtype) {
                return std::vector{sample_values({3, 5, joined ? 74 : 37}, dtype, 1),
                                   joined ? Tensor() : sample_values({3, 5, 37}, dtype, 2)};
              },
          .differentiable = joined ? InputSet{0} : InputSet{0, 1}};
}
using Gate = GatedActivation::Curve;
const RegisterSample gates[] = {RegisterSample(gated("gated_activation, joined", {}, true)),
                                RegisterSample(gated("gated_activation, silu", {}, false)),
                                RegisterSample(gated("gated_activation, gelu", {.curve = Gate::gelu}, false)),
                                RegisterSample(gated("gated_activation, gelu_tanh", {.curve = Gate::gelu_tanh}, true))};
const RegisterSample sigmoid(unary("sigmoid", Sigmoid{}));
const RegisterSample tanh_sample(unary("tanh", Tanh{}));
const RegisterSample elu(unary("elu", Elu{}));

}  // namespace
}  // namespace lacuna
