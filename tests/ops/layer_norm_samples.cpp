#include "ops/norms/layer_norm.h"
#include "tests/ops/op_sample.h"

namespace lacuna {
namespace {

OpSample layer_norm(std::string name, Shape shape, double eps, double low, double high, bool bias = true) {
  return {.name = std::move(name),
          .op = bound(LayerNorm{.eps = eps}),
          .inputs =
              [=](DType dtype) {
                const Shape channels{shape.back()};
                return std::vector{sample_values(shape, dtype, 1, low, high),
                                   sample_values(channels, compute_type(dtype), 2, 0.5, 1.5),
                                   bias ? sample_values(channels, compute_type(dtype), 3) : Tensor()};
              },
          .differentiable = bias ? InputSet{0, 1, 2} : InputSet{0, 1}};
}

const RegisterSample odd(layer_norm("layer_norm", {3, 5, 37}, 1e-6, -2, 2));
const RegisterSample large_eps(layer_norm("layer_norm with a large eps", {4, 3}, 0.5, -2, 2));
const RegisterSample many_rows(layer_norm("layer_norm of many rows", {701, 29}, 1e-6, -2, 2));
const RegisterSample no_bias(layer_norm("layer_norm without bias", {9, 21}, 1e-5, -2, 2, false));
const RegisterSample off_centre(layer_norm("layer_norm of values far from zero", {5, 64}, 1e-6, 6, 10));
// GPUs give a row to a warp or to a block, by its length.
const RegisterSample wide[] = {RegisterSample(layer_norm("layer_norm of 264 columns", {7, 264}, 1e-6, -2, 2)),
                               RegisterSample(layer_norm("layer_norm of 520 columns", {6, 520}, 1e-6, -2, 2)),
                               RegisterSample(layer_norm("layer_norm of 709 columns", {3, 709}, 1e-6, -2, 2)),
                               RegisterSample(layer_norm("layer_norm of 776 columns", {5, 776}, 1e-6, -2, 2)),
                               RegisterSample(layer_norm("layer_norm of 1,032 columns", {3, 1032}, 1e-6, -2, 2))};

}  // namespace
}  // namespace lacuna
