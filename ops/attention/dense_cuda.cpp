#include "ops/attention/dense_cuda.h"

#include "core/backend.h"
#include "ops/attention/dense_memory.h"
#include "ops/cuda_libraries.h"
#include "ops/dnn_cuda.h"

#include <algorithm>
#include <utility>

namespace lacuna {
namespace {

bool is_dense(const DenseArguments& a, DType dtype) {
  constexpr std::int64_t unit = 8;  // of strides, in elements
  const auto fits = [](const TokenColumns& columns) {
    return columns.tokens.defined() && columns.first % unit == 0 && columns.tokens.shape().back() % unit == 0;
  };
  return uses_cudnn() && is_dense(a.head_dim, dtype) && fits(a.q) && fits(a.k) && fits(a.v);
}

std::int64_t stride_of(const TokenColumns& columns) { return columns.tokens.shape().back(); }
std::byte* data_of(const TokenColumns& columns) {
  return columns.tokens.raw() + columns.first * size_of(columns.tokens.dtype());
}

cuda::DenseAttention dense_problem(const DenseArguments& a, DType dtype) {
  return {.backward = false,
          .dtype = dtype,
          .samples = a.samples,
          .heads = a.heads,
          .kv_heads = a.kv_heads,
          .queries = a.queries,
          .keys = a.keys,
          .head_dim = a.head_dim,
          .query_rows = a.query_rows,
          .q_stride = stride_of(a.q),
          .k_stride = stride_of(a.k),
          .v_stride = stride_of(a.v),
          .dq_stride = 0,
          .dk_stride = 0,
          .dv_stride = 0,
          .scale = static_cast<float>(a.scale),
          .causal = a.causal};
}

void run_dense(Device device, const cuda::DenseAttention& what, const cuda::DenseAttentionPointers& pointers) {
  const Tensor workspace = Tensor::empty({cuda::workspace_for(what)}, DType::u8, device, Purpose::workspace);
  cuda::attend(stream_of(device), device.index, what, pointers, workspace.raw());
}

}  // namespace

Tensor forward_by_cudnn(const DenseArguments& a, const Tensor& y) {
  const Device device = y.device();
  if (!is_dense(a, y.dtype())) return {};
  const cuda::DenseAttention what = dense_problem(a, y.dtype());
  if (!cuda::has_plan(device.index, what)) return {};
  Tensor log_sums = Tensor::empty({a.samples, a.heads, a.queries}, DType::f32, device);
  run_dense(
      device, what,
      {.q = data_of(a.q), .k = data_of(a.k), .v = data_of(a.v), .y = y.raw(), .log_sums = log_sums.data<float>()});
  return log_sums;
}

bool backward_by_cudnn(const DenseArguments& a, const Tensor& dy, const TokenColumns& dq, const TokenColumns& dk,
                       const TokenColumns& dv) {
  const Device device = dy.device();
  if (!is_dense(a, dy.dtype()) || !dq.tokens.defined() || !dk.tokens.defined() || !dv.tokens.defined()) return false;
  const bool again = !a.y.defined() || !a.log_sums.defined();
  const std::int64_t part = cuda::samples_at_once(dense_problem(a, dy.dtype()));
  const std::int64_t rest = a.samples % part;
  const auto plans_of = [&](std::int64_t samples) {
    cuda::DenseAttention forward = dense_problem(a, dy.dtype());
    forward.samples = samples;
    cuda::DenseAttention backward = forward;
    backward.backward = true;
    backward.dq_stride = stride_of(dq);
    backward.dk_stride = stride_of(dk);
    backward.dv_stride = stride_of(dv);
    return std::pair(forward, backward);
  };
  for (const std::int64_t samples : {part, rest == 0 ? part : rest}) {
    const auto [forward, backward] = plans_of(samples);
    if (!cuda::has_room(backward) || (again && !cuda::has_plan(device.index, forward)) ||
        !cuda::has_plan(device.index, backward))
      return false;
  }
  const std::int64_t width = a.heads * a.head_dim;
  const Tensor y_again = Tensor::empty({again ? part * a.queries : 0, width}, dy.dtype(), device, Purpose::workspace);
  const Tensor sums_again =
      Tensor::empty({again ? part : 0, a.heads, a.queries}, DType::f32, device, Purpose::workspace);
  if (a.query_rows > a.queries) dq.tokens.fill(0);  // rows that ask nothing
  for (std::int64_t first = 0; first < a.samples; first += part) {
    const std::int64_t samples = std::min(part, a.samples - first);
    const auto [forward, backward] = plans_of(samples);
    const auto from = [&](const TokenColumns& columns, std::int64_t rows) {
      return data_of(columns) + first * rows * stride_of(columns) * size_of(dy.dtype());
    };
    cuda::DenseAttentionPointers pointers{.q = from(a.q, a.query_rows),
                                          .k = from(a.k, a.keys),
                                          .v = from(a.v, a.keys),
                                          .y = y_again.raw(),
                                          .log_sums = sums_again.data<float>()};
    const std::int64_t first_row = first * a.queries * width * size_of(dy.dtype());  // in bytes
    if (again) {
      run_dense(device, forward, pointers);
    } else {
      pointers.y = a.y.raw() + first_row;
      pointers.log_sums = a.log_sums.data<float>() + first * a.heads * a.queries;
    }
    pointers.dy = dy.data<const std::byte>() + first_row;
    pointers.dq = from(dq, a.query_rows);
    pointers.dk = from(dk, a.keys);
    pointers.dv = from(dv, a.keys);
    run_dense(device, backward, pointers);
  }
  return true;
}

}  // namespace lacuna
