// Engine and stream for the calls to oneDNN.
#pragma once

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

}  // namespace lacuna::onednn
