#include "ops/curves/activation.h"
#include "ops/curves/swiglu.h"
#include "tests/ops/op_sample.h"

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
const RegisterSample swiglu({.name = "swiglu",
                             .op = bound(SwiGlu{}),
                             .inputs =
                                 [](DType dtype) {
                                   return std::vector{sample_values({3, 5, 74}, dtype, 1)};
                                 },
                             .differentiable = {0}});
const RegisterSample sigmoid(unary("sigmoid", Sigmoid{}));
const RegisterSample tanh_sample(unary("tanh", Tanh{}));

}  // namespace
}  // namespace lacuna
