// Distinguishes writes by kernels from other writes. A kernel writes tensors that its op has just created, or tensors
// whose owner raises their version after the call. A write outside of kernels raises the version itself (Tensor::data),
// so that backward detects it.
#pragma once

#include <utility>

namespace lacuna {

/// While this object lives, pointers that this thread takes belong to a kernel. Ops, kernels and parallel loops open
/// one.
class KernelScope {
 public:
  KernelScope() : outer_(std::exchange(is_open_, true)) {}
  ~KernelScope() { is_open_ = outer_; }
  KernelScope(const KernelScope&) = delete;
  KernelScope& operator=(const KernelScope&) = delete;

  static bool is_open() { return is_open_; }

 private:
  static constinit inline thread_local bool is_open_ = false;
  bool outer_;
};

}  // namespace lacuna
