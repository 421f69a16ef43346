// The error of a kernel that a device lacks.
#pragma once

#include "core/error.h"

namespace lacuna {

class MissingKernel : public Error {
 public:
  /// `kernel`: its name, which a Kernel has (core/kernel.h).
  MissingKernel(const char* kernel, const std::string& message) : Error(Fault::run, message), kernel_(kernel) {}
  const char* kernel() const { return kernel_; }

 private:
  const char* kernel_;
};

}  // namespace lacuna
