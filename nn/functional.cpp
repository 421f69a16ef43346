#include "nn/functional.h"

#include "autograd/apply.h"
#include "ops/arithmetic/arithmetic.h"
#include "ops/arithmetic/reduce.h"
#include "ops/attention/attention.h"
#include "ops/convolution/conv.h"
#include "ops/curves/activation.h"
#include "ops/curves/dropout.h"
#include "ops/curves/softmax.h"
#include "ops/losses/loss.h"
#include "ops/norms/layer_norm.h"
#include "ops/pooling/pool.h"
#include "ops/products/linear.h"
#include "ops/products/matmul.h"
#include "ops/shapes/slicing.h"

namespace lacuna {
namespace {

/// `axis` as a non-negative axis of x; a negative one counts from the end.
int checked_axis(const Variable& x, int axis) {
  const int rank = x.shape().rank();
  expect(-rank <= axis && axis < rank, "expected an axis from {} to {} of {}, got {}", -rank, rank - 1, x.shape(),
         axis);
  return axis < 0 ? axis + rank : axis;
}

void expect_rank(std::string_view function, const Variable& x, int rank) {
  expect(x.shape().rank() == rank, "{}: expected {} axes, got {}", function, rank, x.shape());
}

}  // namespace

Variable operator+(Variable a, Variable b) {
  if (a.shape() == b.shape()) return apply(Add{}, std::move(a), std::move(b));
  return apply(AddBroadcast{.shape = b.shape()}, std::move(a), std::move(b));
}
Variable operator-(Variable a, Variable b) { return std::move(a) + -std::move(b); }
Variable operator*(Variable a, Variable b) { return apply(Mul{}, std::move(a), std::move(b)); }
Variable operator*(Variable x, double factor) { return apply(Scale{.factor = factor}, std::move(x)); }
Variable operator*(double factor, Variable x) { return std::move(x) * factor; }
Variable operator/(Variable x, double divisor) { return std::move(x) * (1 / divisor); }
Variable operator-(Variable x) { return std::move(x) * -1.0; }

Variable relu(Variable x) { return apply(Relu{}, std::move(x)); }
Variable gelu(Variable x) { return apply(Gelu{}, std::move(x)); }
Variable gelu_tanh(Variable x) { return apply(Gelu(Gelu::Form::tanh), std::move(x)); }
Variable silu(Variable x) { return apply(Silu{}, std::move(x)); }
Variable hard_swish(Variable x) { return apply(HardSwish{}, std::move(x)); }
Variable hard_sigmoid(Variable x) { return apply(HardSigmoid{}, std::move(x)); }
Variable relu6(Variable x) { return apply(Relu6{}, std::move(x)); }
Variable sigmoid(Variable x) { return apply(Sigmoid{}, std::move(x)); }
Variable tanh(Variable x) { return apply(Tanh{}, std::move(x)); }
Variable elu(Variable x) { return apply(Elu{}, std::move(x)); }
Variable softmax(Variable x) { return apply(Softmax{}, std::move(x)); }
Variable log_softmax(Variable x) { return apply(LogSoftmax{}, std::move(x)); }
Variable dropout(Variable x, double p, const RandomStream& stream) {
  return apply(Dropout{.p = p, .stream = stream}, std::move(x));
}

Variable matmul(Variable a, Variable b, bool transpose_b) {
  return apply(MatMul{.transpose_b = transpose_b}, std::move(a), std::move(b));
}
Variable linear(Variable x, Variable weight, Variable bias) {
  return apply(Linear{}, std::move(x), std::move(weight), std::move(bias));
}
Variable layer_norm(Variable x, Variable weight, Variable bias, double eps) {
  return apply(LayerNorm{.eps = eps}, std::move(x), std::move(weight), std::move(bias));
}

Variable conv2d(Variable x, Variable weight, Variable bias, const Conv2dCall& options) {
  expect_rank("conv2d", x, 4);
  expect_rank("conv2d: weight", weight, 4);
  const Conv2d op{.stride = options.stride,
                  .padding = options.padding,
                  .groups = options.groups,
                  .kernel_height = weight.shape()[2],
                  .kernel_width = weight.shape()[3],
                  .height = x.shape()[1],
                  .width = x.shape()[2]};
  return apply(op, std::move(x), std::move(weight), std::move(bias));
}

Variable max_pool2d(Variable x, const PoolCall& options) {
  expect_rank("max_pool2d", x, 4);
  const MaxPool2d op{.kernel = options.kernel,
                     .stride = options.stride,
                     .padding = options.padding,
                     .height = x.shape()[1],
                     .width = x.shape()[2]};
  return apply(op, std::move(x));
}
Variable avg_pool2d(Variable x, const PoolCall& options) {
  expect_rank("avg_pool2d", x, 4);
  const AvgPool2d op{.kernel = options.kernel,
                     .stride = options.stride,
                     .padding = options.padding,
                     .height = x.shape()[1],
                     .width = x.shape()[2]};
  return apply(op, std::move(x));
}
Variable global_avg_pool(Variable x) {
  const GlobalAvgPool op{.shape = x.shape()};
  return apply(op, std::move(x));
}

Variable attention(Variable q, Variable k, Variable v, const AttentionCall& options) {
  const CrossAttention op{
      .heads = options.heads, .scale = options.scale, .dropout = options.dropout, .stream = options.stream};
  return apply(op, std::move(q), std::move(k), std::move(v), options.bias, options.key_lengths);
}

Variable sum(Variable x) {
  const Sum op{.shape = x.shape()};
  return apply(op, std::move(x));
}
Variable mean(Variable x) {
  const Mean op{.shape = x.shape()};
  return apply(op, std::move(x));
}
Variable cross_entropy(Variable logits, Variable targets, double label_smoothing) {
  return apply(CrossEntropy{.label_smoothing = label_smoothing}, std::move(logits), std::move(targets));
}

Variable slice(Variable x, int axis, std::int64_t begin, std::int64_t end) {
  const int from = checked_axis(x, axis);
  const std::int64_t extent = x.shape()[from];
  return apply(Slice{.axis = from,
                     .begin = begin < 0 ? begin + extent : begin,
                     .end = end < 0 ? end + extent : end,
                     .extent = extent},
               std::move(x));
}

Variable concat(std::vector<Variable> inputs, int axis) {
  expect(!inputs.empty(), "concat: expected at least one input");
  Concat op{.axis = checked_axis(inputs.front(), axis), .extents = {}};
  for (const Variable& input : inputs) {
    expect(input.shape().rank() > op.axis, "concat: expected an axis {} in every input, got {}", op.axis,
           input.shape());
    op.extents.push_back(input.shape()[op.axis]);
  }
  return record(std::make_shared<const Bound<Concat>>(std::move(op)), inputs).outputs.front();
}

}  // namespace lacuna
