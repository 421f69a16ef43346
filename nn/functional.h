// Functions and operators on variables, with PyTorch's names. Each runs one or two ops.
#pragma once

#include "autograd/variable.h"
#include "core/random.h"

#include <cstdint>
#include <vector>

namespace lacuna {

/// a + b and a − b, of one shape and type; or b is a parameter, broadcast over a's leading axes as in AddBroadcast.
Variable operator+(Variable a, Variable b);
Variable operator-(Variable a, Variable b);
/// Elementwise product, of one shape and type.
Variable operator*(Variable a, Variable b);
Variable operator*(Variable x, double factor);
Variable operator*(double factor, Variable x);
Variable operator/(Variable x, double divisor);
Variable operator-(Variable x);

Variable relu(Variable x);
/// x·Φ(x), exact (with erf).
Variable gelu(Variable x);
Variable gelu_tanh(Variable x);
Variable silu(Variable x);
/// x·min(max(x + 3, 0), 6) / 6.
Variable hard_swish(Variable x);
/// min(max(x + 3, 0), 6) / 6.
Variable hard_sigmoid(Variable x);
/// min(max(x, 0), 6).
Variable relu6(Variable x);
Variable sigmoid(Variable x);
Variable tanh(Variable x);
/// x, and e^x - 1 below 0.
Variable elu(Variable x);
/// Softmax over the last axis.
Variable softmax(Variable x);
Variable log_softmax(Variable x);
/// Zeroes elements with probability p and divides the others by 1 - p. `stream`: a stream for this call, such as
/// random_stream("name").
Variable dropout(Variable x, double p, const RandomStream& stream);

/// a [..., M, K] times b [..., K, N] (or [..., N, K] with `transpose_b`), with equal leading axes.
Variable matmul(Variable a, Variable b, bool transpose_b = false);
/// x [..., in] times the transpose of weight [out, in], plus bias [out] if given.
Variable linear(Variable x, Variable weight, Variable bias = {});
/// Layer norm over the last axis of x [..., C], with weight and bias [C].
Variable layer_norm(Variable x, Variable weight, Variable bias, double eps = 1e-6);

struct Conv2dCall {
  std::int64_t stride = 1, padding = 0, groups = 1;
};
/// Convolution of x [N, H, W, C] with weight [O, C / groups, kh, kw] and bias [O] if given.
Variable conv2d(Variable x, Variable weight, Variable bias = {}, const Conv2dCall& options = {});

struct PoolCall {
  std::int64_t kernel = 2, stride = 2, padding = 0;
};
/// Max pooling of x [N, H, W, C].
Variable max_pool2d(Variable x, const PoolCall& options = {});
Variable avg_pool2d(Variable x, const PoolCall& options = {});
/// Mean over all axes between the first and the last: [N, ..., C] to [N, C].
Variable global_avg_pool(Variable x);

struct AttentionCall {
  std::int64_t heads = 1;
  double scale = 0;        // 0: 1 / sqrt(head_dim)
  Variable bias{};         // added to the scores: see ops/attention/attention.h
  Variable key_lengths{};  // i64 [B]
  double dropout = 0;
  RandomStream stream{};  // random stream of dropout
};
/// q [B, Lq, D], k and v [B, Lk, D], D = heads · head_dim; the result is [B, Lq, D].
Variable attention(Variable q, Variable k, Variable v, const AttentionCall& options);

/// Sum and mean of all elements: a scalar.
Variable sum(Variable x);
Variable mean(Variable x);
/// Cross-entropy, averaged over the batch to a scalar. logits [N, C]; targets i64 [N], or probabilities [N, C].
Variable cross_entropy(Variable logits, Variable targets, double label_smoothing = 0);

/// Entries [begin, end) of `axis`. Negative numbers count from the end, as in Python.
Variable slice(Variable x, int axis, std::int64_t begin, std::int64_t end);
/// Concatenates along `axis`; all other extents must agree.
Variable concat(std::vector<Variable> inputs, int axis);

}  // namespace lacuna
