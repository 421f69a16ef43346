// The memory of attention by cuDNN (ops/attention/dense_cuda.h), for a plan on `meta`.
#pragma once

#include "core/device.h"
#include "core/dtype.h"

#include <cstdint>

namespace lacuna {

struct DenseExtents {
  std::int64_t samples, heads, kv_heads, queries, keys, head_dim;
};

/// Whether cuDNN takes heads of this size, in this type.
bool is_dense(std::int64_t head_dim, DType dtype);

/// Takes and releases on `meta` what attention without bias, lengths and dropout takes on cuda; nothing elsewhere.
void take_dense_memory(bool backward, const DenseExtents& of, DType dtype, Device device);

}  // namespace lacuna
