// Engine, stream and types for the calls to oneDNN.
#pragma once

#include "core/dtype.h"
#include "core/error.h"

#include <oneapi/dnnl/dnnl.hpp>

namespace lacuna::onednn {

inline const dnnl::engine& engine() {
  static const dnnl::engine cpu(dnnl::engine::kind::cpu, 0);
  return cpu;
}

inline dnnl::stream& stream() {
  thread_local dnnl::stream in_order(engine());
  return in_order;
}

inline dnnl::memory::data_type type_of(DType dtype) {
  expect(dtype == DType::f32 || dtype == DType::bf16, "oneDNN: expected f32 or bf16, got {}", name_of(dtype));
  return dtype == DType::f32 ? dnnl::memory::data_type::f32 : dnnl::memory::data_type::bf16;
}

}  // namespace lacuna::onednn
