// Kernels by device. A header declares each kernel of an op, and one source file per device registers an
// implementation:
//
//   // ops/relu_kernels.h, included by relu.cpp and by relu.cu
//   class Tensor;
//   inline constinit Kernel<void(const Tensor& x, const Tensor& y)> relu_forward{"relu forward"};
//
//   // ops/relu.cpp
//   const RegisterKernel cpu_forward{relu_forward, DeviceKind::cpu, [](const Tensor& x, const Tensor& y) { ... }};
//
//   Tensor Relu::forward(std::span<const Tensor> inputs) const {
//     Tensor y = empty_like(inputs[x]);
//     relu_forward(y.device(), inputs[x], y);
//     return y;
//   }
//
// The op checks shapes and allocates results and workspaces; the kernel only computes. A call costs one indirect call.
//
// If the size of a workspace depends on how a device computes (the packed panels of a matrix product), the kernel
// allocates it. Such a kernel is registered for `meta` too, where it allocates and returns, so that a step on `meta`
// has the same peak:
//
//   const RegisterKernel cpu_gemm{gemm_kernel, {DeviceKind::cpu, DeviceKind::meta}, [](...) {
//     const Tensor packed = Tensor::empty(..., c.device(), Purpose::workspace);
//     if (c.device() == Device::meta) return;
//     ...
//   }};
#pragma once

#include "core/device.h"
#include "core/kernel_scope.h"

#include <array>
#include <initializer_list>
#include <type_traits>
#include <utility>

namespace lacuna {

namespace detail {
[[noreturn]] void throw_missing_kernel(const char* name, Device device);
[[noreturn]] void throw_kernel_registered_twice(const char* name, DeviceKind kind);
}  // namespace detail

template <class Signature>
class Kernel;

template <class... Args>
class Kernel<void(Args...)> {
 public:
  using Function = void (*)(Args...);

  /// `name` is the kernel's name in error messages: the op, and the pass if there are several.
  explicit constexpr Kernel(const char* name) : name_(name) {}
  Kernel(const Kernel&) = delete;
  Kernel& operator=(const Kernel&) = delete;

  /// Runs the implementation for `device`. Without one, throws Error; on `meta` it does nothing.
  void operator()(Device device, Args... args) const {
    const Function function = functions_[static_cast<std::size_t>(device.kind)];
    if (function == nullptr) [[unlikely]] {
      if (device.kind == DeviceKind::meta) return;
      detail::throw_missing_kernel(name_, device);
    }
    const KernelScope scope;
    function(std::forward<Args>(args)...);
  }

  /// Throws Error if `kind` has an implementation already. Called by RegisterKernel before `main`.
  void add(DeviceKind kind, Function function) {
    Function& entry = functions_[static_cast<std::size_t>(kind)];
    if (entry != nullptr) detail::throw_kernel_registered_twice(name_, kind);
    entry = function;
  }

 private:
  const char* name_;
  std::array<Function, device_kind_count> functions_{};
};

template <class Signature>
struct RegisterKernel {
  /// `function` may be a lambda without captures.
  RegisterKernel(Kernel<Signature>& kernel, DeviceKind kind, std::type_identity_t<Signature>* function) {
    kernel.add(kind, function);
  }
  RegisterKernel(Kernel<Signature>& kernel, std::initializer_list<DeviceKind> kinds,
                 std::type_identity_t<Signature>* function) {
    for (const DeviceKind kind : kinds) kernel.add(kind, function);
  }
};

}  // namespace lacuna
