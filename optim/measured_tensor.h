// From a tensor to its entry in the table of norms, for X_cuda.cpp files.
#pragma once

#include "core/tensor.h"
#include "optim/clip_cuda.h"

namespace lacuna::cuda {

inline MeasuredTensor measured(const Tensor& x, std::int64_t index) {
  return {.x = x.data<const std::byte>(), .type = x.dtype(), .count = x.count(), .first_chunk = 0, .index = index};
}

}  // namespace lacuna::cuda
