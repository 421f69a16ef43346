// The memory of attention by cuDNN (ops/attention/dense_cuda.h), for a plan on `meta`.
#pragma once

#include "core/device.h"
#include "core/dtype.h"
#include "core/tensor.h"

#include <cstdint>

namespace lacuna {

struct DenseExtents {
  std::int64_t samples, heads, kv_heads, queries, keys, head_dim;
};

/// Whether cuDNN takes heads of this size, in this type.
bool is_dense(std::int64_t head_dim, DType dtype);

/// Takes and releases on `meta` what attention without bias, lengths and dropout takes on cuda; nothing elsewhere.
/// Forward's returns the log sums that it will give, f32 [samples, heads, queries], or an undefined tensor.
Tensor take_dense_forward_memory(const DenseExtents& of, DType dtype, Device device);
/// y, log_sums: those of forward; undefined: computed again.
void take_dense_backward_memory(const DenseExtents& of, const Tensor& y, const Tensor& log_sums, DType dtype,
                                Device device);

}  // namespace lacuna
