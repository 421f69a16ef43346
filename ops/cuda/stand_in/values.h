// Elements of the stand-in's memory as f32.
#pragma once

#include "core/dtype.h"

namespace lacuna::cuda {

inline float value_at(DType dtype, const void* data, std::int64_t i) {
  switch (dtype) {
    case DType::bf16:
      return to_compute(static_cast<const bf16*>(data)[i]);
    case DType::f16:
      return to_compute(static_cast<const f16*>(data)[i]);
    default:
      return static_cast<const float*>(data)[i];
  }
}
inline void set_value(DType dtype, void* data, std::int64_t i, float value) {
  switch (dtype) {
    case DType::bf16:
      static_cast<bf16*>(data)[i] = bf16(value);
      break;
    case DType::f16:
      static_cast<f16*>(data)[i] = f16(value);
      break;
    default:
      static_cast<float*>(data)[i] = value;
  }
}

}  // namespace lacuna::cuda
