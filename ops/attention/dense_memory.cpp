#include "ops/attention/dense_memory.h"

#include "core/tensor.h"
#include "ops/dnn_cuda.h"

#include <algorithm>

namespace lacuna {

bool is_dense(std::int64_t head_dim, DType dtype) {
  constexpr std::int64_t unit = 8, most_head_dim = 128;
  return (dtype == DType::bf16 || dtype == DType::f16) && head_dim % unit == 0 && head_dim <= most_head_dim;
}

void take_dense_memory(bool backward, const DenseExtents& of, DType dtype, Device device) {
  if (device != Device::meta || !is_dense(of.head_dim, dtype)) return;
  cuda::DenseAttention what{};
  what.backward = backward;
  what.samples = of.samples;
  what.heads = of.heads;
  what.queries = of.queries;
  what.keys = of.keys;
  what.head_dim = of.head_dim;
  if (!cuda::has_room(what)) return;
  if (backward) what.samples = std::min(of.samples, cuda::samples_at_once(what));
  const auto take = [&](const Shape& shape, DType type) {
    return Tensor::empty(shape, type, device, Purpose::workspace);
  };
  const Tensor y = take({backward ? what.samples * of.queries : 0, of.heads * of.head_dim}, dtype);
  const Tensor log_sums = take({what.samples, of.heads, of.queries}, DType::f32);
  take({cuda::workspace_for(what)}, DType::u8);
}

}  // namespace lacuna
