// The ops of nn/functional.h, for losses written in Python.
#include "nn/functional.h"
#include "python/gil.h"
#include "python/tensors.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace lacuna::python {
namespace nb = nanobind;
using nb::literals::operator""_a;

void bind_ops(nb::module_& module) {
  using Free = nb::call_guard<CppScope>;
  nb::module_ ops = module.def_submodule("ops");
  const auto elementwise = [&](const char* name, Variable (*op)(Variable), const char* help) {
    ops.def(name, op, "x"_a, Free(), help);
  };
  elementwise("relu", relu, "max(x, 0), elementwise.");
  elementwise("gelu", gelu, "x·Φ(x), exact (with erf).");
  elementwise("gelu_tanh", gelu_tanh, "The approximation of gelu by tanh.");
  elementwise("silu", silu, "x·sigmoid(x).");
  elementwise("hard_swish", hard_swish, "x·min(max(x + 3, 0), 6) / 6.");
  elementwise("hard_sigmoid", hard_sigmoid, "min(max(x + 3, 0), 6) / 6.");
  elementwise("relu6", relu6, "min(max(x, 0), 6).");
  elementwise("sigmoid", sigmoid, "1 / (1 + exp(-x)).");
  elementwise("tanh", tanh, "tanh(x).");
  elementwise("softmax", softmax, "Softmax over the last axis.");
  elementwise("log_softmax", log_softmax, "The logarithm of softmax over the last axis.");
  elementwise("sum", sum, "The sum of all elements: [...] to [].");
  elementwise("mean", mean, "The mean of all elements: [...] to [].");
  elementwise("global_avg_pool", global_avg_pool,
              "The mean over all axes between the first and the last: [N, ..., C] to [N, C].");
  ops.def("matmul", matmul, "a"_a, "b"_a, "transpose_b"_a = false, Free(),
          "a [..., M, K] times b [..., K, N], or [..., N, K] with transpose_b; equal leading axes.");
  ops.def(
      "linear",
      [](Variable x, Variable weight, std::optional<Variable> bias) {
        return linear(std::move(x), std::move(weight), bias.value_or(Variable()));
      },
      "x"_a, "weight"_a, "bias"_a = nb::none(), Free(),
          "x [..., in] times the transpose of weight [out, in], plus bias [out].");
  ops.def("layer_norm", layer_norm, "x"_a, "weight"_a, "bias"_a, "eps"_a = 1e-6, Free(),
          "Layer norm over the last axis of x [..., C], with weight and bias [C].");
  ops.def("cross_entropy", cross_entropy, "logits"_a, "targets"_a, "label_smoothing"_a = 0, Free(),
          "Mean cross entropy: logits [N, C]; targets i64 [N], or probabilities [N, C].");
  ops.def("slice", slice, "x"_a, "axis"_a, "begin"_a, "end"_a, Free(),
          "Entries [begin, end) of an axis; negative numbers count from the end.");
  ops.def("concat", concat, "inputs"_a, "axis"_a, Free(), "Concatenates along an axis; all other extents agree.");
  ops.def(
      "conv2d",
      [](Variable x, Variable weight, std::optional<Variable> bias, std::int64_t stride, std::int64_t padding,
         std::int64_t groups) {
        return conv2d(std::move(x), std::move(weight), bias.value_or(Variable()), {stride, padding, groups});
      },
      "x"_a, "weight"_a, "bias"_a = nb::none(), "stride"_a = 1, "padding"_a = 0, "groups"_a = 1, Free(),
      "Convolution of x [N, H, W, C] with weight [O, C / groups, kh, kw] and bias [O].");
  const auto pool = [&](const char* name, Variable (*op)(Variable, const PoolCall&), const char* help) {
    ops.def(
        name,
        [op](Variable x, std::int64_t kernel, std::int64_t stride, std::int64_t padding) {
          return op(std::move(x), {kernel, stride, padding});
        },
        "x"_a, "kernel"_a = 2, "stride"_a = 2, "padding"_a = 0, Free(), help);
  };
  pool("max_pool2d", max_pool2d,
       "Max pooling of x [N, H, W, C] to [N, H', W', C], H' = (H + 2 padding - kernel) / stride + 1.");
  pool("avg_pool2d", avg_pool2d, "Average pooling, as max_pool2d.");
}

}  // namespace lacuna::python
