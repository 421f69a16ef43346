#include "ops/attention/dense_memory.h"

#include "ops/dnn_cuda.h"

namespace lacuna {

bool is_dense(std::int64_t head_dim, DType dtype) {
  constexpr std::int64_t unit = 8, most_head_dim = 128;
  return (dtype == DType::bf16 || dtype == DType::f16) && head_dim % unit == 0 && head_dim <= most_head_dim;
}

namespace {

/// Whether a step on `meta` plans for attention by cuDNN.
bool is_planned(const cuda::DenseAttention& what, DType dtype, Device device) {
  return device == Device::meta && is_dense(what.head_dim, dtype) && cuda::has_room(what);
}

cuda::DenseAttention problem_of(bool backward, const DenseExtents& of) {
  cuda::DenseAttention what{};
  what.backward = backward;
  what.samples = of.samples;
  what.heads = of.heads;
  what.kv_heads = of.kv_heads;
  what.queries = of.queries;
  what.keys = of.keys;
  what.head_dim = of.head_dim;
  if (backward) what.samples = cuda::samples_at_once(what);
  return what;
}

Tensor workspace_of(const Shape& shape, DType dtype, Device device) {
  return Tensor::empty(shape, dtype, device, Purpose::workspace);
}

}  // namespace

Tensor take_dense_forward_memory(const DenseExtents& of, DType dtype, Device device) {
  const cuda::DenseAttention what = problem_of(false, of);
  if (!is_planned(what, dtype, device)) return {};
  workspace_of({cuda::workspace_for(what)}, DType::u8, device);
  return Tensor::empty({of.samples, of.heads, of.queries}, DType::f32, device);
}

void take_dense_backward_memory(const DenseExtents& of, const Tensor& y, const Tensor& log_sums, DType dtype,
                                Device device) {
  const cuda::DenseAttention what = problem_of(true, of);
  if (!is_planned(what, dtype, device)) return;
  const bool again = !y.defined() || !log_sums.defined();
  const Tensor y_again = workspace_of({again ? what.samples * of.queries : 0, of.heads * of.head_dim}, dtype, device),
               sums_again = workspace_of({again ? what.samples : 0, of.heads, of.queries}, DType::f32, device);
  workspace_of({cuda::workspace_for(what)}, DType::u8, device);
}

}  // namespace lacuna
